"""R04: Kernels are tuned at the first request.

What it is: before 0.18 the gated-delta-net kernels were tuned when the first request came, beside a full KV cache.

How to recognise it: "Triton Error [CUDA]: out of memory" or solve_tril in the traceback, at the first request only.

Look-alikes: P07 (every long prompt).

What fixes it: 0.18 or newer, which tunes while profiling; 0.05 less utilization.

What does not: fewer requests.

Evidence: vllm PR 36599.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("runtime_request", until="0.18.0", dated=False)
def match(case: Case) -> Finding | None:
    if not case.failed or not (case.has("triton_oom") or case.in_traceback("solve_tril")):
        return None
    if case.within("0.18.0") is True and not case.has("triton_oom"):
        return None
    text = (
        "Triton ran out of memory while it tuned kernels at the first request, beside a KV cache that had taken "
        "the rest."
    )
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("triton_oom", "torch_oom"),
        (("release", "0.18.0"), ("share_down", case.util - 0.05)),
        {"sequences": "the first request alone does it"},
    )
