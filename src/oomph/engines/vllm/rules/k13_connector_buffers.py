"""K13: A KV connector's buffers were not planned for.

What it is: LMCache, NIXL, Mooncake and the offloading connector pin a pool of host memory (1.9 times its size on
hybrid models) and keep staging buffers on the GPU, outside of the budget.

How to recognise it: a connector or --kv-offloading-size in the flags, and the host is killed or the GPU is short by
little.

Look-alikes: L11, H03 (killed without a connector).

What fixes it: a pool of at most (RAM limit - 40 GiB) / 1.95; 0.02 less utilization for staging.

What does not: expecting a longer context from it: one request must still fit on the GPU.

Evidence: vllm issues 53042, 52656, 23087.
"""

from oomph.doctor.writing import Case, Finding, Named, Tier, rule
from oomph.units import gib


@rule("host_ram", "runtime_request", "kv_alloc", at_stage=True)
def match(case: Case) -> Finding | None:
    if (refusal := case.first("host_pool")) is not None:
        need, free = case.value("host_pool", "need"), case.value("host_pool", "free")
        text = "The connector's pinned pool in host memory was refused"
        text += f": {gib(need)} of RAM, and {gib(free)} are free." if need and free is not None else "."
        return Finding(Tier.SAID, text, (refusal.line,), ("connector_pool", "more_host_memory", "no_connector"))
    connector = case.has("kv_connector") or case.flag("kv_transfer_config") or case.flag("kv_offloading_size")
    if not connector:
        return None
    size = case.flag("kv_offloading_size")
    text = (
        "A KV connector keeps its own buffers: a pinned pool in host memory and staging buffers on the GPU, "
        "outside of the budget."
    )
    if isinstance(size, (int, float)) and size:
        text += f" A pool of {size:g} GiB pins up to {size * 1.95:.0f} GiB."
    levers: list[Named] = []
    if isinstance(size, (int, float)) and size > 1:
        levers.append(("offload_pool", size / 2))
    if case.stage != "host_ram":
        levers.append(("share_down", case.util - 0.02))
    elif not levers:
        levers.append("more_host_memory")
    return Finding(
        Tier.COMPUTED if case.stage == "host_ram" else Tier.LIKELY,
        text,
        case.line("kv_connector", "args", "host_kill", "container_kill"),
        tuple(levers),
        {},
    )
