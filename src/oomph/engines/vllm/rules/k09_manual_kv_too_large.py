"""K09: The KV size given by hand is too large.

What it is: --kv-cache-memory-bytes is taken as it is: no profiling, no utilization, no reserve for graphs.

How to recognise it: "reserved X GiB memory for KV Cache as specified by kv_cache_memory_bytes config and skipped
memory profiling", then an OOM.

Look-alikes: K10 (measured, and still too large), C01.

What fixes it: a smaller value: free at start - weights - activations - graphs - 0.15 GiB; the value vLLM suggests.

What does not: utilization: it is ignored.

Evidence: gpu_worker.py:367 (0.21.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB, gib, human


@rule("kv_alloc", "cudagraph_capture", "sampler_warmup", "runtime_request", at_stage=True, since="0.10.2")
def match(case: Case) -> Finding | None:
    line = case.first("manual_kv")
    if line is None:
        return _told(case)
    kv, tried, free = case.value("manual_kv", "kv") or 0, case.oom_value("tried") or 0, case.oom_value("free") or 0
    text = f"{gib(kv)} of KV cache were ordered by hand; utilization and the graph reserve are not applied to that."
    if tried:
        text += f" {human(tried)} did not fit into {human(free)}."
    less = max(GIB // 2, kv - max(tried - free, 0) - GIB // 2)
    return Finding(
        Tier.SAID,
        text,
        (line.line, *case.line("torch_oom")),
        (("kv_bytes", less), "no_kv_bytes"),
        {"share_down": "ignored while the KV size is given in bytes"},
    )


def _told(case: Case) -> Finding | None:
    """Somebody says that the pool, whose size is in the command, did not fit."""
    if not case.told_short_at("kv_alloc") or not case.flag("kv_cache_memory_bytes"):
        return None
    text = "The size of the KV cache is given by hand: utilization and the graph reserve are not applied to that."
    why = "ignored while the KV size is given in bytes"
    return Finding(Tier.COMPUTED, text, (case.death.line,), ("no_kv_bytes",), {"share_down": why})
