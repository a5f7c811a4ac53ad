"""D02: An orphaned engine still holds the GPU.

An earlier engine's process still holds the GPU.

What it is: when the API server is killed, its children (named VLLM::EngineCore or VLLM::Worker, not python) live on
with their memory.

How to recognise it: nvidia-smi or ps shows VLLM:: processes whose parent is gone; the start-up check fails right
after a crash or in a restart loop.

Look-alikes: D01 (somebody else's process).

What fixes it: end those processes and wait; run containers with an init process so that children are reaped.

What does not: squeezing in beside the orphan with a lower utilization; empty_cache.

Evidence: vllm issues 55510, 34643, 42017; PR 34816.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib


@rule("startup_free_memory", "weights_load")
def match(case: Case) -> Finding | None:
    orphan = case.first("orphan")
    if orphan is None or not case.has("free_short", "torch_oom", "cuda_error_oom"):
        return None
    pid, name = orphan.values.get("pid"), orphan.values.get("name")
    free, total = case.value("free_short", "free"), case.value("free_short", "total")
    sentence = f" {gib(total - free)} of the card are taken." if free is not None and total else ""
    text = f"Process {pid} (VLLM::{name}) of an earlier start still holds the GPU.{sentence}"
    remedies = (
        ("end_process", pid),
        "init",
    )
    rejected = {
        "share_down": "it would leave the orphan where it is and serve with what it left over",
        "empty_cache": "it frees the caller's own cache, never another process's memory",
    }
    return Finding(Tier.SAID, text, (orphan.line, *case.line("free_short")), remedies, rejected)
