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


def build(b: Builder) -> Skeleton:
    style = _STYLES[b.architecture]
    fill(b, style)
    b.scale_dtype = "BF16"
    second = style is QWEN2
    # Qwen2-VL wrote "visual" and "model"; transformers 4.52 and later write both below "model"
    visual = b.root("visual", "model.visual") if second else b.root("model.visual", "visual")
    prefix = "model" if visual == "visual" else "model.language_model"
    v = b.config.sub("vision_config")
    tower, modalities = _TOWERS[b.architecture](b, visual, v)
    # quantisers write one linear layer an expert, the plain release one tensor for all
    layout: Literal["each", "stacked"] = "stacked" if b.quant is None else "each"
    mlp = qwen_moe_mlp(b, style, layout) if style is QWEN3_MOE else None
    levels = len(v.items("deepstack_visual_indexes"))
    _, _, head_dim = dims(b.text, style)
    rope = rope_of(b.text, head_dim, bounded=not second)
    return Skeleton(
        decoder_layers(b, style, prefix, mlp, rope),
        decoder_root(b, style, prefix),
        towers=(tower,),
        modalities=modalities,
        # qwen3_vl.py:1680 (0.21.0): that many buffers of max_num_batched_tokens x hidden_size besides the weights
        params=(("deepstack_levels", levels),) if levels else (),
    )
