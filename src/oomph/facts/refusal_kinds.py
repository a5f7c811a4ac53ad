"""What a refusal is about, from the engine's own words."""

from functools import lru_cache

from oomph.ir.timeline import RefusalKind
from oomph.text.late import late_pattern

# The first that holds; what none of them names is about settings.
_KINDS: tuple[tuple[RefusalKind, str], ...] = (
    ("gpus", r"available GPUs|invalid device ordinal|GPUs are available|is out of bounds for \d+ devices"),
    ("context", r"max_model_len|context.length|max_position_embeddings|model's context|longer than"),
    ("adapter", r"\bLoRA\b|lora_rank"),
    ("layout", r"divisible|divide|parallel size|parallel_size|tp_size|pp_size|exceeds the \d+ layers"),
    ("card", r"compute capability|sm\d\d and above|Bfloat16 is only|current GPU|no kernels? for"),
    ("format", r"quantiz|quantis|dtype|GGUF|config file for|attention backend|kv.cache|KV cache|float16|bitsandbytes"),
    ("model", r"architecture|implementation|no SGlang"),
)
_PATTERNS = tuple((kind, late_pattern(f"(?i:{words})")) for kind, words in _KINDS)


@lru_cache(256)  # a search meets the same refusal thousands of times
def kind_of(message: str) -> RefusalKind:
    return next((kind for kind, pattern in _PATTERNS if pattern.search(message)), "settings")
