"""Whether a traceback, or somebody's words, are about an encoder of images, video or sound: its cost follows the
items, not the text.

The file of the innermost frame below /models/ decides: a wrapper such as qwen3_vl.py calls the language model in a file
of its own, so that its own frames at the end are the tower's.
"""

from collections.abc import Sequence
from typing import Final

from oomph.ir import StageName
from oomph.logs.claims import Claim
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


def tells_of_images(claims: Sequence[Claim], stage: StageName | None = None) -> bool:
    """Somebody says that the encoder, or large pictures, did it; of a stage that tries them out, any."""
    tried_out = {claim.sentence for claim in claims if stage is not None and stage in claim.named("during")}
    return any(
        _IMAGES.search(claim.text) or (claim.sentence in tried_out and _ANY.search(claim.text)) for claim in claims
    )


_ANY: Final = late_pattern(r"(?i)(?:images?|pictures?|photos?|videos?|audio|bild(?:er)?n?)\b|图片|图像|视频|音频")
_IMAGES: Final = late_pattern(
    r"(?i)(?:vision|image|visual|multi-?modal) (?:tower|encoder)|bild-?encoder|(?:视觉|多模态)\s?(?:编码器|塔|encoder)"
    r"|\b(?:large|big|huge|4k|several|largest|biggest|große|mehrere) "
    r"(?:\w{1,12} )?(?:images?|pictures?|photos?|bilder)\b"
    r"|大图|高清图|多张\S{0,6}图|张\S{0,4}图|最大\S{0,4}图"
)
