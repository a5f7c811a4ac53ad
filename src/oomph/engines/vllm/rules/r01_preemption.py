"""R01: Requests push each other out of the KV cache.

What it is: the pool is full, so V1 drops a request and computes it again later. Nothing crashes, throughput
collapses.

How to recognise it: KV cache usage near 100 %, waiting requests, a rising preemption count.

Look-alikes: R10 (waiting with a nearly empty pool), a real OOM.

What fixes it: --max-num-seqs at about pool tokens / mean length; more KV memory (8-bit KV, more utilization, ranks);
shorter answers.

What does not: --swap-space. And fewer requests do not protect from OOM: the pool is fixed.

Evidence: v1/core/sched/scheduler.py (0.21.0): preempted requests are recomputed; vllm issue 18115.
"""

from oomph.doctor.writing import Case, Finding, Named, Tier, rule


@rule("runtime_request", failure=False)
def match(case: Case) -> Finding | None:
    stats = [
        observation for observation in case.all("stats") if {"usage", "waiting", "running"} <= observation.values.keys()
    ]
    usage = max((float(observation.values["usage"]) for observation in stats), default=0.0)
    preempted = max((int(observation.values.get("preemptions", 0)) for observation in stats), default=0)
    waiting = max((int(observation.values["waiting"]) for observation in stats), default=0)
    if (not case.has("preempted") and not (preempted and usage > 80) and not (usage >= 97 and waiting)) or case.failed:
        return None
    text = f"The KV cache was full ({usage:g} %)" if stats else "The KV cache was full"
    text += f", {waiting} requests waited" if waiting else ""
    text += f", {preempted} preemptions" if preempted else ""
    dropped = case.has("preempted") or preempted > 0
    text += (
        ". Requests are dropped and computed again"
        if dropped
        else ". What no longer fits is dropped and computed again"
    )
    text += ": slow, but no failure."
    times = case.real("concurrency", "concurrency")
    remedies: list[Named] = ["kv_dtype", ("share_up", case.util + 0.03)]
    running = max((int(observation.values["running"]) for observation in stats), default=0)
    if running > 1:
        remedies.insert(0, ("sequences", max(1, int(times or running * 0.7))))
    return Finding(
        Tier.LIKELY,
        text,
        case.line("stats", "preempted"),
        tuple(remedies),
        {"swap": "V1 never swaps; the flag did nothing and is gone since 0.18"},
    )
