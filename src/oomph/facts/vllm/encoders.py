"""How the towers of vision models hold their patches, by the architecture that owns them.

Counted in allocator traces of vLLM 0.26.0 on an H200 (tests/truth/h200-served.jsonl): Qwen3-VL (32,768 and 65,536
patches), Gemma 3 (131,072), Mistral Small 3.2 (24,200) and Llama 4 (29,427). A tower that nobody traced gets the
default, and an interval of half to twice.
"""

from msgspec import Struct


class Patches(Struct, frozen=True):
    per_token: int = 4  # a 2 x 2 merge
    # tensors alive in attention, in the tower's width; by default the projection of all three, and two more, so that
    # the MLP has the peak
    attention: tuple[int, ...] = (3, 1, 1)
    beside_mlp: int = 2  # the same beside the MLP's widest pair
    mask: bool = False  # every patch against every other (transformers' generate_block_attention_mask)
    traced: bool = False
    scaled_by_pixels: bool = False  # the processor takes max_pixels (qwen2_vl.py _get_vision_info)


# what lives beside them, the projection, query and key joined and turned, both in float32 (qwen3_vl.py:454,
# qwen2_5_vl.py:425)
_TURNED = (1, 3, 4, 4)
_QWEN = Patches(attention=_TURNED, traced=True, scaled_by_pixels=True)
# Attention reads a mask whose rows are whole multiples of eight; it copies one that is not (PyTorch's
# transformers/attention.cpp pad_bias). 12,100 patches took 0.796 GiB, 24,200 took 1.969, 60,500 took 14.87.
MASK_MULTIPLE = 8
_PIXTRAL = Patches(attention=(3, 1, 1, 1, 1, 1, 1, 1), beside_mlp=5, mask=True, traced=True)

PATCHES: dict[str, Patches] = {
    "Qwen3VLForConditionalGeneration": _QWEN,
    "Qwen3VLMoeForConditionalGeneration": _QWEN,
    "Qwen2_5_VLForConditionalGeneration": Patches(attention=_TURNED, scaled_by_pixels=True),
    "Qwen3_5ForConditionalGeneration": Patches(attention=_TURNED, scaled_by_pixels=True),
    "Qwen3_5MoeForConditionalGeneration": Patches(attention=_TURNED, scaled_by_pixels=True),
    # siglip.py:469: 4,096 patches are pooled to 256 tokens
    "Gemma3ForConditionalGeneration": Patches(per_token=16, beside_mlp=4, traced=True),
    # 3 x 3 patches are pooled; its tower stayed below the language model's own pass
    "Gemma4ForConditionalGeneration": Patches(per_token=9, beside_mlp=4),
    "Mistral3ForConditionalGeneration": _PIXTRAL,
    "PixtralForConditionalGeneration": Patches(beside_mlp=5),
    # llama4_vision_rope.py turns query and key in float32
    "Llama4ForConditionalGeneration": Patches(attention=(1, 3, 4, 4, 4), traced=True),
}
DEFAULT = Patches()
