"""How long SGLang's steps take: vLLM's factors, since its kernels are of the same kind. 34 of 38 published speeds of
SGLang were within 1.3 times of what follows from them (tests/truth/speeds-sglang.jsonl)."""

from oomph.ir import Experts, Model, Plan
from oomph.simulate.accuracy import SGLANG_DENSE, SGLANG_EXPERTS, SpeedError, taken_over
from oomph.simulate.links import layout_of
from oomph.simulate.speed import PlainFactors, Timing, plain_timing

FACTORS = PlainFactors(overhead_ms=0.5)  # the shares are vLLM's on the card


def timing(plan: Plan, model: Model | None) -> Timing | None:
    if model is None:
        return None
    routed = any(isinstance(module, Experts) for layer in model.layers for module in layer.block.modules)
    parallel = max(1, int(plan.resolved.get("tp_size") or len(plan.ranks)))
    chunk = int(plan.resolved.get("chunked_prefill_size") or 2048)
    return plain_timing(
        plan,
        model,
        FACTORS,
        error_of(plan, routed),
        parallel=parallel,
        chunk=max(chunk, 128),
        copies_experts=True,
        eager=bool(plan.deployment.flags.get("disable_cuda_graph")),
    )


def error_of(plan: Plan, has_experts: bool) -> SpeedError:
    """How far such times were from published ones: one GPU of NVIDIA's is what was compared."""
    device = plan.deployment.gpus[0] if plan.deployment.gpus else None
    parallel = max(1, int(plan.resolved.get("tp_size") or len(plan.ranks)))
    layout = layout_of(device.name, parallel) if device is not None else "one"
    if layout != "one" or device is None or device.vendor != "nvidia":
        return taken_over(has_experts, layout)
    return SGLANG_EXPERTS if has_experts else SGLANG_DENSE
