"""GLM-OCR: a small GLM-4 behind GLM-4.1V's encoder with norms of heads and no table of positions.

vLLM: models/glm_ocr.py (0.32.0), glm4_1v.py.
"""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.glm4v import IMAGE_TOKENS, dense_text, merger
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    # glm4.py:99, 231 (0.32.0): what Glm4Attention reads where the config does not say
    builder.text.fill(attention_bias=False, partial_rotary_factor=0.5)
    prefix = builder.root("model.language_model", "language_model.model")
    outer = "model." if prefix.startswith("model.") else ""
    language = dense_text(builder, prefix, "lm_head" if outer else "language_model.lm_head")
    tower = _vision(builder, f"{outer}visual", builder.config.sub("vision_config"))
    modalities = (Modality("image", IMAGE_TOKENS), Modality("video", 2 * IMAGE_TOKENS))
    return Skeleton(language.layers, language.root, towers=(tower,), modalities=modalities)


def _vision(builder: Builder, prefix: str, vision: Config) -> Tower:
    # GlmOcrVisionConfig
    vision.fill(depth=24, hidden_size=1024, num_heads=16, in_channels=3, patch_size=14, out_hidden_size=1536)
    vision.fill(intermediate_size=4096, spatial_merge_size=2, temporal_patch_size=2)
    hidden, heads = vision.integer("hidden_size"), vision.integer("num_heads")
    count, patch = vision.integer("depth", high=10_000), vision.integer("patch_size")
    inner = vision.integer("intermediate_size")
    width, site, at = hidden // heads, builder.site(prefix), "blocks.0"

    def param(name: str, *shape: int) -> Param:
        return Param(name, shape, builder.dtype, "multimodal")

    frames = vision.integer("temporal_patch_size")
    first: list[Module] = [
        param("patch_embed.proj.weight", hidden, vision.integer("in_channels"), frames, patch, patch),
        param("patch_embed.proj.bias", hidden),
        Param("rotary_pos_emb.cos_sin_cache", (8192, width // 2), builder.dtype, "multimodal", stored=False),
    ]
    layer: list[Module] = [
        *(param(f"{at}.{name}.weight", hidden) for name in ("norm1", "norm2")),
        *(param(f"{at}.attn.{name}.weight", width) for name in ("q_norm", "k_norm")),
        site.packed_qkv(f"{at}.attn.qkv", hidden, heads, "multimodal", bias=True),
        site.row(f"{at}.attn.proj", hidden, hidden, "multimodal", bias=True),
        *site.gated_mlp(hidden, inner, at=f"{at}.mlp", bias=True, role="multimodal"),
    ]
    # the merger is as wide as the language model's MLP
    last = merger(builder, site, vision, builder.text.integer("intermediate_size"))
    blocks = ((1, builder.block(first)), (count, builder.block(layer)), (1, builder.block(last)))
    return Tower("visual", "vision", prefix, blocks, count, hidden, inner, heads)
