"""How long SGLang's steps take: vLLM's factors, since its kernels are the same kind and none of its speeds is held."""

from oomph.ir import Experts, Model, Plan
from oomph.simulate.accuracy import taken_over
from oomph.simulate.links import layout_of
from oomph.simulate.speed import PlainFactors, Timing, plain_timing

FACTORS = PlainFactors(overhead_ms=0.5)  # the shares are vLLM's on the card


def timing(plan: Plan, model: Model | None) -> Timing | None:
    if model is None:
        return None
    routed = any(isinstance(module, Experts) for layer in model.layers for module in layer.block.modules)
    parallel = max(1, int(plan.resolved.get("tp_size") or len(plan.ranks)))
    chunk = int(plan.resolved.get("chunked_prefill_size") or 2048)
    layout = layout_of(plan.deployment.gpus[0].name, parallel) if plan.deployment.gpus else "one"
    return plain_timing(
        plan,
        model,
        FACTORS,
        taken_over(routed, layout),
        parallel=parallel,
        chunk=max(chunk, 128),
        copies_experts=True,
        eager=bool(plan.deployment.flags.get("disable_cuda_graph")),
    )
