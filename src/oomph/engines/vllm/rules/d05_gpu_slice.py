"""D05: The engine sees a slice of the GPU.

What it is: MIG instances, vGPU profiles and MPS limits give a process less than the board. With MIG the total already
is the slice's; an MPS limit makes allocations fail while the board shows free memory.

How to recognise it: MIG-... in CUDA_VISIBLE_DEVICES, a total such as 9.75, 19.62 or 39.4 GiB on an 80 GB board; under
MPS a failed allocation next to a large "free".

Look-alikes: L01, D01.

What fixes it: plan for the slice; a larger slice or CUDA_MPS_PINNED_DEVICE_MEM_LIMIT.

What does not: the board's size in any calculation.

Evidence: cudaMemGetInfo's semantics; not verified on a MIG board here.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib


@rule("startup_free_memory", "weights_load", "kv_check")
def match(case: Case) -> Finding | None:
    slice_line = case.first("mig")
    if slice_line is None or not case.failed:
        return None
    total = case.total
    size = f" of {gib(total)}" if total else ""
    text = f"The device is a MIG slice{size}, not the whole board; everything must fit into the slice."
    return Finding(
        Tier.COMPUTED,
        text,
        (slice_line.line, *case.line("free_short", "torch_oom")),
        (
            "gpu_slice",
            "checkpoint",
        ),
        {},
    )
