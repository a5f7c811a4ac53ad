"""H01: /dev/shm is too small.

What it is: ranks exchange data through shared memory; Docker gives 64 MiB.

How to recognise it: "Error while creating shared memory segment /dev/shm/nccl...", "Bus error", or "Insufficient
space in /dev/shm".

Look-alikes: H02 (a wait, no error).

What fixes it: --ipc=host or --shm-size=16g.

What does not: GPU flags.

Evidence: vllm PRs 1125 and 48879, issue 1710.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("other", engines=("vllm", "sglang", "trtllm"))
def match(case: Case) -> Finding | None:
    small = case.has("shm_small") and not case.failed
    if not case.has("shm_full", "bus_error") and not small:
        return None
    need, free = case.value("shm_full", "required"), case.value("shm_full", "free")
    text = "Shared memory (/dev/shm) ran out; a container has 64 MiB unless told otherwise."
    if need and free is not None:
        text += f" {need} MiB were needed, {free} MiB were free."
    return Finding(
        Tier.SAID if case.has("shm_full") else Tier.LIKELY if small else Tier.COMPUTED,
        text,
        case.line("shm_full", "bus_error", "shm_small"),
        ("shm",),
        {"gpu_flags": "the GPU's memory is not involved"},
    )
