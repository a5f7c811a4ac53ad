"""Step 3.7: gated attention, windows, experts behind three dense layers, a perception encoder.

vLLM: models/step3p7.py, step3p5.py, step_vl.py (0.32.0).
"""

from __future__ import annotations

from oomph.ir.model import Attention, Block, Experts, Layer, Linear, Modality, Module, Param, Part, Tower, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.decoder import Style, layer_kinds
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config

# Step3p7TextConfig and Step3p7VisionConfig. The config class nests: what stands outside text_config does not reach
# the language model, so a flat config.json is all defaults.
_TEXT = {
    "vocab_size": 128815,
    "hidden_size": 4096,
    "intermediate_size": 11264,
    "num_hidden_layers": 45,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 128000,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 1280,
    "n_routed_experts": 288,
    "share_expert_dim": 1280,
}
_VISION = {
    "hidden_size": 1536,
    "num_hidden_layers": 47,
    "num_attention_heads": 16,
    "image_size": 728,
    "patch_size": 14,
    "mlp_ratio": 8960 / 1536,
}
_DENSE = 3  # layers before the first with experts


def build(b: Builder) -> Skeleton:
    t = b.config.sub("text_config")
    t.fill(**_TEXT)
    v = b.config.sub("vision_config")
    v.fill(**_VISION)
    kinds = layer_kinds(t, Style())
    sparse = [k == "sparse" for k in t.items("mlp_layer_types")]
    if len(sparse) < len(kinds):
        sparse = [i >= _DENSE for i in range(len(kinds))]
    layers = tuple(_layer(b, t, i, kind, sparse[i]) for i, kind in enumerate(kinds))
    side = v.integer("image_size") // v.integer("patch_size") // 4
    return Skeleton(
        layers,
        _root(b, t),
        towers=(_vision(b, v), _projector(b, t, v)),
        modalities=(Modality("image", side * side),),
    )


def _root(b: Builder, t: Config) -> Block:
    hidden, rows = t.integer("hidden_size"), t.integer("vocab_size")
    return b.block(
        [
            Vocab("model.embed_tokens", rows, hidden, b.dtype, "embed"),
            Param("model.norm.weight", (hidden,), b.dtype, "norm"),
            Vocab("lm_head", rows, hidden, b.dtype, "lm_head"),
        ]
    )


def _layer(b: Builder, t: Config, index: int, kind: str, sparse: bool) -> Layer:
    hidden = t.integer("hidden_size")
    heads, kv, head_dim = heads_of(t)
    window = t.integer("sliding_window", default=0, low=0) if kind == "sliding_attention" else 0
    if window:
        heads = t.integer("num_sliding_attention_heads", default=heads)
    s = b.site(f"model.layers.{index}")
    modules: list[Module] = [
        s.qkv(hidden, heads, kv, head_dim, bias=t.flag("attention_bias")),
        s.row("self_attn.o_proj", hidden, heads * head_dim, "attention"),
        s.norm("self_attn.q_norm", head_dim),
        s.norm("self_attn.k_norm", head_dim),
        s.column("self_attn.g_proj", heads, hidden, "attention"),
        *(_experts(s, t) if sparse else s.gated_mlp(hidden, t.integer("intermediate_size"))),
        s.norm("input_layernorm", hidden),
        s.norm("post_attention_layernorm", hidden),
    ]
    attention = Attention(
        "sliding_window" if window else "full", heads, kv, head_dim, head_dim, window=window, rope=rope_of(t, head_dim)
    )
    return b.layer(index, s.prefix, [attention], modules)


def _experts(s: Site, t: Config) -> list[Module]:
    """The router is built in float32. The FP8 release keeps the experts, one tensor a projection, in BF16."""
    hidden, count, inner = t.integer("hidden_size"), t.integer("n_routed_experts"), t.integer("moe_intermediate_size")
    top_k, dtype = t.integer("num_experts_per_tok"), s.b.dtype
    return [
        Linear("moe.gate", (Part("moe.gate", count),), hidden, "replicated", "router", dtype, created_dtype="F32"),
        Param("moe.router_bias", (count,), dtype, "router", created_dtype="F32"),
        *s.gated_mlp(hidden, t.integer("share_expert_dim"), at="share_expert", role="shared_experts"),
        Experts("moe", count, hidden, inner, top_k, dtype, layout="stacked"),
    ]


def _vision(b: Builder, v: Config) -> Tower:
    width, heads = v.integer("width", "hidden_size"), v.integer("heads", "num_attention_heads")
    count, patch = v.integer("layers", "num_hidden_layers", high=10_000), v.integer("patch_size")
    inner = int(width * v.number("mlp_ratio", default=8960 / 1536))
    side = v.integer("image_size") // patch
    s = b.site("vision_model")
    first: list[Module] = [
        Param("conv1.weight", (width, 3, patch, patch), b.dtype, "multimodal"),
        *layer_norm(s, "ln_pre", width),
    ]
    at = "transformer.resblocks.0"
    layer: list[Module] = [
        Param(f"{at}.attn.in_proj_weight", (3 * width, width), b.dtype, "multimodal", shard_dim=0, heads=heads),
        Param(f"{at}.attn.in_proj_bias", (3 * width,), b.dtype, "multimodal", shard_dim=0, heads=heads),
        s.row(f"{at}.attn.out_proj", width, width, "multimodal", bias=True),
        # step_vl.py: every layer registers its own table of frequencies
        Param(f"{at}.attn.rope.freqs_cache", (side * side, width // heads), "F32", "multimodal", stored=False,
              created_dtype="F32"),
        Param(f"{at}.ls_1.gamma", (width,), b.dtype, "multimodal"),
        Param(f"{at}.ls_2.gamma", (width,), b.dtype, "multimodal"),
        *layer_norm(s, f"{at}.ln_1", width),
        *layer_norm(s, f"{at}.ln_2", width),
        s.column(f"{at}.mlp.c_fc", inner, width, "multimodal", bias=True),
        s.row(f"{at}.mlp.c_proj", width, inner, "multimodal", bias=True),
    ]  # fmt: skip
    last: list[Module] = []
    for n, name in ((1, "vit_downsampler1"), (2, "vit_downsampler2")):
        last.append(Param(f"{name}.weight", (2 * n * width, n * width, 3, 3), b.dtype, "multimodal"))
        last.append(Param(f"{name}.bias", (2 * n * width,), b.dtype, "multimodal"))
    last.append(Param("positional_embedding", (side * side, width), b.dtype, "multimodal"))
    blocks = ((1, b.block(first)), (count, b.block(layer)), (1, b.block(last)))
    return Tower("vision_model", "vision", s.prefix, blocks, count, width, inner, heads)


def _projector(b: Builder, t: Config, v: Config) -> Tower:
    name, width = "vit_large_projector", 4 * v.integer("width", "hidden_size")
    part = Part(name, t.integer("hidden_size"))
    bias = b.config.flag("projector_bias")
    linear = Linear(name, (part,), width, "column", "multimodal", b.dtype, bias, b.scheme([name]))
    return Tower(name, "vision", "", ((1, b.block([linear])),))
