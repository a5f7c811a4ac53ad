"""R10: Requests wait although the cache is nearly empty.

What it is: before 0.21 the admission check charges sliding-window groups with the whole prompt. A request below
max_model_len can be more than the pool in that count and is never admitted.

How to recognise it: no error, waiting requests, at most one running, low KV cache usage.

Look-alikes: R01 (the cache is full).

What fixes it: 0.21 or newer; shorter prompts.

What does not: more GPUs, more utilization.

Evidence: vllm issues 39734, PRs 39866 and 40946 (0.21.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("runtime_request", failure=False, until="0.21.0", dated=False)
def match(case: Case) -> Finding | None:
    stats = [
        observation for observation in case.all("stats") if {"usage", "waiting", "running"} <= observation.values.keys()
    ]
    stuck = [
        observation
        for observation in stats
        if int(observation.values["waiting"]) > 0
        and int(observation.values["running"]) <= 1
        and float(observation.values["usage"]) < 60
    ]
    if case.failed or len(stuck) < 2 or case.within("0.21.0") is True:
        return None
    text = (
        f"{stuck[-1].values['waiting']} requests wait while {stuck[-1].values['running']} runs and "
        f"{stuck[-1].values['usage']} % of"
        " the KV cache is used: admission charges sliding-window layers with the whole prompt in this release."
    )
    return Finding(
        Tier.LIKELY,
        text,
        tuple(o.line for o in stuck[:3]),
        (("release", "0.21.0"),),
        {"share_up": "the pool is not full", "more_gpus": "the pool is not full"},
    )
