"""Command A Vision: a SigLIP encoder, a gated projector, Command's decoder. vLLM: models/cohere2_vision.py (0.32.0)."""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import tied_outside
from oomph.sources.arch.siglip import siglip
from oomph.sources.arch.text import text_model
from oomph.sources.config import Config

_MOST_TILES = 12  # Cohere2VisionImageProcessor max_patches, and the whole image once more


def build(builder: Builder) -> Skeleton:
    config, vision = builder.config, builder.config.sub("vision_config")
    prefix = builder.root("model.language_model", "language_model.model")
    outer = "model." if prefix.startswith("model.") else ""
    head = "lm_head" if outer else "language_model.lm_head"
    layers, root = text_model(builder, prefix, head)
    tower = siglip(builder, f"{outer}vision_tower.vision_model", vision)
    side = vision.integer("image_size") // vision.integer("patch_size")
    tokens = (side // config.integer("downsample_factor", default=2)) ** 2 * (_MOST_TILES + 1)
    return Skeleton(
        layers,
        tied_outside(builder, root, head),
        towers=(tower, _projector(builder, f"{outer}multi_modal_projector", vision)),
        modalities=(Modality("image", tokens),),
    )


def _projector(builder: Builder, prefix: str, vision: Config) -> Tower:
    site, config = builder.site(prefix), builder.config
    wide = vision.integer("hidden_size") * config.integer("downsample_factor", default=2) ** 2
    half = config.integer("alignment_intermediate_size", default=36864) // 2
    modules: list[Module] = [
        site.column("linear_1", 2 * half, wide, "multimodal", bias=True, quantised=False),
        site.row("linear_2", builder.text.integer("hidden_size"), half, "multimodal", bias=True, quantised=False),
    ]
    return Tower("multi_modal_projector", "vision", prefix, ((1, builder.block(modules)),))
