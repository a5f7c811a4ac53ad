"""Muse Glimmer: sandwich norms, gated attention, global layers without rope, a vision encoder.

vLLM: models/muse_glimmer.py (0.32.0).
"""

from oomph.ir import Attention, Modality, Module, Tower
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


def build(builder: Builder) -> Skeleton:
    text = builder.text
    hidden, inner = text.integer("hidden_size"), text.integer("intermediate_size")
    heads, kv, head_dim = heads_of(text)
    whole = Attention("full", heads, kv, head_dim, head_dim)
    prefix = "model.language_model"
    layers = tuple(
        site.layer(
            [_local(text, heads, kv, head_dim) if kind == "sliding_attention" else whole],
            [
                site.qkv(hidden, heads, kv, head_dim),
                site.row("self_attn.o_proj", hidden, heads * head_dim, "attention"),
                site.column("self_attn.gate_proj", heads * head_dim, hidden, "attention"),
                *site.gated_mlp(hidden, inner),
                *(site.norm(name, hidden) for name in _NORMS),
            ],
        )
        for site, kind in zip(builder.sites(f"{prefix}.layers"), layer_kinds(text, Style(every=4)))
    )
    towers = (
        _vision(builder, builder.config.sub("vision_config")),
        _projector(builder, builder.config.sub("vision_config")),
    )
    return Skeleton(
        tuple(layers),
        decoder_root(builder, _STYLE, prefix),
        towers=towers if builder.config.has("vision_config") else (),
        modalities=_MODALITIES if builder.config.has("vision_config") else (),
    )


# processors/muse_glimmer.py: max_image_tokens; 96 frames in pairs, max_video_frame_tokens of 144 each
_MODALITIES = (Modality("image", 4096), Modality("video", 48 * 144))


def _local(text: Config, heads: int, kv: int, head_dim: int) -> Attention:
    rope = rope_of(text, head_dim)
    return Attention("sliding_window", heads, kv, head_dim, head_dim, window=text.integer("sliding_window"), rope=rope)


def _vision(builder: Builder, vision: Config) -> Tower:
    """The encoder's attention is split, its MLP is not (plain nn.Linear); none of it is quantised."""
    vision.fill(
        hidden_size=1536, intermediate_size=8960, num_hidden_layers=50, num_attention_heads=16, patch_size=14,
        patch_temporal=2, pos_emb_height=32, pos_emb_width=32,
    )  # fmt: skip
    hidden, inner, heads = (
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
        vision.integer("num_attention_heads"),
    )
    count = vision.integer("num_hidden_layers", high=10_000)
    site = builder.site("model.vision_tower")
    patch = vision.integer("patch_temporal") * 3 * vision.integer("patch_size") ** 2
    places = vision.integer("pos_emb_height") * vision.integer("pos_emb_width")
    first: list[Module] = [
        site.tensor("patch_embedder.patch_embedding.weight", hidden, patch),
        site.tensor("patch_embedder.position_embedding_table.weight", places, hidden),
        *layer_norm(site, "ln_pre", hidden),
    ]
    at = "layers.0"
    parts = [(f"{at}.attn.{q}_proj", hidden, heads) for q in "qkv"]
    layer: list[Module] = [
        *layer_norm(site, f"{at}.norm1", hidden),
        site.linear(f"{at}.attn.qkv_proj", parts, hidden, "column", "multimodal", bias=True, quantised=False),
        site.row(f"{at}.attn.proj", hidden, hidden, "multimodal", bias=True, quantised=False),
        *layer_norm(site, f"{at}.norm2", hidden),
        site.replicated(f"{at}.mlp.fc1", inner, hidden, "multimodal", bias=True, quantised=False),
        site.replicated(f"{at}.mlp.fc2", hidden, inner, "multimodal", bias=True, quantised=False),
    ]
    last = layer_norm(site, "ln_post", hidden)
    return site.tower(
        "vision_tower", "vision", [(1, first), (count, layer), (1, last)], count, hidden, inner, heads, alone="tower"
    )


def _projector(builder: Builder, vision: Config) -> Tower:
    merged = vision.integer("hidden_size", default=1536) * vision.integer("merge_size", default=2) ** 2
    wide = builder.config.integer("projector_hidden_size", default=4096)
    width = builder.config.integer("out_hidden_size", default=merged)
    site = builder.site("model")
    modules: list[Module] = [
        site.replicated("vision_adapter.fc1", wide, width, "multimodal", quantised=False),
        site.replicated("vision_adapter.fc2", wide, wide, "multimodal", quantised=False),
        site.replicated("vision_projection", builder.text.integer("hidden_size"), wide, "multimodal", quantised=False),
    ]
    return site.tower("vision_adapter", "vision", [(1, modules)])
