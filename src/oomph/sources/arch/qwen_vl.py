"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL: a Qwen decoder with a vision encoder before it.

vLLM: models/qwen2_vl.py, qwen2_5_vl.py, qwen3_vl.py, qwen3_vl_moe.py.
"""

from __future__ import annotations

from typing import Literal

from oomph.sources.arch.base import Builder, Skeleton, rope_of
from oomph.sources.arch.decoder import Style, decoder_layers, decoder_root, dims, fill
from oomph.sources.arch.llama import QWEN2, QWEN3
from oomph.sources.arch.moe import QWEN3_MOE, qwen_moe_mlp
from oomph.sources.arch.qwen_vision import qwen2_5_vision, qwen2_vision, qwen3_vision

_TOWERS = {
    "Qwen2VLForConditionalGeneration": qwen2_vision,
    "Qwen2_5_VLForConditionalGeneration": qwen2_5_vision,
    "Qwen3VLForConditionalGeneration": qwen3_vision,
    "Qwen3VLMoeForConditionalGeneration": qwen3_vision,
}
_STYLES: dict[str, Style] = {
    "Qwen2VLForConditionalGeneration": QWEN2,
    "Qwen2_5_VLForConditionalGeneration": QWEN2,
    "Qwen3VLForConditionalGeneration": QWEN3,
    "Qwen3VLMoeForConditionalGeneration": QWEN3_MOE,
}


def build(builder: Builder) -> Skeleton:
    style = _STYLES[builder.architecture]
    fill(builder, style)
    builder.scale_dtype = "BF16"
    second = style is QWEN2
    # Qwen2-VL wrote "visual" and "model"; transformers 4.52 and later write both below "model"
    visual = builder.root("visual", "model.visual") if second else builder.root("model.visual", "visual")
    prefix = "model" if visual == "visual" else "model.language_model"
    vision = builder.config.sub("vision_config")
    tower, modalities = _TOWERS[builder.architecture](builder, visual, vision)
    # quantisers write one linear layer an expert, the plain release one tensor for all
    layout: Literal["each", "stacked"] = "stacked" if builder.quant is None else "each"
    mlp = qwen_moe_mlp(builder, style, layout) if style is QWEN3_MOE else None
    levels = len(vision.items("deepstack_visual_indexes"))
    _, _, head_dim = dims(builder.text, style)
    rope = rope_of(builder.text, head_dim, bounded=not second)
    return Skeleton(
        decoder_layers(builder, style, prefix, mlp, rope),
        decoder_root(builder, style, prefix),
        towers=(tower,),
        modalities=modalities,
        # qwen3_vl.py:1680 (0.21.0): that many buffers of max_num_batched_tokens x hidden_size besides the weights
        params=(("deepstack_levels", levels),) if levels else (),
    )
