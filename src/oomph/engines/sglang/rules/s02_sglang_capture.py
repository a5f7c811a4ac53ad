"""S02: SGLang: graph capture does not fit.

SGLang: graph capture does not fit in the dynamic share.

What it is: what mem_fraction_static leaves must hold CUDA graphs and activations.

How to recognise it: "Capture cuda graph failed", or an OOM after "Capture cuda graph begin. avail mem=...".

Look-alikes: S01 (the opposite).

What fixes it: 0.05 less --mem-fraction-static; --cuda-graph-max-bs 16; --disable-cuda-graph.

What does not: a higher fraction.

Evidence: SGLang's hyper-parameter tuning page; sglang PR 9083.
"""

import re

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib, human


@rule("cudagraph_capture")
def match(case: Case) -> Finding | None:
    begun = case.failed and case.before("sg_capture_begin") and not case.before("sg_capture_end")
    short = case.failed and case.memory and case.stage == "cudagraph_capture"
    if not (case.has("sg_capture_failed") or begun or short) or other_reason(case) or reason_lost(case):
        return None
    avail = case.value("sg_capture_begin", "avail")
    text = "CUDA graphs did not fit in what the static share leaves"
    text += f" ({gib(avail)} before the capture)." if avail is not None else "."
    tried = case.oom_value("tried")
    if tried:
        text += f" {human(tried)} were missing."
    fraction = case.flag("mem_fraction_static")
    down = round(float(fraction) - 0.05, 3) if isinstance(fraction, (int, float)) else 0.8
    remedies = (
        ("share_down", down),
        "fewer_graphs",
        "no_graphs",
    )
    return Finding(
        Tier.SAID if case.has("sg_capture_failed") else Tier.COMPUTED if begun and case.memory else Tier.POSSIBLE,
        text,
        case.line("sg_capture_failed", "sg_capture_begin", "torch_oom"),
        remedies,
        {"share_up": "graphs live outside of the static share"},
    )


def reason_lost(case: Case) -> bool:
    """The advice that stands under every error of a capture is there, and no line of what it failed of."""
    return (
        case.has("sg_capture_failed")
        and not case.memory
        and not other_reason(case)
        and not any("why" in observation.values for observation in case.all("sg_capture_failed"))
    )


def other_reason(case: Case) -> str:
    """What capture failed with, where that is not memory: SGLang prints its memory advice under every such error."""
    reasons = [
        str(observation.values["why"]) for observation in case.all("sg_capture_failed") if "why" in observation.values
    ]
    return reasons[0].strip() if reasons and not case.memory and not _LACK.search(reasons[0]) else ""


_LACK = re.compile(r"(?i)out of memory|OOM|alloc|(?:enough|insufficient) .{0,20}memory")
