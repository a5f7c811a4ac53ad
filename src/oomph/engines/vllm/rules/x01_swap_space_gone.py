"""X01: --swap-space no longer exists.

What it is: V1 never swapped; the flag was ignored and then removed in 0.18.

How to recognise it: "unrecognized arguments: --swap-space", or a warning that the parameter is ignored.

Look-alikes: none.

What fixes it: leaving it out. --kv-offloading-size keeps finished prefixes on the host; it is no overflow.

What does not: --swap-space, in any value.

Evidence: vllm PR 36216 (0.18.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("other", since="0.18.0", dated=False)
def match(case: Case) -> Finding | None:
    line = case.first("swap_flag")
    if line is None:
        return None
    return Finding(
        Tier.SAID,
        "--swap-space is gone since 0.18; in V1 it never did anything.",
        (line.line,),
        ("no_swap",),
        {"swap": "V1 never swaps to the host"},
    )
