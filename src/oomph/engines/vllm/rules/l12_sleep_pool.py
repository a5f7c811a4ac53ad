"""L12: Sleep mode's pool keeps what the load frees.

What it is: with --enable-sleep-mode the weights are created and converted inside one pool of PyTorch's. Whatever a
conversion frees stays in that pool until the load is over: blocks that no later request fits are held beside the
weights. gpt-oss-120b takes 61.4 GiB and reserves 79.1 GiB on the way. Since 0.21.0 a load splits no block of 20 MiB
and more, so that a small segment that is free again is never used for another small tensor: kernels that copy expert by
expert (TRT-LLM's on Blackwell) leave a copy of every layer's experts behind.

How to recognise it: "CUDA Error: out of memory at ... cumem_allocator.cpp", or an out-of-memory text that counts most
of the memory in private pools, before "Model loading took"; without the flag the same command loads.

Look-alikes: L01 (the weights alone are too large), L05 (one conversion is too large), R11 (the same line after the
engine slept).

What fixes it: the same command without --enable-sleep-mode; more ranks; a checkpoint that is not converted.

What does not: utilization, expandable segments (they do not work with this pool), an eager start.

Evidence: device_allocator/cumem.py use_memory_pool (0.32.0); vllm issues 34877, 43951 and 48680; a start on an H200
(tests/truth/h200-newest.jsonl).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib

_OTHERS = 0.1  # of the card
_POOLED = 0.2  # of what PyTorch had: more than graphs take, and there are none yet


@rule("weights_load", at_stage=True, over=("L01", "L05"))
def match(case: Case) -> Finding | None:
    pools, allocated = case.oom_value("pools"), case.oom_value("allocated")
    pooled = bool(pools and allocated and pools > _POOLED * allocated)
    has_pool = bool(case.flag("enable_sleep_mode") or case.flag("enable_cumem_allocator"))
    if case.before("weights") or not (case.has("cumem_oom") or (has_pool and case.memory) or pooled):
        return None
    if (case.account.get("others") or 0) > _OTHERS * (case.total or 1):
        return None  # a neighbour has what is missing
    text = "Sleep mode loads the weights into a pool that gives nothing back until the load is over."
    if allocated:
        text += f" PyTorch held {gib(allocated)}, with what conversions had freed on the way"
        # CUDACachingAllocator.cpp: "allocated in private pools" sums blocks that are free there, beside those in use
        text += f": {gib(pools)}." if pooled and pools else "."
    return Finding(
        Tier.COMPUTED if case.has("cumem_oom") or pooled else Tier.LIKELY,
        text,
        case.line("cumem_oom", "torch_oom"),
        (
            "no_sleep_mode",
            "more_gpus",
            "checkpoint",
        ),
        {"expandable": "it does not work with sleep mode"},
    )
