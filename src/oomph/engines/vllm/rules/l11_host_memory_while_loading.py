"""L11: The host ran out of memory while loading.

The host ran out of memory while weights were loaded or offloaded.

What it is: the kernel or the cgroup killed the process. Offloaded weights are pinned shared memory, repacking doubles
them for a while, every rank maps the files, and .bin checkpoints are deserialised in RAM.

How to recognise it: no Python exception in the worker, "Killed process", exit 137 or -9, "Failed core proc(s)", and
the load had begun.

Look-alikes: H03 (killed at another time), D07.

What fixes it: about twice the offloaded size of RAM (or pod limit) during the repack; safetensors instead of .bin;
less --cpu-offload-gb; fewer ranks that load at once.

What does not: any GPU flag; --swap-space.

Evidence: vllm issue 56410 (1.9x measured); config/parallel.py:237 (0.21.0).
"""

from oomph.doctor.writing import Case, Finding, Named, Tier, rule
from oomph.units import GIB, gib


@rule("host_ram", at_stage=True)
def match(case: Case) -> Finding | None:
    loading = case.before("load_begin", "load_files", "load_files_done", "offloaded") and not case.before(
        "available_kv", "serving"
    )
    offloaded, wanted = case.value("offloaded", "offloaded"), case.whole("cpu_offload_gb")
    if not (loading or offloaded or wanted or case.has("ray_kill", "mmap_failed")):
        return None
    text = (
        "The operating system ended the process while weights were loaded: the host's memory was full, not the GPU's."
    )
    mapped = case.value("mmap_failed", "size")
    if mapped:
        text = (
            f"A weight file of {gib(mapped)} could not be mapped into the process: the host (or its container) has no"
            " room for it, or too little address space is allowed (ulimit -v)."
        )
    if offloaded or wanted:
        size = offloaded or (wanted or 0) * GIB
        text += f" {gib(size)} per GPU are offloaded; while they are repacked about twice that is needed."
    if case.has("ray_kill"):
        used, total = case.value("ray_kill", "used"), case.value("ray_kill", "total")
        figures = f" ({gib(used)} of {gib(total)})" if used and total else ""
        text += f" It was Ray's own memory monitor, which ends workers at 95 % of the node's memory{figures}."
        if total and 110 * GIB < total < 130 * GIB:
            text += (
                " On unified memory the GPU's reservation and the page cache of the weight files count as host memory."
            )
    remedies: list[Named] = ["host_memory_for_offload"]
    if case.has("ray_kill"):
        remedies.insert(0, "ray_monitor")
    if wanted:
        half = max(1, wanted // 2)
        remedies.append(("less_offload", half))
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("host_kill", "container_kill", "sigkill", "ray_kill", "mmap_failed", "offloaded"),
        tuple(remedies),
        {"shm": "shared memory is taken from the same RAM"},
    )
