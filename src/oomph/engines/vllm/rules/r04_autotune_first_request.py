"""R04: Kernels are tuned at the first request.

What it is: before 0.18 the gated-delta-net kernels were tuned when the first request came, beside a full KV cache.

How to recognise it: "Triton Error [CUDA]: out of memory" or solve_tril in the traceback, at the first request only.

Look-alikes: P07 (every long prompt).

What fixes it: 0.18 or newer, which tunes while profiling; 0.05 less utilization.

What does not: fewer requests.

Evidence: vllm PR 36599.
"""

from oomph.doctor.writing import Candidate, Case, Tier, advice, rule


@rule("runtime_request", until="0.18.0", dated=False)
def match(case: Case) -> Candidate | None:
    if not case.failed or not (case.has("triton_oom") or case.in_traceback("solve_tril")):
        return None
    if case.within("0.18.0") is True and not case.has("triton_oom"):
        return None
    text = (
        "Triton ran out of memory while it tuned kernels at the first request, beside a KV cache that had taken "
        "the rest."
    )
    return Candidate(
        Tier.COMPUTED,
        text,
        case.line("triton_oom", "torch_oom"),
        (advice.upgrade("0.18.0"), advice.utilization(case, case.util - 0.05)),
        advice.useless(case, advice.reject("max_num_seqs", "the first request alone does it")),
    )
