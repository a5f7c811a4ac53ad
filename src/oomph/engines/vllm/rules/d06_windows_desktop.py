"""D06: Windows holds part of the card.

Windows or a desktop holds part of the card.

What it is: under WSL2 the display driver keeps 0.5 to 2.5 GiB, more or less from minute to minute; instead of failing
it may move GPU memory to system RAM, which is very slow. Pinned memory is limited, so CPU offload may fail.

How to recognise it: "pin_memory=False as WSL is detected" or "UVA is not available", a gap between free and total
that no Linux process explains; speed that collapses without an error.

Look-alikes: D01 (a process that can be ended).

What fixes it: utilization at most (free - 0.5) / total; "prefer no sysmem fallback" in the NVIDIA panel; the display
on another adapter.

What does not: pinned-memory workarounds, --swap-space.

Evidence: vllm PR 41496, 50261; microsoft/WSL issue 11050.
"""

from oomph.doctor.writing import Case, Finding, Named, Tier, rule
from oomph.units import GIB, gib


@rule("startup_free_memory", "weights_load", "runtime_request", over=("D01",))
def match(case: Case) -> Finding | None:
    if not case.has("pin_memory_off", "uva_off") or not case.failed:
        return None
    if case.stage not in ("startup_free_memory", "weights_load", "runtime_request"):
        return None
    free, total = case.value("free_short", "free"), case.value("free_short", "total")
    text = "This is WSL: Windows keeps a changing part of the card for the display."
    remedies: list[Named] = ["display"]
    if free is not None and total:
        text += f" {gib(total - free)} of {gib(total)} were taken at the start."
        remedies.insert(0, ("share_down", (free - 0.5 * GIB) / total))
    return Finding(
        Tier.COMPUTED if free is not None else Tier.LIKELY,
        text,
        case.line("pin_memory_off", "uva_off", "free_short"),
        tuple(remedies),
        {"swap": "it does nothing in V1, and host memory is not the problem"},
    )
