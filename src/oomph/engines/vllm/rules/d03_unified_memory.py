"""D03: on unified memory the page cache counts as used GPU memory.

What it is: GB10 (DGX Spark), Jetson, GH200 and AMD APUs share memory between CPU and GPU. Free memory then is what
the kernel calls MemFree: the page cache of weight files that were read before is missing from it, although it could
be dropped at any time.

How to recognise it: the card's total is the machine's RAM (119.7, 121.7, 61 GiB ...); the first start works and the
second does not; KV memory comes out negative on a card with plenty of room.

Look-alikes: D01 (somebody else really uses it), D11 (the driver finds no memory), K01 (the model really is too large).

What fixes it: sync and drop the page cache before the start; utilization 0.80 to 0.85; 0.20 or newer, which asks the
operating system instead; --kv-cache-memory-bytes, which needs no measurement; some seconds between stop and start.

What does not: restarting the container (the page cache is the kernel's), raising vm.min_free_kbytes.

Evidence: utils/mem_utils.py:100 (0.21.0) uses psutil on integrated GPUs; vllm issues 48140, 35356.
"""

from __future__ import annotations

from oomph.doctor import advice
from oomph.doctor.advice import reject, useless
from oomph.doctor.case import Case
from oomph.doctor.rule import Candidate, Remedy, Rule, Tier
from oomph.units import GIB, gib


def match(case: Case) -> Candidate | None:
    if not case.failed:
        return None
    if not case.unified or case.stage not in ("startup_free_memory", "kv_check", "weights_load"):
        return None
    if case.has("kv_need"):
        return None
    free, total = case.value("free_short", "free"), case.value("free_short", "total")
    if free is not None and total:
        text = (
            f"This is unified memory ({gib(total)} shared with the CPU). {gib(total - free)} count as used; the "
            "page cache"
            " of weight files read before, and memory that the last engine has not given back yet, are in it."
        )
    else:
        text = (
            "This is unified memory: what the page cache of the weight files holds is missing from what CUDA calls "
            "free,"
            " so the budget comes out too small although the memory could be had."
        )
    remedies = (
        advice.host(
            "sync; echo 3 | sudo tee /proc/sys/vm/drop_caches   (before the start)", "the files are read again", rank=0
        ),
        advice.host("wait about a minute between stop and start", rank=0),
        advice.utilization(case, min(0.85, case.util - 0.03) if not free or not total else (free - 2 * GIB) / total),
        Remedy(
            "kv_bytes",
            "--kv-cache-memory-bytes 8G",
            "flag",
            {"kv_cache_memory_bytes": 8 * GIB},
            costs="the KV cache keeps this size",
            rank=2,
        ),
    )
    rejected = useless(
        case,
        reject("reboot", "the page cache belongs to the kernel, a container restart leaves it"),
        keep=("util_down",),
    )
    return Candidate(
        Tier.COMPUTED,
        text,
        case.line("free_short", "available_kv"),
        remedies,
        rejected,
        settle="free -h: a large buff/cache figure confirms it",
    )


RULE = Rule(
    "D03",
    "Unified memory: the page cache counts as used",
    ("startup_free_memory", "kv_check", "weights_load"),
    match,
    over=(
        "D01",
        "K01",
    ),
    evidence=("utils/mem_utils.py:100 (0.21.0)", "vllm issue 48140"),
)
