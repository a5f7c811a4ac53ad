"""LFM2-VL: a SigLIP 2 encoder, two linear layers, LFM2. vLLM: models/lfm2_vl.py, lfm2_siglip2.py (0.32.0)."""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.lfm2 import language_model
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config

_MOST_TILES = 10  # Lfm2VlImageProcessor max_tiles, and the whole image once more


def build(builder: Builder) -> Skeleton:
    config, vision = builder.config, builder.config.sub("vision_config")
    vision.fill(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12)
    vision.fill(num_channels=3, patch_size=16, num_patches=256)  # Siglip2VisionConfig
    prefix = builder.root("model.language_model", "language_model.model")
    outer = "model." if prefix.startswith("model.") else ""
    language = language_model(builder, prefix, "lm_head" if outer else "language_model.lm_head")
    tokens = config.integer("max_image_tokens", default=256) * (config.integer("max_tiles", default=_MOST_TILES) + 1)
    towers = (siglip2(builder, f"{outer}vision_tower.vision_model", vision), _projector(builder, outer, vision))
    return Skeleton(language.layers, language.root, towers=towers, modalities=(Modality("image", tokens),))


def siglip2(builder: Builder, prefix: str, vision: Config) -> Tower:
    hidden, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    heads, count = vision.integer("num_attention_heads"), vision.integer("num_hidden_layers", high=10_000)
    pixels = vision.integer("num_channels") * vision.integer("patch_size") ** 2
    site, at = builder.site(prefix), "encoder.layers.0"
    table = (vision.integer("num_patches"), hidden)
    first: list[Module] = [
        site.replicated("embeddings.patch_embedding", hidden, pixels, "multimodal", bias=True, quantised=False),
        Param("embeddings.position_embedding.weight", table, builder.dtype, "multimodal"),
    ]
    layer: list[Module] = [
        *layer_norm(site, f"{at}.layer_norm1", hidden),
        site.qkv(hidden, heads, heads, hidden // heads, at=f"{at}.self_attn", bias=True, role="multimodal"),
        site.row(f"{at}.self_attn.out_proj", hidden, hidden, "multimodal", bias=True),
        *layer_norm(site, f"{at}.layer_norm2", hidden),
        site.column(f"{at}.mlp.fc1", inner, hidden, "multimodal", bias=True),
        site.row(f"{at}.mlp.fc2", hidden, inner, "multimodal", bias=True),
    ]
    last = builder.block(layer_norm(site, "post_layernorm", hidden))
    blocks = ((1, builder.block(first)), (count, builder.block(layer)), (1, last))
    return Tower("vision_tower", "vision", prefix, blocks, count, hidden, inner, heads)


def _projector(builder: Builder, outer: str, vision: Config) -> Tower:
    config, site = builder.config, builder.site(f"{outer}multi_modal_projector")
    wide = vision.integer("hidden_size") * config.integer("downsample_factor", default=2) ** 2
    middle, bias = config.integer("projector_hidden_size", default=2560), config.flag("projector_bias", default=True)
    out = builder.text.integer("hidden_size")
    modules: list[Module] = [
        *(layer_norm(site, "layer_norm", wide) if config.flag("projector_use_layernorm", default=True) else []),
        site.replicated("linear_1", middle, wide, "multimodal", bias=bias, quantised=False),
        site.replicated("linear_2", out, middle, "multimodal", bias=bias, quantised=False),
    ]
    return Tower("multi_modal_projector", "vision", site.prefix, ((1, builder.block(modules)),))
