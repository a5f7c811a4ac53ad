"""R06: Fragmentation.

What it is: PyTorch holds enough memory that nobody uses, but not in one piece.

How to recognise it: "reserved by PyTorch but unallocated" is at least what was asked for, and the device has less
free, at whatever stage. If it is less, this is not fragmentation, whatever the message proposes.

Look-alikes: every OOM: the message always mentions it.

What fixes it: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (not with sleep mode), 0.02 less utilization.

What does not: the same setting for any other OOM.

Evidence: PyTorch's CUDACachingAllocator; device_allocator/cumem.py:382 (0.32.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import human


@rule(
    "runtime_request",
    "kv_alloc",
    "cudagraph_capture",
    "sampler_warmup",
    "profile_run",
    "weights_load",
    "cudagraph_profile",
    "other",
    engines=("vllm", "sglang", "trtllm"),
)
def match(case: Case) -> Finding | None:
    tried, free, reserved = case.oom_value("tried"), case.oom_value("free"), case.oom_value("reserved")
    if not case.failed or tried is None or free is None or reserved is None or reserved < tried or free >= tried:
        return None
    text = (
        f"{human(tried)} were asked for; {human(reserved)} lie in PyTorch's cache unused, but not in one piece, and "
        "the device has"
        f" {human(free)} left."
    )
    remedies = (
        "expandable",
        "share_down",
    )
    return Finding(Tier.COMPUTED, text, case.line("torch_oom"), remedies, {})
