"""S04: SGLang: graph capture failed, and not for memory.

What it is: SGLang wraps every exception during capture into "Capture cuda graph failed" and prints the same advice
under it: a smaller --mem-fraction-static, fewer graph sizes, no graphs. An unsupported kernel, a call that may not be
captured or a compiler that is missing has nothing to do with memory.

How to recognise it: the words behind "Capture cuda graph failed:" do not speak of memory, and no OOM is in the log.

Look-alikes: S02 (the graphs really do not fit).

What fixes it: another attention backend or release; --disable-cuda-graph to see whether the rest works.

What does not: --mem-fraction-static, in either direction.

Evidence: sglang cuda_graph_runner.py CUDA_GRAPH_CAPTURE_FAILED_MSG; sglang issue 6033.
"""

from __future__ import annotations

from oomph.doctor.advice import reject
from oomph.doctor.case import Case
from oomph.doctor.rule import Candidate, Remedy, Rule, Tier
from oomph.engines.sglang.rules.s02_sglang_capture import other_reason


def match(case: Case) -> Candidate | None:
    why = other_reason(case)
    if not why:
        return None
    text = (
        f"Capture failed with: {why[:200]} That is no lack of memory; the advice printed under it is the same for every"
    )
    text += " error."
    eager = Remedy(
        "eager", "--disable-cuda-graph", "flag", {"disable_cuda_graph": True}, costs="slower decoding", rank=2
    )
    backend = Remedy("backend", "another --attention-backend", "flag", costs="other kernels", rank=1)
    no = "memory is not what it failed of"
    return Candidate(
        Tier.SAID,
        text,
        case.line("sg_capture_failed"),
        (backend, eager),
        (reject("fraction_down", no), reject("fraction_up", no)),
    )


RULE = Rule(
    "S04",
    "SGLang: graph capture failed, and not for memory",
    ("cudagraph_capture",),
    match,
    engines=("sglang",),
    evidence=("sglang issue 6033",),
)
