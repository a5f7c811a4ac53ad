"""Whether a traceback is inside of an encoder of images, video or sound: its cost follows the items, not the text.

The file of the innermost frame below /models/ decides: a wrapper such as qwen3_vl.py calls the language model in a file
of its own, so that its own frames at the end are the tower's.
"""

from collections.abc import Sequence
from typing import Final

from oomph.text.late import late_pattern

# Names of files that hold an encoder (vllm/model_executor/models of 0.32.0, sglang/srt/models of 0.5.23).
_FILES: Final = late_pattern(
    r"vision|visual|_vl\b|_vl_|_vl\.|vl\.py|vit\b|vit\.|_vit|navit|clip|siglip|aimv2|blip|llava|pixtral|mllama|internvl|"
    r"deepencoder|_ocr|ocr\.|minicpm[vo]|molmo|moondream|ovis|keye|idefics|paligemma|fuyu|glm4_?1?v|kimi_vl|phi\dv|phi4mm|"
    r"radio\.|audio|whisper|voxtral|ultravox|conformer|asr|speech|aria\.|isaac"
)
_FUNCTIONS: Final = late_pattern(
    r"embed_multimodal|multimodal_embed|_execute_mm_encoder|_process_(?:image|video|audio)|get_(?:image|video|audio)_features|"
    r"vision|visual|image_pixels|patch_embed|audio_tower|_dummy_mm|get_dummy_mm|mm_encoder|split_qkv|all_gather_interleave"
)
_MODELS: Final = ("/models/", "/transformers_modules/")


def in_tower(functions: Sequence[str], files: Sequence[str]) -> bool:
    if any(_FUNCTIONS.search(name) for name in functions):
        return True
    own = [path for path in files if any(part in path for part in _MODELS)]
    return bool(own) and bool(_FILES.search(own[-1].rsplit("/", 1)[-1]))
