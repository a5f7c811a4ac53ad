"""Ernie 4.5 VL: experts for text and experts for images in every layer. vLLM: models/ernie45_vl.py,
ernie45_vl_moe.py."""

from oomph.ir import Attention, Linear, Modality, Module, Param, Part, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import Style, attention_modules, decoder_root, dense_mlp, dims, fill
from oomph.sources.arch.towers import TowerStyle, styled_tower
from oomph.sources.config import Config

_ERNIE = Style(
    o_bias=False,
    defaults=(("tie_word_embeddings", True), ("max_position_embeddings", 131072)),
    aliases=(("use_bias", "attention_bias"), ("use_bias", "mlp_bias")),
)
_ERNIE_VISION = TowerStyle(
    sizes=(
        ("H", "embed_dim=1280"), ("A", "num_heads=16"), ("N", "depth=32"), ("P", "patch_size=14"), ("R", "mlp_ratio=4"),
        ("I", "intermediate_size=H*R"),
    ),
    name="vision_model",
    rows="""
        patch_embed.proj            whole!   H 3*P*P
        rotary_pos_emb.inv_freq     float32  F
      each N
        blocks.0.norm1              norm+    H
        blocks.0.norm2              norm+    H
        blocks.0.attn.qkv           qkv+     H A
        blocks.0.attn.proj          row+     H H
        blocks.0.mlp.fc1            column+  I H
        blocks.0.mlp.fc2            row+     H I
      then
        ln                          norm+    H
    """,
)  # fmt: skip
_RESAMPLER = TowerStyle(
    name="resampler_model",
    rows="""
        spatial_linear.0      column+   E E
        spatial_linear.2      column+   E E
        spatial_linear.3      norm+     E
        temporal_linear.0     column+   E T*E    if time
        temporal_linear.2     column+   E E      if time
        temporal_linear.3     norm+     E        if time
        mlp                   column+   O E
        after_norm            norm      O
    """,
)


def build_ernie(builder: Builder) -> Skeleton:
    config, text, vision = builder.config, builder.text, builder.config.sub("vision_config")
    fill(builder, _ERNIE)
    heads, kv, width = dims(text, _ERNIE)
    hidden, attention = text.integer("hidden_size"), Attention("full", heads, kv, width, width)
    dense = dense_mlp(builder, _ERNIE)
    layers = []
    for site in builder.sites("model.layers"):
        # ernie45_vl_moe.py: every layer has a rotary table of its own
        rows = 4 * text.integer("max_position_embeddings")
        table = Param("self_attn.rotary_emb.cos_sin_cache", (rows, width), builder.dtype, "attention", stored=False)
        modules = [
            *attention_modules(builder, site, _ERNIE, heads, kv, width),
            table,
            *(_ernie_experts(site, text) if _is_sparse(text, site.index) else dense(site, site.index)),
            *(site.norm(name, hidden) for name in ("input_layernorm", "post_attention_layernorm")),
        ]
        layers.append(site.layer([attention], modules))
    side = config.integer("spatial_conv_size", default=2)
    pixel = config.integer("pixel_hidden_size", default=vision.integer("hidden_size", default=1280))
    between = {
        "E": pixel * side * side, "T": config.integer("temporal_conv_size", default=2), "O": hidden,
        "time": int(config.flag("use_temporal_conv", default=True)),
    }  # fmt: skip
    own = {"F": vision.integer("embed_dim", default=1280) // vision.integer("num_heads", default=16) // 4}
    names = ("im_patch_id", "image_start_token_id", "image_end_token_id", "video_start_token_id", "video_end_token_id")
    numbers = sum(config.has(name) for name in names) if config.has("im_patch_id") else 0
    ids = Param("visual_token_ids", (numbers,), "I64", "other", stored=False, created_dtype="I64", everywhere=True)
    root = decoder_root(builder, _ERNIE)
    unit = vision.integer("patch_size", default=14) * side
    return Skeleton(
        tuple(layers),
        builder.block([*root.modules, *([ids] if numbers else [])]),
        towers=(
            styled_tower(builder, _ERNIE_VISION, "vision_model", vision, own),
            styled_tower(builder, _RESAMPLER, "model.resampler_model", vision, between),
        ),
        modalities=(Modality("image", 12_845_056 // unit**2), Modality("video", 12_845_056 // unit**2)),
    )


def _pair(text: Config, key: str, default: int) -> tuple[int, int]:
    """A number for both kinds of experts, or one for each: text, images."""
    values = text.integers(key) if isinstance(text.get(key), list) else [text.integer(key, default=default, low=0)]
    return values[0], values[-1]


def _is_sparse(text: Config, index: int) -> bool:
    first, last = min(_pair(text, "moe_layer_start_index", 0)), max(_pair(text, "moe_layer_end_index", 1 << 30))
    step = text.integer("moe_layer_interval", default=1)
    return min(_pair(text, "moe_num_experts", 0)) > 0 and first <= index <= last and (index + 1) % step == 0


def _ernie_experts(site: Site, text: Config) -> list[Module]:
    hidden, top_k, shared = (
        text.integer("hidden_size"),
        text.integer("moe_k", default=6),
        text.integer("moe_num_shared_experts", default=0, low=0),
    )
    counts, widths = _pair(text, "moe_num_experts", 64), _pair(text, "moe_intermediate_size", 512)
    bias = Param("mlp.moe_statics.e_score_correction_bias", (2, counts[0]), "F32", "router", created_dtype="F32")
    modules: list[Module] = [bias]
    if shared:
        modules += site.gated_mlp(hidden, widths[0] * shared, at="mlp.shared_experts", role="shared_experts")
    for kind, count, inner in zip(("text", "vision"), counts, widths, strict=True):
        gate = Part(f"mlp.{kind}_gate", count)
        modules += [
            Linear(gate.name, (gate,), hidden, "replicated", "router", "F32", created_dtype="F32"),
            site.experts(count, hidden, inner, top_k, at=f"mlp.{kind}_experts", routing=Routing(biased=True)),
        ]
    return modules
