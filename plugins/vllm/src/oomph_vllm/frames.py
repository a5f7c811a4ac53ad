"""Where an error was raised: vLLM's own frames, and the part of the model that was being built or run."""

import traceback
from typing import Any

# fragments of a file's path below vllm/, the first that matches decides
PARTS = (
    ("layers/fused_moe", "experts"), ("layers/quantization", "quantised layer"), ("layers/linear", "linear layer"),
    ("layers/vocab_parallel", "embedding or head"), ("layers/logits_processor", "logits"), ("v1/sample", "sampler"),
    ("v1/worker/gpu/sample", "sampler"), ("layers/mamba", "recurrent state"), ("attention", "attention"),
    ("layers/activation", "activation function"), ("layers/layernorm", "norm"), ("layers/rotary", "rotary embedding"),
    ("lora/", "LoRA"), ("spec_decode", "drafter"), ("multimodal", "encoder"), ("cudagraph", "CUDA graph"),
    ("compilation/cuda_graph", "CUDA graph"), ("compilation/backends", "compiled graph"),
    ("compilation/piecewise", "compiled graph"), ("cumem", "sleep mode's pool"),
)  # fmt: skip
_MODELS = "model_executor/models/"
_ENCODERS = ("visual", "vision", "audio", "tower", "encoder", "mm_projector", "merger")


def frames_of(error: BaseException) -> list[dict[str, Any]]:
    """Innermost last; paths below the package only, never where it is installed."""
    return [
        {"file": _below(frame.filename), "line": frame.lineno or 0, "function": frame.name}
        for frame in traceback.extract_tb(error.__traceback__)
    ]


def part_of(error: BaseException) -> str:
    """`model.layers.54.mlp.gate_up_proj (linear layer)`, `Qwen2MLP (activation function)`, as far as the frames say."""
    name, kind = "", ""
    for frame, _ in traceback.walk_tb(error.__traceback__):  # the innermost comes last, and its name stands
        path = _below(frame.f_code.co_filename)
        name = _prefix(frame.f_locals) or (_class(frame.f_locals) if _MODELS in path else "") or name
        kind = next((part for fragment, part in PARTS if fragment in path), kind)
    if any(word in name for word in _ENCODERS):
        kind = "encoder"
    return f"{name} ({kind})" if name and kind else name or kind


def _prefix(names: dict[str, Any]) -> str:
    """The module's own name: a `prefix` of its constructor, or of the object whose method runs."""
    prefix = names.get("prefix")
    if not isinstance(prefix, str) or not prefix:
        prefix = getattr(names.get("layer", names.get("self")), "prefix", "")
    return prefix if isinstance(prefix, str) else ""


def _class(names: dict[str, Any]) -> str:
    """While a model runs its layers have no prefix: `Qwen2MLP` says as much."""
    return type(names["self"]).__name__ if "self" in names else ""


def _below(path: str) -> str:
    for package in ("/vllm/", "/torch/", "/flashinfer/", "/triton/"):
        if package in path:
            return package[1:] + path.rpartition(package)[2]
    return path.rpartition("/")[2]
