"""MiniMax-M3: block-sparse attention with an index branch inside the fused projection, a shared expert, a vision tower.

vLLM: models/minimax_m3/ (0.32.0).
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Indexer, Layer, Linear, Modality, Module, Param, Routing, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of
from oomph.sources.arch.mla import score_correction
from oomph.sources.arch.rope import rope_of
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config


def build(b: Builder) -> Skeleton:
    t = b.text
    heads, kv, width = heads_of(t)
    t.fill(partial_rotary_factor=t.integer("rotary_dim", default=width) / width)
    wrapped = t is not b.config
    prefix = "language_model.model" if wrapped else "model"
    full = Attention("full", heads, kv, width, width, rope=rope_of(t, width))
    sparse = replace(full, indexer=_indexer(t.sub("sparse_attention_config")))
    count = t.integer("num_hidden_layers", high=10_000)
    indexed = _switches(t.sub("sparse_attention_config"), "sparse_attention_freq", count)
    routed = _switches(t, "moe_layer_freq", count)
    layers = tuple(_layer(b, prefix, i, sparse if indexed[i] else full, routed[i]) for i in range(count))
    root = b.head(
        t.integer("vocab_size"),
        t.integer("hidden_size"),
        embed=f"{prefix}.embed_tokens",
        norm=f"{prefix}.norm.weight",
        head="language_model.lm_head" if wrapped else "lm_head",
        tied=t.flag("tie_word_embeddings"),
    )
    drafts = _drafts(b, f"{prefix}.mtp", sparse) if wrapped else ()
    if not wrapped or not b.config.has("vision_config"):
        return Skeleton(layers, root, drafts)
    v = b.config.sub("vision_config")
    side = v.integer("image_size", default=2016) // (2 * v.integer("patch_size", default=14))
    return Skeleton(layers, root, drafts, towers=_towers(b, v), modalities=(Modality("image", side * side),))


def _indexer(c: Config) -> Indexer:
    top_k = c.integer("sparse_topk_blocks", default=16) * c.integer("sparse_block_size", default=128)
    return Indexer(c.integer("sparse_num_index_heads", default=4), c.integer("sparse_index_dim", default=128), top_k)


def _switches(c: Config, key: str, count: int) -> list[bool]:
    given = c.integers(key)
    if given and len(given) < count:
        raise ConfigError(f"{c.where}: {key} does not name {count} layers")
    return [bool(x) for x in given[:count]] if given else [True] * count


def _drafts(b: Builder, prefix: str, sparse: Attention) -> tuple[Layer, ...]:
    """nvidia/mtp.py: a sparse layer between norms; embedding and head are the target's. Not every checkpoint has it."""
    hidden, out = b.text.integer("hidden_size"), []
    stored = b.stores(f"{prefix}.", False)
    for i in range(b.text.integer("num_mtp_modules", default=0, low=0, high=100)):
        s = b.site(f"{prefix}.layers.{i}")
        inner = _modules(b, b.site(f"{s.prefix}.transformer_layer"), sparse, routed=True)
        modules = [
            *(s.norm(name, hidden) for name in ("enorm", "hnorm", "final_layernorm")),
            s.replicated("eh_proj", hidden, 2 * hidden, "other", quantised=False),
            *inner,
        ]
        out.append(b.layer(i, s.prefix, [sparse], modules if stored else [_unstored(m) for m in modules]))
    return tuple(out)


def _unstored(m: Module) -> Module:
    if isinstance(m, Linear):
        return replace(m, parts=tuple(replace(p, stored=False) for p in m.parts))
    return replace(m, stored=False)


def _layer(b: Builder, prefix: str, index: int, mixer: Attention, routed: bool) -> Layer:
    s = b.site(f"{prefix}.layers.{index}")
    return b.layer(index, s.prefix, [mixer], _modules(b, s, mixer, routed=routed))


def _modules(b: Builder, s: Site, mixer: Attention, *, routed: bool) -> list[Module]:
    t = b.text
    hidden, width, at = t.integer("hidden_size"), mixer.head_dim, "self_attn"
    parts = [
        (f"{at}.q_proj", mixer.num_heads * width, mixer.num_heads),
        (f"{at}.k_proj", mixer.num_kv_heads * width, mixer.num_kv_heads),
        (f"{at}.v_proj", mixer.num_kv_heads * width, mixer.num_kv_heads),
    ]
    norms = [s.norm(f"{at}.q_norm", width), s.norm(f"{at}.k_norm", width)]
    if mixer.indexer is not None:
        wide = mixer.indexer.head_dim
        parts += [
            (f"{at}.index_q_proj", mixer.indexer.heads * wide, mixer.indexer.heads),
            (f"{at}.index_k_proj", wide, 1),
        ]
        norms += [s.norm(f"{at}.index_q_norm", wide), s.norm(f"{at}.index_k_norm", wide)]
    modules: list[Module] = [
        s.linear(f"{at}.qkv_proj", parts, hidden, "column", "attention"),
        s.row(f"{at}.o_proj", hidden, mixer.num_heads * width, "attention"),
        *norms,
    ]
    modules += _moe(s, t) if routed else s.gated_mlp(hidden, t.integer("dense_intermediate_size", "intermediate_size"))
    return [*modules, s.norm("input_layernorm", hidden), s.norm("post_attention_layernorm", hidden)]


def _moe(s: Site, t: Config) -> list[Module]:
    hidden, count, at = t.integer("hidden_size"), t.integer("num_local_experts"), "block_sparse_moe"
    gate = s.replicated(f"{at}.gate", count, hidden, "router", quantised=False)
    shared = t.integer("n_shared_experts", default=0, low=0) * t.integer("shared_intermediate_size", default=0, low=0)
    modules: list[Module] = [
        score_correction(f"{at}.e_score_correction_bias", count),
        replace(gate, created_dtype="F32"),
    ]
    if shared:
        modules += s.gated_mlp(hidden, shared, at=f"{at}.shared_experts", role="shared_experts")
    inter = t.integer("moe_intermediate_size", "intermediate_size")
    top_k = t.integer("num_experts_per_tok")
    experts = s.experts(
        count,
        hidden,
        inter,
        top_k,
        at=f"{at}.experts",
        projections=("w1", "w3", "w2"),
        activation="swigluoai_uninterleave",
        routing=Routing("sigmoid", biased=True),
    )
    return [*modules, experts]


def _towers(b: Builder, v: Config) -> tuple[Tower, ...]:
    hidden, inter = v.integer("hidden_size", default=1280), v.integer("intermediate_size", default=5120)
    heads, count = v.integer("num_attention_heads", default=16), v.integer("num_hidden_layers", default=32)
    patch = v.integer("patch_size", default=14)
    s = b.site("vision_tower.vision_model")
    first: list[Module] = [
        Param("embeddings.patch_embedding.weight", (hidden, 3, 2, patch, patch), b.dtype, "multimodal"),
        *layer_norm(s, "pre_layrnorm", hidden),
        *[
            Param(f"inv_freq_{n}", (hidden // heads // 6,), "F32", "multimodal", stored=False, created_dtype="F32")
            for n in ("t", "h", "w")
        ],
    ]
    at = "encoder.layers.0."
    layer: list[Module] = [
        *layer_norm(s, f"{at}layer_norm1", hidden),
        s.qkv(hidden, heads, heads, hidden // heads, at=f"{at}self_attn", bias=True, role="multimodal"),
        s.row(f"{at}self_attn.out_proj", hidden, hidden, "multimodal", bias=True),
        *layer_norm(s, f"{at}layer_norm2", hidden),
        s.column(f"{at}mlp.fc1", inter, hidden, "multimodal", bias=True),
        s.row(f"{at}mlp.fc2", hidden, inter, "multimodal", bias=True),
    ]
    blocks = ((1, b.block(first)), (count, b.block(layer)))
    tower = Tower("vision_tower", "vision", s.prefix, blocks, count, hidden, inter, heads)
    text = b.text.integer("hidden_size")
    wide = b.config.integer("projector_hidden_size", default=text)
    pairs = (("multi_modal_projector", hidden), ("patch_merge_mlp", 4 * text))
    return (tower, *(_pair(b, name, inputs, wide, text) for name, inputs in pairs))


def _pair(b: Builder, name: str, inputs: int, wide: int, out: int) -> Tower:
    s = b.site(name)
    modules = [
        s.column("linear_1", wide, inputs, "multimodal", bias=True),
        s.row("linear_2", out, wide, "multimodal", bias=True),
    ]
    return Tower(name, "vision", name, ((1, b.block(modules)),))
