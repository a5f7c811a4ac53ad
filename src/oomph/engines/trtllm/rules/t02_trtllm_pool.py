"""T02: TensorRT-LLM: the KV pool leaves too little for the rest.

What it is: the pool takes free_gpu_memory_fraction of what is left after weights and measured activations. Warm-up,
long prompts and logits that the text-only estimation did not see must live in the remainder. A pool that is too small
shortens the served context without an error.

How to recognise it: an allocation fails after the line with the peak of memory usage profiling or the paged KV cache;
or "Adjusted max_seq_len" in the final pass; or "Impossible to fit in any sequence in kvCache".

Look-alikes: T01 (before the budget is known).

What fixes it: a lower free_gpu_memory_fraction or max_gpu_total_bytes for an OOM; a higher one, or shorter sequences,
where no sequence fits.

What does not: max_batch_size alone, once the pool is made.

Evidence: TensorRT-LLM kvCacheManager; TensorRT-LLM PR 18669.
"""

from oomph.doctor.ledger import last, number
from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib


@rule("kv_alloc", "runtime_request", "cudagraph_capture")
def match(case: Case) -> Finding | None:
    pool = number(last(case.observations, "tr_kv", "kv"), "kv")  # printed twice: the temporary one is the first
    kv, fraction = pool or case.value("tr_budget", "available"), case.real("tr_budget", "fraction")
    if case.has("tr_no_sequence"):
        text = "Not one sequence of the full length fits into the KV pool" + (f" of {gib(kv)}." if kv else ".")
        shorter = (
            "context",
            "share_up",
            "kv_dtype",
        )
        return Finding(Tier.SAID, text, case.line("tr_no_sequence", "tr_kv"), shorter)
    if case.has("tr_over_budget"):
        text = "The states that every slot of max_batch_size has from the start are larger than the whole KV budget."
        fewer = (
            "sequences",
            "share_up",
        )
        return Finding(Tier.SAID, text, case.line("tr_over_budget"), fewer)
    if case.death.kind == "tr_budget":
        text = "The weights and the dummy run's peak leave nothing for the KV pool."
        smaller = (
            "checkpoint",
            "more_gpus",
            "batch",
            "sequences",
        )
        return Finding(Tier.COMPUTED, text, case.line("tr_budget"), smaller)
    served = case.before("tr_budget", "tr_kv") or case.stage in ("kv_alloc", "runtime_request")
    served = served or case.told_short_at("cudagraph_capture")
    if not case.failed or not served or case.has("tr_component") or not (case.memory or case.has("tr_oom", "tr_late")):
        return None
    text = (
        "The KV pool had its share"
        + (f" ({gib(kv)})" if kv else "")
        + "; what came after it did not fit in the remainder."
        + _remainder(case, kv)
    )
    if case.stage == "kv_alloc" and not case.before("tr_budget", "tr_kv"):
        text = "The engine was loaded; its buffers and its KV pool did not fit beside it."
    down = round((fraction or 0.9) - 0.1, 2)
    remedies = (
        ("share_down", down),
        "batch",
        "sequences",
    )
    rejected = {"sequences_alone": "the pool keeps its size"}
    return Finding(
        Tier.COMPUTED, text, case.line("tr_budget", "tr_kv", "torch_oom", "tr_oom", "tr_late"), remedies, rejected
    )


def _remainder(case: Case, kv: int | None) -> str:
    """What the pool left: the fraction is taken of what the dummy prefill did not use."""
    peak, total = case.value("tr_budget", "peak"), case.value("tr_budget", "total") or case.total
    if not (kv and peak and total):
        return ""
    temporary = case.value("tr_budget", "temporary") or 0
    left = total - peak + temporary - kv
    return (
        f" Of {gib(total)} the dummy prefill used {gib(peak - temporary)}; {gib(max(0, left))} were left for run time, "
        f"where the logits of a full batch and larger prompts come on top."
    )
