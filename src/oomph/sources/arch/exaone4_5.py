"""EXAONE 4.5: EXAONE 4 behind Qwen2.5-VL's encoder with fewer key-value heads. vLLM: models/exaone4_5.py (0.32.0)."""

from __future__ import annotations

from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill
from oomph.sources.arch.dense import STYLES
from oomph.sources.arch.qwen_vision import qwen2_5_vision

STYLE = STYLES["Exaone4ForCausalLM"]


def build(builder: Builder) -> Skeleton:
    fill(builder, STYLE)
    visual = builder.root("model.visual", "visual")
    prefix = "model.language_model" if visual.startswith("model.") else "model"
    tower, modalities = qwen2_5_vision(builder, visual, builder.config.sub("vision_config"))
    return Skeleton(
        decoder_layers(builder, STYLE, prefix),
        decoder_root(builder, STYLE, prefix),
        towers=(tower,),
        modalities=modalities,
    )
