"""P08: The pooler's buffers do not fit.

What it is: token-level heads of embedding and reward models take tokens x labels (or hidden) in float32.

How to recognise it: "CUDA out of memory occurred when warming up pooler (task) with N dummy requests".

Look-alikes: P04.

What fixes it: fewer sequences, a smaller token batch.

What does not: utilization: the profiling run does not obey it.

Evidence: gpu_model_runner.py:5849 (0.21.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("profile_run")
def match(case: Case) -> Finding | None:
    line = case.first("pooler_oom")
    if line is None:
        return None
    n = case.value("pooler_oom", "requests") or 256
    text = f"The pooler ({line.values.get('task')}) ran out of memory with {n} dummy requests in the profiling run."
    return Finding(Tier.SAID, text, (line.line,), (("sequences", max(1, n // 4)), ("batch", 2048)), {})
