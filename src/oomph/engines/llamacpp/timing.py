"""How long llama.cpp's steps take."""

from collections.abc import Mapping

from oomph.engines.common.offload import OnHost
from oomph.engines.llamacpp.source import source_of
from oomph.ir import Experts, Model, Plan
from oomph.simulate.accuracy import LLAMACPP_DENSE, LLAMACPP_EXPERTS
from oomph.simulate.speed import PlainFactors, Timing, plain_timing

# Set on one half of tests/truth/llamacpp_speeds.jsonl and judged on the other (tools/accuracy_llamacpp_speed.py).
# Prompts are multiplied in 8 bits (MMQ), at about twice the 16-bit rate.
FACTORS = PlainFactors(
    bandwidth=0.84, expert_bandwidth=0.75, compute=0.9, experts=0.6, attention=0.3, overhead_ms=0.3, kernel_us=2.6,
    request_ms=1.0, response_ms=5.0,
)  # fmt: skip
# Bytes of one element of the KV cache (ggml's block types).
ELEMENT = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, "q8_0": 1.0625, "q5_1": 0.75, "q5_0": 0.6875, "q4_1": 0.625,
           "q4_0": 0.5625, "iq4_nl": 0.5625}  # fmt: skip


def timing(plan: Plan, model: Model | None) -> Timing | None:
    """None: nobody knows how fast the card is, or there is none in use."""
    resolved = plan.resolved
    model = model if _has_modules(model) else source_of(plan.model) or source_of(plan.deployment.model)
    if model is None:
        return None
    routed = any(isinstance(module, Experts) for layer in model.layers for module in layer.block.modules)
    element = (ELEMENT.get(str(resolved["type_k"]), 2.0) + ELEMENT.get(str(resolved["type_v"]), 2.0)) / 2
    return plain_timing(
        plan, model, FACTORS, LLAMACPP_EXPERTS if routed else LLAMACPP_DENSE, chunk=int(resolved["n_ubatch"]),
        kv_bytes=element, on_cpu=_on_cpu(resolved["host"]["parts"]),
    )  # fmt: skip


def _has_modules(model: Model | None) -> bool:
    """A model in GGUF form has tensors instead."""
    return model is not None and any(layer.block.modules for layer in model.layers)


def _on_cpu(parts: Mapping[str, int]) -> OnHost:
    """What the CPU multiplies. Of the embedding it reads a token's row; encoders run once for each image."""
    experts = parts.get("experts", 0)
    idle = ("embed", "multimodal", "projector", "experts")
    return OnHost(float(sum(size for name, size in parts.items() if name not in idle)), float(experts))
