"""C02: At this utilization the graph estimate is too small.

At extreme utilization the graph estimate is a little too small.

What it is: the estimate is taken on a minimal KV cache; the real capture needs 0.1 to 0.3 GiB more. Following the
printed hint to raise utilization leads to 0.97 and beyond, where that is missing.

How to recognise it: 0.20 or newer, utilization above 0.95, a small allocation fails with slightly less free, in
capture.

Look-alikes: C01 (nothing was held back).

What fixes it: 0.01 to 0.02 less utilization; fewer captured sizes.

What does not: the higher utilization that the log itself proposes.

Evidence: vllm issue 57475, PR 57595.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB, human


@rule("cudagraph_capture", "sampler_warmup", at_stage=True, since="0.20.0", dated=False, over=("C01",))
def match(case: Case) -> Finding | None:
    if case.util <= 0.95 or case.within("0.20.0") is False or case.has("graph_estimate_off") or case.v0:
        return None
    tried, free = case.oom_value("tried"), case.oom_value("free")
    if tried is None or free is None or tried > GIB:
        return None
    text = (
        f"Utilization is {case.util:g}: {human(tried)} were asked for during capture and {human(free)} were free. "
        "The estimate that"
        " was held back is taken on a minimal cache and falls a little short."
    )
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("torch_oom", "graph_util"),
        (("share_down", case.util - 0.02), ("fewer_graphs", 64)),
        {"printed_share": "it takes away the little that is missing"},
    )
