"""D09: Memory became free while vLLM was measuring.

What it is: the profiler asserts that free memory does not grow. A neighbour that ends, or the host of unified memory,
breaks that.

How to recognise it: "Error in memory profiling. Initial free memory A, current free memory B" with B larger than A.

Look-alikes: none; it is no shortage.

What fixes it: start again when the neighbours are quiet; --kv-cache-memory-bytes.

What does not: less utilization or a shorter context.

Evidence: gpu_worker.py:719 (0.32.0); vllm issue 56830.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB


@rule("profile_run")
def match(case: Case) -> Finding | None:
    line = case.first("freed_while_profiling")
    if line is None:
        return None
    before, after = case.real("freed_while_profiling", "initial"), case.real("freed_while_profiling", "current")
    text = "Free memory grew while vLLM measured: another process gave memory back. Nothing is short."
    if before is not None and after is not None and before < 1e6:  # bytes in old releases
        grew = f"grew from {before:g} to {after:g} GiB" if after > before else f"did not fall ({after:g} GiB)"
        text = f"Free memory {grew} while vLLM measured: another process gave memory back. Nothing is short."
    remedies = (
        "stable_neighbours",
        ("kv_bytes", 8 * GIB),
    )
    return Finding(
        Tier.SAID,
        text,
        (line.line,),
        remedies,
        {"context": "nothing is short", "share_down": "nothing is short"},
    )
