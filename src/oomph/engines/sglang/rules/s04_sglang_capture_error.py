"""S04: SGLang: graph capture failed, not for memory as far as this log goes.

SGLang: graph capture failed, and not for memory.

What it is: SGLang wraps every exception during capture into "Capture cuda graph failed" and prints the same advice
under it: a smaller --mem-fraction-static, fewer graph sizes, no graphs. An unsupported kernel, a call that may not be
captured or a compiler that is missing has nothing to do with memory.

How to recognise it: the words behind "Capture cuda graph failed:" do not speak of memory, and no OOM is in the log.

Look-alikes: S02 (the graphs really do not fit).

What fixes it: another attention backend or release; --disable-cuda-graph to see whether the rest works.

What does not: --mem-fraction-static, in either direction.

Evidence: sglang cuda_graph_runner.py CUDA_GRAPH_CAPTURE_FAILED_MSG; sglang issue 6033.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.engines.sglang.rules.s02_sglang_capture import other_reason, reason_lost


@rule("cudagraph_capture")
def match(case: Case) -> Finding | None:
    why = other_reason(case)
    if not why and not (case.failed and reason_lost(case)):
        return None
    text = (
        f"Capture failed with: {why[:200]} That is no lack of memory; the advice printed under it is the same for every"
        " error."
    )
    if not why:
        text = (
            "Capture failed; what of stands in a line above that is not here. The advice that is printed is the same "
            "for every error, and nothing else in this text speaks of a lack of memory."
        )
    if not why:
        ways = ("whole_log", "no_graphs", "share_down", "backend")
        settle = 'the line "Capture cuda graph failed: ..." and the traceback above it'
        return Finding(Tier.LIKELY, text, case.line("sg_capture_failed"), ways, settle=settle)
    no = "memory is not what it failed of"
    return Finding(
        Tier.SAID,
        text,
        case.line("sg_capture_failed"),
        ("backend", "no_graphs"),
        {"share_down": no, "share_up": no},
    )
