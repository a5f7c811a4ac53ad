"""S06: SGLang: HiCache's pool in host memory does not fit.

What it is: --enable-hierarchical-cache pins a second KV cache in host memory, --hicache-ratio times the one on the GPU
or --hicache-size GB for every rank, and refuses to start where less is free.

How to recognise it: "Not enough host memory available. Requesting N GB but only have M GB free", "No host memory is
left for HiCache".

Look-alikes: H03 (the kernel killed the process; nothing was refused).

What fixes it: a smaller --hicache-size; more host memory, or a higher limit of the container; no hierarchical cache.

What does not: any setting of GPU memory, but for a smaller pool on the GPU where the ratio counts.

Evidence: mem_cache/pool_host/base.py and mem_cache/hicache_auto_size.py of 0.5.23.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule

_SHARE = 0.9  # of what is free: the pools of the states and of the draft model come behind it


@rule("host_ram")
def match(case: Case) -> Finding | None:
    line = case.first("sg_host_pool")
    if line is None:
        return None
    need, free = case.real("sg_host_pool", "need"), case.real("sg_host_pool", "free")
    text = "The hierarchical cache keeps a second KV cache in host memory, and it does not fit there"
    text += f": {need:g} GB for this rank, {free:g} GB were free." if need and free is not None else "."
    size = int((free or 0.0) * _SHARE)
    smaller = (("host_pool", size),) if size else ()
    return Finding(Tier.SAID, text, (line.line,), (*smaller, "more_host_memory", "no_host_pool"))
