"""R14: V0's CPU swap space is used up.

What it is: beam search or n > 1 on the V0 engine swaps blocks to the host, and the space is full.

How to recognise it: "Aborted due to the lack of CPU swap space".

Look-alikes: R01 on V1, which recomputes.

What fixes it: on V0 a larger --swap-space or n = 1; the V1 engine.

What does not: the same flag on V1.

Evidence: core/scheduler.py (0.8.5); vllm issue 787, PR 36216.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("runtime_request", until="0.11.0")
def match(case: Case) -> Finding | None:
    line = case.first("swap_exhausted")
    if line is None:
        return None
    return Finding(
        Tier.SAID,
        "The V0 engine swaps the blocks of parallel answers to host memory, and that space is full.",
        (line.line,),
        ("swap", ("release", "0.11.0")),
    )
