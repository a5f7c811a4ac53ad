"""D03: Unified memory: what the system holds counts as used.

Unified memory: the system, and in some releases the page cache, count as used GPU memory.

What it is: GB10 (DGX Spark), Jetson and AMD APUs share memory between CPU and GPU. Up to 0.11.0, and on AMD in every
release, free memory is what CUDA or HIP calls free: the page cache of weight files that were read before is missing
from it, although it could be dropped at any time. Since 0.11.1 vLLM reads the kernel's MemAvailable on NVIDIA's: what
is missing then are the system and other programs, the container and CUDA's context (2.6 GiB on a GB10, 8 to 9 with some
kernels), and memory that an engine which just ended has not given back.

How to recognise it: the card's total is the machine's RAM (119.7, 121.7, 61 GiB ...); the first start works and the
second does not; KV memory comes out negative on a card with plenty of room.

Look-alikes: D01 (somebody else really uses it), D11 (the driver finds no memory), K01 (the model really is too large).

What fixes it: a utilization below what is available, less 3 GiB; some seconds between stop and start; up to 0.11.0
dropping the page cache before the start. At the KV check: --kv-cache-memory-bytes, which needs no measurement.

What does not: restarting the container (the page cache is the kernel's), raising vm.min_free_kbytes; at the free-memory
check --kv-cache-memory-bytes alone, since the check compares utilization x total whatever the bytes.

Evidence: utils/mem_utils.py (0.11.1 has psutil, 0.11.0 does not); v1/worker/utils.py:716 (0.32.0); vllm issue 48140.
"""

from oomph.doctor.writing import Case, Finding, Named, Tier, rule
from oomph.units import GIB, gib


@rule(
    "startup_free_memory",
    "kv_check",
    "weights_load",
    at_stage=True,
    over=(
        "D01",
        "K01",
    ),
)
def match(case: Case) -> Finding | None:
    if not case.unified or case.has("kv_need"):
        return None
    free, total = case.value("free_short", "free"), case.value("free_short", "total")
    available = bool(case.version) and case.facts.budget.reads_available and not case.rocm
    if free is not None and total:
        of_system = (
            "the system, other programs, the container with CUDA's context, and what the last engine still holds"
        )
        of_files = "the page cache of weight files read before, and memory that the last engine has not given back yet,"
        inside = f"{of_system} are in it; the page cache is not" if available else f"{of_files} are in it"
        shared = f"This is unified memory ({gib(total)} shared with the CPU)."
        text = f"{shared} {gib(total - free)} count as used; {inside}."
    else:
        text = (
            "This is unified memory: what the page cache of the weight files holds is missing from what CUDA calls "
            "free,"
            " so the budget comes out too small although the memory could be had."
        )
    levers: tuple[Named, ...] = (
        "drop_caches",
        "wait",
        ("share_down", (free - 2 * GIB) / total if free and total else None),
    )
    if case.stage != "startup_free_memory":  # the check compares the whole budget, whatever these bytes say
        levers = (*levers, ("kv_bytes", 8 * GIB))
    rejected = {"reboot": "the page cache belongs to the kernel, a container restart leaves it"}
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("free_short", "available_kv"),
        levers,
        rejected,
        settle="free -h: a large buff/cache figure confirms it",
    )
