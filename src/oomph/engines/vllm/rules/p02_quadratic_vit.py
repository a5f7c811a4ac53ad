"""P02: Quadratic attention in the vision tower.

Attention in the vision tower is quadratic here.

What it is: without a flash-attention kernel for the tower PyTorch's plain attention builds heads x patches x patches.

How to recognise it: a single allocation of tens of GiB in profiling, with sdpa or vit_attn_wrappers in the traceback.

Look-alikes: P01.

What fixes it: smaller or fewer items as in P01; --mm-encoder-attn-backend with a flash kernel.

What does not: quantisation or utilization.

Evidence: gpustack issue 4963.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB, gib


@rule("profile_run", "runtime_request", at_stage=True, over=("P01",))
def match(case: Case) -> Finding | None:
    if not case.in_traceback("vit_attn_wrappers", "torch_sdpa_wrapper"):
        return None
    tried = case.oom_value("tried")
    if tried is not None and tried < 4 * GIB:
        return None
    text = (
        f"One allocation of {gib(tried)}" if tried else "An allocation"
    ) + " in the vision tower's attention: heads x patches x patches, built because no flash kernel serves it here."
    backend = "vision_backend"
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("torch_oom", "encoder_budget"),
        (backend, "fewer_images"),
        {},
    )
