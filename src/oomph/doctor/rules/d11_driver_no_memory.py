"""D11: The driver finds no memory for itself.

The driver itself finds no memory.

What it is: NVIDIA's resource manager allocates from the host for page tables, pinned buffers and, on unified memory
(GB10, Thor), for everything. When that fails no CUDA error reaches the engine: the process hangs, or the machine
stalls or resets.

How to recognise it: "NVRM: ... NV_ERR_NO_MEMORY" in dmesg or the journal, the engine's log just ends.

Look-alikes: D03 (the page cache only counts as used), H03 (the kernel killed the process), L11.

What fixes it: a lower utilization, so that the host keeps several GiB; smaller prefill batches; expandable segments
off; the page cache dropped before the start.

What does not: --swap-space, a larger --shm-size.

Evidence: vllm issues 55569 and 56824, NVIDIA dgx-spark-playbooks issue 97.
"""

from oomph.doctor.writing import Candidate, Case, Tier, advice, rule


@rule("host_ram", engines=("vllm", "sglang", "trtllm"))
def match(case: Case) -> Candidate | None:
    if not case.has("driver_oom") or not case.failed:
        return None
    text = (
        "The driver found no memory for itself (NV_ERR_NO_MEMORY). It takes it from the host, and on unified memory"
        " what the GPU holds is missing there; no CUDA error reaches the engine then."
    )
    remedies = (
        advice.utilization(case, min(0.75, case.util - 0.1)),
        advice.batch(2048),
        advice.env("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False", lever="no_expandable", rank=2),
        advice.host("sync; echo 3 | sudo tee /proc/sys/vm/drop_caches   (before the start)", rank=1),
    )
    rejected = advice.useless(
        case, advice.reject("shm", "shared memory is taken from the same RAM"), keep=("util_down",)
    )
    settle = "free -h while it starts: how much the host has left"
    return Candidate(Tier.COMPUTED, text, case.line("driver_oom"), remedies, rejected, settle=settle)
