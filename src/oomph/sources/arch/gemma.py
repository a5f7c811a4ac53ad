"""Gemma 1, 2 and 3, and PaliGemma: norms around attention and MLP, tied embeddings, windows on most layers of 2 and 3.

vLLM: models/gemma.py, gemma2.py, gemma3.py, gemma3_mm.py, paligemma.py.
"""

from msgspec.structs import replace

from oomph.errors import ConfigError, UnknownCache
from oomph.ir import Attention, Block, Layer, Mixer, Modality, Module, Param, Rope, Tower, Vocab
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
    "Gemma2Model": 2,
    "Gemma3ForCausalLM": 3,
    "Gemma3ForConditionalGeneration": 3,
    "Gemma3TextModel": 3,
}


def build(builder: Builder) -> Skeleton:
    arch = next((a for a in builder.config.items("architectures") if isinstance(a, str)), "")
    generation = _GENERATION.get(arch) or (2 if builder.text.text("model_type") == "gemma2" else 1)  # PaliGemma 2 or 1
    text = builder.text
    text.fill(**_SHARED | _DEFAULTS[generation])
    if arch == "PaliGemmaForConditionalGeneration":
        return _paligemma(builder, generation, builder.config.sub("vision_config"))
    if arch == "Gemma3ForConditionalGeneration":
        return _gemma3_mm(builder)
    if arch == "ColPaliForRetrieval":
        return _colpali(builder, generation)
    if arch == "Gemma3TextModel":
        return _embedding(builder)
    if arch == "Gemma2Model":
        return _gemma2_model(builder)
    return _text(builder, generation, "model", "lm_head")


def build_rnj1(builder: Builder) -> Skeleton:
    """Rnj-1: Gemma 3's layers, a head of its own, chunks in place of windows (rnj1.py, 0.32.0)."""
    text = builder.text
    text.fill(**_SHARED | _DEFAULTS[3])
    kinds, count = text.items("layer_types"), text.integer("num_hidden_layers", high=10_000)
    if len(kinds) < count:
        raise ConfigError(f"{text.where}: layer_types does not name {count} layers")
    model = _text(builder, 3, "model", "lm_head")
    window = text.integer("sliding_window", default=0, low=0)

    def mixer(kind: object, layer: Layer) -> Attention:
        own = next(m for m in layer.mixers if isinstance(m, Attention))
        chunked = kind == "chunked_attention"
        return replace(own, kind="sliding_window" if chunked else "full", window=window if chunked else 0)

    layers = tuple(replace(x, mixers=(mixer(kind, x),)) for kind, x in zip(kinds, model.layers))
    return replace(model, layers=layers, params=(*model.params, ("attention_argument", "chunk_lookback")))


def _embedding(builder: Builder) -> Skeleton:
    """EmbeddingGemma: no head; where attention looks both ways there is no cache (gemma3.py:184, 0.21.0)."""
    model = _text(builder, 3, "", "lm_head")
    layers = model.layers
    if builder.text.flag("use_bidirectional_attention"):
        layers = tuple(replace(x, mixers=tuple(_both_ways(m) for m in x.mixers)) for x in layers)
    return Skeleton(layers, _headless(builder, model.root), pooling=True)


def _gemma2_model(builder: Builder) -> Skeleton:
    """config/model.py:1270 (0.32.0): without Sentence Transformers' files the class is the one that generates."""
    model = _text(builder, 2, "", "lm_head")
    if not builder.told.get("modules.json", True):
        return model
    return Skeleton(model.layers, _headless(builder, model.root), pooling=True)


def _headless(builder: Builder, root: Block) -> Block:
    return builder.block([m for m in root.modules if not (isinstance(m, Vocab) and m.role == "lm_head")])


def _both_ways(mixer: Mixer) -> Mixer:
    return replace(mixer, kind="encoder_only", window=0) if isinstance(mixer, Attention) else mixer


def _text(
    builder: Builder,
    generation: int,
    prefix: str,
    head: str,
    towers: tuple[Tower, ...] = (),
    modalities: tuple[Modality, ...] = (),
) -> Skeleton:
    text = builder.text
    hidden, inter = text.integer("hidden_size"), text.integer("intermediate_size")
    heads, kv, head_dim = heads_of(text)
    bias = text.flag("attention_bias")
    types = layer_types(text, {1: 1, 2: 2, 3: 6}[generation])
    attentions = {kind: _attention(text, kind, heads, kv, head_dim) for kind in sorted(set(types))}
    norms = ("input", "post_attention", "pre_feedforward", "post_feedforward")[: 2 if generation == 1 else 4]
    layers = tuple(
        site.layer(
            [attentions[kind]],
            [
                site.qkv(hidden, heads, kv, head_dim, bias=bias),
                site.row("self_attn.o_proj", hidden, heads * head_dim, "attention", bias=bias),
                *(site.norm(f"self_attn.{name}_norm", head_dim) for name in ("qk" if generation == 3 else "")),
                *site.gated_mlp(hidden, inter),
                *(site.norm(f"{name}_layernorm", hidden) for name in norms),
            ],
        )
        for site, kind in zip(builder.sites(f"{prefix}.layers".lstrip("."), len(types)), types)
    )
    tied = builder.config.flag("tie_word_embeddings", default=text.flag("tie_word_embeddings"))
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        embed=f"{prefix}.embed_tokens".lstrip("."),
        norm=f"{prefix}.norm.weight".lstrip("."),
        head=head,
        tied=tied,
        extra=[normalizer(builder, prefix)],
        everywhere=True,  # gemma2.py:263, gemma3.py:306: not left out on any stage
    )
    return Skeleton(tuple(layers), root, towers=towers, modalities=modalities)


def normalizer(builder: Builder, prefix: str) -> Param:
    """gemma2.py: register_buffer("normalizer", sqrt(hidden_size), persistent=False)"""
    return Param(f"{prefix}.normalizer", (), builder.dtype, "other", stored=False, everywhere=True)


def layer_types(text: Config, every: int) -> list[str]:
    """`layer_types`, or each `every`-th layer (sliding_window_pattern) with full attention."""
    count = text.integer("num_hidden_layers", high=10_000)
    types = text.items("layer_types")
    if types:
        if len(types) < count or not all(isinstance(k, str) for k in types):
            raise ConfigError(f"{text.where}: layer_types does not name {count} layers")
        return [str(k) for k in types[:count]]
    every = text.integer("sliding_window_pattern", "_sliding_window_pattern", default=every)
    return ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(count)]


def _attention(text: Config, kind: str, heads: int, kv: int, head_dim: int) -> Attention:
    rope = layer_rope(text, kind, head_dim)
    if kind == "sliding_attention":
        window = text.integer("sliding_window")
        return Attention("sliding_window", heads, kv, head_dim, head_dim, window=window, rope=rope)
    if kind != "full_attention":
        raise ConfigError(f"{text.where}: layer_types has {kind!r}, which is not known")
    return Attention("full", heads, kv, head_dim, head_dim, rope=rope)


def layer_rope(text: Config, kind: str, head_dim: int) -> Rope:
    """gemma3.py:163 (0.21.0): rope parameters by layer type (transformers 5); before that, sliding layers have a base
    of their own and no scaling."""
    table = text.table("rope_parameters", "rope_scaling")
    if isinstance(table.get(kind), dict):
        return rope_of(text, head_dim, params=table[kind])
    local = text.number("rope_local_base_freq", default=0.0)
    if kind == "sliding_attention" and local:
        return rope_of(text, head_dim, params={"rope_type": "default", "rope_theta": local})
    return rope_of(text, head_dim)


def _gemma3_mm(builder: Builder) -> Skeleton:
    config = builder.config.sub("vision_config")
    prefix, outer, head = builder.language_root("language_model.model", "model.language_model")
    tower = siglip(builder, f"{outer}vision_tower.vision_model", config)
    vision, hidden = config.integer("hidden_size"), builder.text.integer("hidden_size")
    site = builder.site(f"{outer}multi_modal_projector")
    projector = [
        site.tensor("mm_input_projection_weight", vision, hidden),
        site.tensor("mm_soft_emb_norm.weight", vision),
    ]
    towers = (tower, site.tower("multi_modal_projector", "vision", [(1, projector)]))
    modalities = (Modality("image", builder.config.integer("mm_tokens_per_image", default=256)),)
    return _text(builder, 3, prefix, head, towers, modalities)


def _colpali(builder: Builder, generation: int) -> Skeleton:
    """colpali.py: PaliGemma, whose config may be nested as vlm_config, and a narrow projection of every token."""
    config = builder.config
    nested = config.sub("vlm_config")
    vision = config.sub("vision_config") if config.has("vision_config") else nested.sub("vision_config")
    model = _paligemma(builder, generation, vision)
    wide = config.integer("hidden_size", default=nested.integer("hidden_size", default=2048))
    narrow = config.integer("embedding_dim", "embed_dim", "dim", "colbert_dim", default=128)
    # a pooling model's head is float32
    shape = (narrow, wide)
    project = Param("custom_text_proj.weight", shape, builder.dtype, "lm_head", created_dtype="F32", everywhere=True)
    root = builder.block([*model.root.modules, project])
    return replace(model, root=root, pooling=True, params=(("pools_first", 1),))  # default_pooling_type("CLS")


def _paligemma(builder: Builder, generation: int, vision: Config) -> Skeleton:
    """paligemma.py: the encoder without its last norm where layers are dropped; one linear projector."""
    prefix, outer, head = builder.language_root("language_model.model", "model.language_model")
    tower = siglip(builder, f"{outer}vision_tower.vision_model", vision)
    width = vision.integer("projection_dim", default=builder.config.integer("projection_dim", default=2048))
    site = builder.site(f"{outer}multi_modal_projector")
    projector = [
        site.replicated("linear", width, vision.integer("hidden_size"), "multimodal", bias=True, quantised=False)
    ]
    towers = (tower, site.tower("multi_modal_projector", "vision", [(1, projector)]))
    builder.text.fill(vocab_size=builder.config.integer("vocab_size", default=257152))
    modalities = (Modality("image", patches(vision)),)
    return _text(builder, generation, prefix, head, towers, modalities)


# EmbeddingGemma 2: looks both ways, inputs for each layer made from the embedding, sizes of their own on some layers.
#
# vLLM: models/embedding_gemma2.py (0.32.0). Its image and sound encoders are transformers' own and not planned.


def build_embedding2(builder: Builder) -> Skeleton:
    text = builder.text
    for tower in ("vision_config", "audio_config"):
        if builder.config.has(tower):
            raise UnknownCache(f"{builder.config.where}: EmbeddingGemma 2 with a {tower} is not planned yet")
    text.fill(  # EmbeddingGemma2TextConfig
        vocab_size=262144, hidden_size=512, intermediate_size=2048, num_hidden_layers=24, num_attention_heads=4,
        num_key_value_heads=2, head_dim=256, max_position_embeddings=262144, hidden_size_per_layer_input=512,
        embedding_dim=768,
    )  # fmt: skip
    hidden, heads, count = (text.integer(k) for k in ("hidden_size", "num_attention_heads", "num_hidden_layers"))
    wide = {"head_dim": 512, "num_key_value_heads": 1}  # the class's own, on every sixth layer
    own = text.table("per_layer_config") or {f"{i:02d}": wide for i in range(5, count, 6)}
    rank = text.integer("hidden_size_per_layer_input")
    layers = []
    for site in builder.sites("layers"):
        sizes = own.get(f"{site.index:02d}", own.get(str(site.index)))
        sizes = Config(sizes if isinstance(sizes, dict) else {}, f"{text.where}, per_layer_config")
        kv = sizes.integer("num_key_value_heads", default=text.integer("num_key_value_heads"))
        width = sizes.integer("head_dim", default=text.integer("head_dim"))
        rope = replace(
            rope_of(text, width, params={"rope_theta": 1e4 if width == text.integer("head_dim") else 1e6}), capped=True
        )
        modules = [
            site.qkv(hidden, heads, kv, width),
            site.row("self_attn.o_proj", hidden, heads * width, "attention"),
            site.norm("self_attn.q_norm", width),
            site.norm("self_attn.k_norm", width),
            *site.gated_mlp(hidden, text.integer("intermediate_size")),
            site.replicated("per_layer_input_gate", rank, hidden, "other"),
            site.replicated("per_layer_projection", hidden, rank, "other"),
            *(site.norm(name, hidden) for name in _EMBEDDING2_NORMS),
            Param("layer_scalar", (1,), builder.dtype, "other"),
        ]
        layers.append(site.layer([Attention("encoder_only", heads, kv, width, width, rope=rope)], modules))
    site = builder.site("")
    root: list[Module] = [
        Vocab("embed_tokens", text.integer("vocab_size"), hidden, builder.dtype, "embed"),
        Param("norm.weight", (hidden,), builder.dtype, "norm"),
        site.column("per_layer_model_projection", count * rank, hidden, "other"),
        Param("per_layer_projection_norm.weight", (rank,), builder.dtype, "norm"),
        site.replicated("embedding_projection", text.integer("embedding_dim"), hidden, "other"),
        Param("embed_scale", (1,), builder.dtype, "other", stored=False),
    ]
    # config.py:312 (0.32.0): no longer than this where no flag asks for more
    longest = min(8192, text.integer("max_position_embeddings"))
    params = (("derived_max_len", longest), ("max_len_key", "max_position_embeddings"))
    return Skeleton(tuple(layers), builder.block(root), pooling=True, max_position=longest, params=params)


_EMBEDDING2_NORMS = (
    "post_per_layer_input_norm", "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)  # fmt: skip
