"""How the towers of vision models hold their patches, by the architecture that owns them.

Counted in allocator traces of vLLM 0.26.0 on an H200 (tests/truth/h200-served.jsonl): Qwen3-VL (32,768 and 65,536
patches), Gemma 3 (131,072), Mistral Small 3.2 (24,200) and Llama 4 (29,427); and in 0.32.0's own encoders, run without
a GPU on tensors that have a size and no data: those, Qwen2.5-VL, Qwen3.6, GLM-4.1V, InternVL3, LLaVA-1.5 and
LLaVA-OneVision. A tower that nobody traced gets the default, and an interval of half to twice.
"""

from msgspec import Struct

from oomph.facts import changes
from oomph.facts.changes import until


class Patches(Struct, frozen=True):
    per_token: int = 4  # a 2 x 2 merge
    # tensors alive in attention, in the tower's width; by default the projection of all three, and two more, so that
    # the MLP has the peak
    attention: tuple[int, ...] = (3, 1, 1)
    # the same beside the MLP's widest pair: what came in, the sum behind attention, its output and the norm of the sum
    beside_mlp: int = 4
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
_PIXTRAL = Patches(attention=(3, 1, 1, 1, 1, 1, 1, 1), beside_mlp=6, mask=True, traced=True)
_GLM = Patches(beside_mlp=5, traced=True)  # glm4_1v.py:362: the fused norm writes a second tensor
_TILES = Patches(traced=True)  # SigLIP or InternViT under 2 x 2 patches for a token
_WHOLE = Patches(per_token=1, traced=True)  # CLIP or SigLIP: a token for each patch

PATCHES: dict[str, Patches] = {
    "Qwen3VLForConditionalGeneration": _QWEN,
    "Qwen3VLMoeForConditionalGeneration": _QWEN,
    "Qwen2VLForConditionalGeneration": Patches(attention=_TURNED, scaled_by_pixels=True),
    # qwen2_5_vl.py:528: gate and up live until the output is there
    "Qwen2_5_VLForConditionalGeneration": Patches(attention=_TURNED, beside_mlp=5, traced=True, scaled_by_pixels=True),
    "Qwen3_5ForConditionalGeneration": _QWEN,
    "Qwen3_5MoeForConditionalGeneration": _QWEN,
    "Glm4vForConditionalGeneration": _GLM,
    "Glm4vMoeForConditionalGeneration": _GLM,
    "GlmOcrForConditionalGeneration": _GLM,
    "InternVLForConditionalGeneration": _TILES,
    "InternVLChatModel": _TILES,
    "InternS1ForConditionalGeneration": _TILES,
    "LlavaForConditionalGeneration": _WHOLE,
    "LlavaNextForConditionalGeneration": _WHOLE,
    "LlavaOnevisionForConditionalGeneration": _WHOLE,
    "PaliGemmaForConditionalGeneration": Patches(per_token=1),
    # siglip.py:469: 4,096 patches are pooled to 256 tokens
    "Gemma3ForConditionalGeneration": Patches(per_token=16, traced=True),
    # 3 x 3 patches are pooled; its tower stayed below the language model's own pass
    "Gemma4ForConditionalGeneration": Patches(per_token=9),
    # qwen2_audio.py: a second convolution, then pairs of frames are averaged
    "Qwen2AudioForConditionalGeneration": Patches(per_token=2),
    "Mistral3ForConditionalGeneration": _PIXTRAL,
    "PixtralForConditionalGeneration": Patches(beside_mlp=6, mask=True),
    # llama4_vision_rope.py turns query and key in float32
    "Llama4ForConditionalGeneration": Patches(attention=(1, 3, 4, 4, 4), traced=True),
}
DEFAULT = Patches()

_QWEN2 = frozenset({"Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration"})
_SINCE_0_32 = {
    "ColQwen3_5", "Cosmos3ForConditionalGeneration", "Exaone4_5_ForConditionalGeneration",
    "Glm4vForConditionalGeneration", "Glm4vMoeForConditionalGeneration", "Glm5NextForConditionalGeneration",
    "GlmOcrForConditionalGeneration", "InternS1ProForConditionalGeneration", "InternS2MobiusForConditionalGeneration",
    "InternS2PreviewForConditionalGeneration", "JinaVLForRanking", "KimiK25ForConditionalGeneration",
    "KimiK3ForConditionalGeneration", "LlamaNemotronVLForSequenceClassification", "LlamaNemotronVLModel",
    "Mistral3ForConditionalGeneration", "OpenCUAForConditionalGeneration", "Qwen3VLForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration", "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration",
    "Qwen4ExpForConditionalGeneration",
}  # fmt: skip


class EncoderFacts(changes.Facts):
    # supports_mm_device_do_normalize of the model classes: their pixels come to the GPU as bytes
    raw_pixels = changes.changes(frozenset[str](), ("0.28.0", _QWEN2), ("0.32.0", _QWEN2 | _SINCE_0_32))
    # pixtral.py: a mask of every patch against every other, before its layers used MMEncoderAttention
    masks_patches = until("0.29.0")
