"""C01: CUDA graphs do not fit beside the KV cache.

What it is: before 0.20 the KV cache takes all of utilization x total, and graphs must live in what is above it, 1 to
3 GiB. From 0.20 on an estimate is held back, unless VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0.

How to recognise it: the OOM comes after "GPU KV cache size", during "Capturing CUDA graphs"; capture_model in the
traceback.

Look-alikes: C02 (the estimate was a little short), P05 (before the KV cache exists), P04 (right after capture), K10.

What fixes it: utilization lower by graphs / total; fewer or smaller captured sizes; piecewise graphs; eager mode.

What does not: a higher utilization or a shorter context: the pool keeps its size.

Evidence: vllm PR 30515, 38284; gpu_worker.py (0.19.1).
"""

from oomph.doctor.writing import Case, Finding, Named, Tier, rule
from oomph.units import GIB, gib, human


@rule("cudagraph_capture", at_stage=True)
def match(case: Case) -> Finding | None:
    tried, free, total = case.oom_value("tried"), case.oom_value("free"), case.total
    graphs = case.value("graphs", "graphs") or case.value("graph_estimate", "estimate") or 0
    text = "The KV cache had been allocated; CUDA graphs did not fit beside it."
    if tried and free is not None:
        text += f" {human(tried)} were asked for, {human(free)} were free."
    if case.has("graph_estimate_off", "v0_budget") or case.within("", "0.20.0"):
        text += " Nothing was held back for graphs: they must live above the budget"
        if total and case.account.util:
            above = total - round(case.account.util * total)
            text += f", in {gib(total)} - {case.account.util:g} x {gib(total)} = {gib(above)}, with the CUDA context"
        text += "."
    if graphs:
        text += f" Graphs take about {gib(graphs)}."
    share = max(0.03, (graphs or GIB) / total) if total else 0.04
    remedies: list[Named] = [
        ("fewer_graphs", 64),
        ("share_down", case.util - share),
        ("sequences", 64),
        "piecewise_graphs",
        "no_graphs",
    ]
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("capture_begin", "torch_oom", "kv_tokens", "graph_estimate_off"),
        tuple(remedies),
        {},
    )
