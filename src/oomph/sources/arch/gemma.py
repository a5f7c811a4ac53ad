"""Gemma 1, 2 and 3, and PaliGemma: norms around attention and MLP, tied embeddings, windows on most layers of 2 and 3.

vLLM: models/gemma.py, gemma2.py, gemma3.py, gemma3_mm.py, paligemma.py.
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Mixer, Modality, Module, Param, Rope, Tower, Vocab
from oomph.sources.arch.base import Builder, Skeleton, heads_of, rope_of
from oomph.sources.arch.siglip import patches, siglip
from oomph.sources.config import Config

# Defaults of the transformers config classes: GemmaConfig, Gemma2Config, Gemma3TextConfig.
_SHARED: dict[str, object] = {"head_dim": 256, "rope_theta": 10000.0, "tie_word_embeddings": True}
_DEFAULTS: dict[int, dict[str, object]] = {
    1: {
        "vocab_size": 256000,
        "hidden_size": 3072,
        "intermediate_size": 24576,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "max_position_embeddings": 8192,
    },
    2: {
        "vocab_size": 256000,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 8192,
        "sliding_window": 4096,
    },
    3: {
        "vocab_size": 262208,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
        "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0,
    },
}
_GENERATION = {
    "GemmaForCausalLM": 1,
    "Gemma2ForCausalLM": 2,
    "Gemma3ForCausalLM": 3,
    "Gemma3ForConditionalGeneration": 3,
    "Gemma3TextModel": 3,
}


def build(b: Builder) -> Skeleton:
    arch = next((a for a in b.config.items("architectures") if isinstance(a, str)), "")
    generation = _GENERATION.get(arch) or (2 if b.text.text("model_type") == "gemma2" else 1)  # PaliGemma 2 or 1
    t = b.text
    t.fill(**_SHARED | _DEFAULTS[generation])
    if arch == "PaliGemmaForConditionalGeneration":
        return _paligemma(b, generation)
    if arch == "Gemma3ForConditionalGeneration":
        return _gemma3_mm(b)
    if arch == "Gemma3TextModel":
        return _embedding(b)
    return _text(b, generation, "model", "lm_head")


def _embedding(b: Builder) -> Skeleton:
    """EmbeddingGemma: no head; where attention looks both ways there is no cache (gemma3.py:184, 0.21.0)."""
    made = _text(b, 3, "", "lm_head")
    layers = made.layers
    if b.text.flag("use_bidirectional_attention"):
        layers = tuple(replace(x, mixers=tuple(_both_ways(m) for m in x.mixers)) for x in layers)
    kept = [m for m in made.root.modules if not (isinstance(m, Vocab) and m.role == "lm_head")]
    return Skeleton(layers, b.block(kept), pooling=True)


def _both_ways(mixer: Mixer) -> Mixer:
    return replace(mixer, kind="encoder_only", window=0) if isinstance(mixer, Attention) else mixer


def _text(
    b: Builder,
    generation: int,
    prefix: str,
    head: str,
    towers: tuple[Tower, ...] = (),
    modalities: tuple[Modality, ...] = (),
) -> Skeleton:
    t = b.text
    hidden, inter = t.integer("hidden_size"), t.integer("intermediate_size")
    heads, kv, head_dim = heads_of(t)
    bias = t.flag("attention_bias")
    types = layer_types(t, {1: 1, 2: 2, 3: 6}[generation])
    attentions = {kind: _attention(t, kind, heads, kv, head_dim) for kind in sorted(set(types))}
    layers = []
    for i, kind in enumerate(types):
        s = b.site(f"{prefix}.layers.{i}".lstrip("."))
        modules: list[Module] = [
            s.qkv(hidden, heads, kv, head_dim, bias=bias),
            s.row("self_attn.o_proj", hidden, heads * head_dim, "attention", bias=bias),
        ]
        if generation == 3:
            modules += [s.norm("self_attn.q_norm", head_dim), s.norm("self_attn.k_norm", head_dim)]
        modules += s.gated_mlp(hidden, inter)
        modules += [s.norm("input_layernorm", hidden), s.norm("post_attention_layernorm", hidden)]
        if generation > 1:
            modules += [s.norm("pre_feedforward_layernorm", hidden), s.norm("post_feedforward_layernorm", hidden)]
        layers.append(b.layer(i, s.prefix, [attentions[kind]], modules))
    tied = b.config.flag("tie_word_embeddings", default=t.flag("tie_word_embeddings"))
    root = b.head(
        t.integer("vocab_size"),
        hidden,
        embed=f"{prefix}.embed_tokens".lstrip("."),
        norm=f"{prefix}.norm.weight".lstrip("."),
        head=head,
        tied=tied,
        extra=[normalizer(b, prefix)],
        everywhere=True,  # gemma2.py:263, gemma3.py:306: not left out on any stage
    )
    return Skeleton(tuple(layers), root, towers=towers, modalities=modalities)


def normalizer(b: Builder, prefix: str) -> Param:
    """gemma2.py: register_buffer("normalizer", sqrt(hidden_size), persistent=False)"""
    return Param(f"{prefix}.normalizer", (), b.dtype, "other", stored=False, everywhere=True)


def layer_types(t: Config, every: int) -> list[str]:
    """`layer_types`, or each `every`-th layer (sliding_window_pattern) with full attention."""
    count = t.integer("num_hidden_layers", high=10_000)
    types = t.items("layer_types")
    if types:
        if len(types) < count or not all(isinstance(k, str) for k in types):
            raise ConfigError(f"{t.where}: layer_types does not name {count} layers")
        return [str(k) for k in types[:count]]
    every = t.integer("sliding_window_pattern", "_sliding_window_pattern", default=every)
    return ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(count)]


def _attention(t: Config, kind: str, heads: int, kv: int, head_dim: int) -> Attention:
    rope = layer_rope(t, kind, head_dim)
    if kind == "sliding_attention":
        window = t.integer("sliding_window")
        return Attention("sliding_window", heads, kv, head_dim, head_dim, window=window, rope=rope)
    if kind != "full_attention":
        raise ConfigError(f"{t.where}: layer_types has {kind!r}, which is not known")
    return Attention("full", heads, kv, head_dim, head_dim, rope=rope)


def layer_rope(t: Config, kind: str, head_dim: int) -> Rope:
    """gemma3.py:163 (0.21.0): rope parameters by layer type (transformers 5); before that, sliding layers have a base
    of their own and no scaling."""
    table = t.table("rope_parameters", "rope_scaling")
    if isinstance(table.get(kind), dict):
        return rope_of(t, head_dim, params=table[kind])
    local = t.number("rope_local_base_freq", default=0.0)
    if kind == "sliding_attention" and local:
        return rope_of(t, head_dim, params={"rope_type": "default", "rope_theta": local})
    return rope_of(t, head_dim)


def _gemma3_mm(b: Builder) -> Skeleton:
    v = b.config.sub("vision_config")
    prefix = b.root("language_model.model", "model.language_model")
    outer = "model." if prefix.startswith("model.") else ""
    tower = siglip(b, f"{outer}vision_tower.vision_model", v)
    vision, hidden = v.integer("hidden_size"), b.text.integer("hidden_size")
    projector = [
        Param("mm_input_projection_weight", (vision, hidden), b.dtype, "multimodal"),
        Param("mm_soft_emb_norm.weight", (vision,), b.dtype, "multimodal"),
    ]
    towers = (
        tower,
        Tower("multi_modal_projector", "vision", f"{outer}multi_modal_projector", ((1, b.block(projector)),)),
    )
    modalities = (Modality("image", b.config.integer("mm_tokens_per_image", default=256)),)
    head = "lm_head" if outer else "language_model.lm_head"
    return _text(b, 3, prefix, head, towers, modalities)


def _paligemma(b: Builder, generation: int) -> Skeleton:
    """paligemma.py: the encoder without its last norm where layers are dropped; one linear projector."""
    v = b.config.sub("vision_config")
    prefix = b.root("language_model.model", "model.language_model")
    outer = "model." if prefix.startswith("model.") else ""
    tower = siglip(b, f"{outer}vision_tower.vision_model", v)
    width = v.integer("projection_dim", default=b.config.integer("projection_dim", default=2048))
    s = b.site(f"{outer}multi_modal_projector")
    projector = [s.column("linear", width, v.integer("hidden_size"), "multimodal", bias=True, quantised=False)]
    towers = (tower, Tower("multi_modal_projector", "vision", s.prefix, ((1, b.block(projector)),)))
    b.text.fill(vocab_size=b.config.integer("vocab_size", default=257152))
    modalities = (Modality("image", patches(v)),)
    return _text(b, generation, prefix, "lm_head" if outer else "language_model.lm_head", towers, modalities)
