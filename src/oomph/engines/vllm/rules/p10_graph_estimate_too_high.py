"""P10: The graph estimate takes more than graphs use.

The graph estimate takes far more from the KV cache than graphs use.

What it is: two graphs per mode are measured and multiplied by their number, although graphs share one pool; on hybrid
models the sample runs a full batch whose transient is counted as graph memory. The surplus is missing from the KV
cache.

How to recognise it: "CUDA graph pool memory: A GiB (actual), E GiB (estimated)" with E much larger than A, or an
estimate that is most of what the KV check lacks. A negative estimate is the opposite error.

Look-alikes: C02 (the estimate is too small).

What fixes it: a smaller token batch; VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0 with a little less utilization; a KV
size of your own.

What does not: 0.99 utilization: the run-time head-room goes first.

Evidence: vllm issues 50780 and 45178; gpu_model_runner.py:6049 (0.21.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB, gib


@rule("kv_check", failure=False, since="0.18.0", dated=False)
def match(case: Case) -> Finding | None:
    actual, estimate = case.value("graph_pool", "actual"), case.value("graph_pool", "estimate")
    if estimate is None:
        estimate = case.value("graph_estimate", "estimate")
    if estimate is None:
        return None
    if estimate < -GIB // 4:
        text = (
            f"The graph estimate is negative ({gib(estimate)}): memory was given back while it was measured, and "
            "the KV cache"
            f" was made {gib(-estimate)} too large. The next allocation may fail."
        )
        return Finding(
            Tier.LIKELY,
            text,
            case.line("graph_estimate"),
            (("share_down", case.util - 0.08),),
            {},
        )
    need, have = case.value("kv_need", "need"), case.value("kv_need", "available")
    if case.failed:
        if case.stage != "kv_check" or need is None or have is None or not need - have <= estimate or estimate < GIB:
            return None
        text = (
            f"{gib(need - have)} of KV are missing, and {gib(estimate)} were held back for CUDA graphs; graphs "
            "share a pool, so"
            " the real figure is often a fraction of that."
        )
        tier = Tier.COMPUTED
    elif actual is not None and estimate - actual > max(GIB // 2, actual):
        text = (
            f"{gib(estimate)} were held back for CUDA graphs, {gib(actual)} were used: {gib(estimate - actual)} "
            "more could be KV"
            " cache."
        )
        tier = Tier.LIKELY
    else:
        return None
    off = "graph_estimate"
    kv = case.value("available_kv", "available") or have or 0
    remedies = (off, ("kv_bytes", kv + (estimate - (actual or estimate // 4))), ("fewer_graphs", 64))
    return Finding(tier, text, case.line("graph_pool", "graph_estimate", "kv_need"), remedies, {})
