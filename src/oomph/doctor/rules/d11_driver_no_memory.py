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

from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("host_ram", engines=("vllm", "sglang", "trtllm"))
def match(case: Case) -> Finding | None:
    if not case.has("driver_oom") or not case.failed:
        return None
    text = (
        "The driver found no memory for itself (NV_ERR_NO_MEMORY). It takes it from the host, and on unified memory"
        " what the GPU holds is missing there; no CUDA error reaches the engine then."
    )
    remedies = (
        "share_down",
        ("batch", 2048),
        "no_expandable",
        "drop_caches",
    )
    rejected = {"shm": "shared memory is taken from the same RAM"}
    settle = "free -h while it starts: how much the host has left"
    return Finding(Tier.COMPUTED, text, case.line("driver_oom"), remedies, rejected, settle=settle)
