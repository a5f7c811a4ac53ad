"""Muse Glimmer: sandwich norms, gated attention, global layers without rope, a vision encoder.

vLLM: models/muse_glimmer.py (0.32.0).
"""

from __future__ import annotations

from oomph.ir.model import Attention, Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton, heads_of, rope_of
from oomph.sources.arch.decoder import ALL_STAGES, Style, decoder_root, layer_kinds
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config

_NORMS = (
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)
_STYLE = Style(everywhere=ALL_STAGES)


def build(b: Builder) -> Skeleton:
    t = b.text
    hidden, inner = t.integer("hidden_size"), t.integer("intermediate_size")
    heads, kv, head_dim = heads_of(t)
    whole = Attention("full", heads, kv, head_dim, head_dim)
    prefix = "model.language_model"
    layers = []
    for i, kind in enumerate(layer_kinds(t, Style(every=4))):
        local = kind == "sliding_attention"
        s = b.site(f"{prefix}.layers.{i}")
        modules: list[Module] = [
            s.qkv(hidden, heads, kv, head_dim),
            s.row("self_attn.o_proj", hidden, heads * head_dim, "attention"),
            s.column("self_attn.gate_proj", heads * head_dim, hidden, "attention"),
            *s.gated_mlp(hidden, inner),
            *(s.norm(name, hidden) for name in _NORMS),
        ]
        layers.append(b.layer(i, s.prefix, [_local(t, heads, kv, head_dim) if local else whole], modules))
    towers = (_vision(b, b.config.sub("vision_config")), _projector(b, b.config.sub("vision_config")))
    return Skeleton(
        tuple(layers),
        decoder_root(b, _STYLE, prefix),
        towers=towers if b.config.has("vision_config") else (),
        modalities=_MODALITIES if b.config.has("vision_config") else (),
    )


# processors/muse_glimmer.py: max_image_tokens; 96 frames in pairs, max_video_frame_tokens of 144 each
_MODALITIES = (Modality("image", 4096), Modality("video", 48 * 144))


def _local(t: Config, heads: int, kv: int, head_dim: int) -> Attention:
    rope = rope_of(t, head_dim)
    return Attention("sliding_window", heads, kv, head_dim, head_dim, window=t.integer("sliding_window"), rope=rope)


def _vision(b: Builder, v: Config) -> Tower:
    """The encoder's attention is split, its MLP is not (plain nn.Linear); none of it is quantised."""
    v.fill(hidden_size=1536, intermediate_size=8960, num_hidden_layers=50, num_attention_heads=16)
    v.fill(patch_size=14, patch_temporal=2, pos_emb_height=32, pos_emb_width=32)
    hidden, inner, heads = v.integer("hidden_size"), v.integer("intermediate_size"), v.integer("num_attention_heads")
    count = v.integer("num_hidden_layers", high=10_000)
    s = b.site("model.vision_tower")
    patch = v.integer("patch_temporal") * 3 * v.integer("patch_size") ** 2
    places = v.integer("pos_emb_height") * v.integer("pos_emb_width")
    first: list[Module] = [
        Param("patch_embedder.patch_embedding.weight", (hidden, patch), b.dtype, "multimodal"),
        Param("patch_embedder.position_embedding_table.weight", (places, hidden), b.dtype, "multimodal"),
        *layer_norm(s, "ln_pre", hidden),
    ]
    at = "layers.0"
    parts = [(f"{at}.attn.{q}_proj", hidden, heads) for q in "qkv"]
    layer: list[Module] = [
        *layer_norm(s, f"{at}.norm1", hidden),
        s.linear(f"{at}.attn.qkv_proj", parts, hidden, "column", "multimodal", bias=True, quantised=False),
        s.row(f"{at}.attn.proj", hidden, hidden, "multimodal", bias=True, quantised=False),
        *layer_norm(s, f"{at}.norm2", hidden),
        s.replicated(f"{at}.mlp.fc1", inner, hidden, "multimodal", bias=True, quantised=False),
        s.replicated(f"{at}.mlp.fc2", hidden, inner, "multimodal", bias=True, quantised=False),
    ]
    last = layer_norm(s, "ln_post", hidden)
    blocks = ((1, b.block(first)), (count, b.block(layer)), (1, b.block(last)))
    return Tower("vision_tower", "vision", s.prefix, blocks, count, hidden, inner, heads, "tower")


def _projector(b: Builder, v: Config) -> Tower:
    merged = v.integer("hidden_size", default=1536) * v.integer("merge_size", default=2) ** 2
    wide = b.config.integer("projector_hidden_size", default=4096)
    width = b.config.integer("out_hidden_size", default=merged)
    s = b.site("model")
    modules: list[Module] = [
        s.replicated("vision_adapter.fc1", wide, width, "multimodal", quantised=False),
        s.replicated("vision_adapter.fc2", wide, wide, "multimodal", quantised=False),
        s.replicated("vision_projection", b.text.integer("hidden_size"), wide, "multimodal", quantised=False),
    ]
    return Tower("vision_adapter", "vision", s.prefix, ((1, b.block(modules)),))
