"""H04: Page-locked host memory cannot be had.

The host memory that the engine locks for the GPU cannot be had; the card's memory is not short.

What it is: a tier of the KV cache in host memory, offloaded weights and swap space are locked in RAM (cudaHostAlloc).
CUDA refuses that in the words of the card's memory: "CUDA error: out of memory".

How to recognise it: the failing line has pin_memory or cudaHostAlloc, and no size of the card stands beside it.

Look-alikes: K10 (the pool on the card), L11 and H03 (the kernel ends the process), K13 (a pool that was had, and what
it costs).

What fixes it: a smaller host pool; more RAM, or a higher limit of the container and of locked memory (ulimit -l).

What does not: GPU flags.

Evidence: PyTorch CachingHostAllocator rounds every locked tensor up to a power of two; vllm v1/kv_offload, SGLang
mem_cache/memory_pool_host.py.
"""

from oomph.doctor.rules.h03_killed_by_the_host import KILLED
from oomph.doctor.writing import Case, Finding, Named, Tier, rule
from oomph.text.late import late_pattern


@rule("host_ram", at_stage=True, engines=("vllm", "sglang"), over=("H03", "L11", "K13"))
def match(case: Case) -> Finding | None:
    is_claim = case.told_short_at("host_ram") and any(_TOLD.search(claim.text) for claim in case.claims)
    is_kill = any(KILLED.search(claim.text) for claim in case.claims)  # it had been had, and was too much
    if not (case.death.pinned or (is_claim and not is_kill)):
        return None
    text = "Memory of the host that is locked for the GPU could not be had; nothing on the card was short."
    levers: list[Named] = []
    pool, weights = case.flag("kv_offloading_size"), case.whole("cpu_offload_gb")
    if isinstance(pool, (int, float)) and pool > 1:
        text += f" {pool:g} GiB were ordered for the tier of the KV cache in host memory."
        levers.append(("offload_pool", pool / 2))
    if weights:
        text += f" {weights} GiB of weights per GPU were to be kept there."
        levers.append(("less_offload", max(1, weights // 2)))
    levers.append("more_host_memory")
    why = "the host's memory is short, not the card's"
    return Finding(
        Tier.COMPUTED,
        text,
        (case.death.line,),
        tuple(levers),
        {"gpu_flags": why},
        settle="free -h and ulimit -l where it runs, and the container's limit",
    )


# a pool in host memory, or what locks it
_TOLD = late_pattern(
    r"(?i)\bpage-?locked\b|\bpinn(?:ed|ing)\b|cudaHost|pin_memory|\bmlock|ulimit -l|hicache|hierarchical[- ]cache"
    r"|host[- ](?:speicher-?)?pool|host (?:memory|kv|cache) (?:pool|buffer|tier)|kv[- ]offload|锁页|主机(?:内存)?池"
)
