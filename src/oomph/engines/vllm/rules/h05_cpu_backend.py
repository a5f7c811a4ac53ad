"""H05: vLLM on the CPU: its share of the host's memory is not free.

What it is: the CPU backend takes --gpu-memory-utilization of a NUMA node's memory for the KV cache, despite the flag's
name, and refuses to start where less is available; with --kv-cache-memory-bytes it takes so much.

How to recognise it: "Available memory on node N (F/T GiB) on startup is less than desired CPU memory utilization", or
"... on kv cache allocation is less than requested memory for kv".

Look-alikes: D01 (the same check of a card), H03 (the kernel killed the process).

What fixes it: a smaller share; other programs that hold the memory; more of it.

What does not: anything about a GPU.

Evidence: v1/worker/cpu_worker.py of 0.32.0.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB, gib


@rule("host_ram")
def match(case: Case) -> Finding | None:
    line = case.first("cpu_short")
    if line is None:
        return None
    free, total = case.value("cpu_short", "free") or 0, case.value("cpu_short", "total") or 0
    need = case.value("cpu_short", "need")
    text = f"vLLM runs on the CPU here: {gib(free)} of the {gib(total)} of this memory node are available"
    text += f", {gib(need)} were asked for." if need else ", less than was asked for."
    share = round((free - GIB) / total, 2) if total and free > 2 * GIB else None
    by_hand = "on kv cache allocation" in line.text  # --kv-cache-memory-bytes, and no share is read
    smaller = ("no_kv_bytes",) if by_hand else (("share_down", share),) if share else ()
    return Finding(Tier.SAID, text, (line.line,), (*smaller, "free_host", "more_host_memory"))
