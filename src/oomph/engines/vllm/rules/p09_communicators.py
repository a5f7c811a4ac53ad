"""P09: Communicators take gigabytes outside of PyTorch.

NCCL, custom all-reduce and expert-parallel buffers take gigabytes.

What it is: communicators live outside of PyTorch, 0.3 to over 2 GiB per rank; they grow with ranks, channels and the
all-to-all backend. They are there before the start-up check, or appear with the first collective.

How to recognise it: in use - allocated - reserved above 1.5 GiB per rank with several ranks.

Look-alikes: P06 (one GPU), D01.

What fixes it: NCCL_MAX_NCHANNELS or NCCL_BUFFSIZE smaller, NCCL_CUMEM_ENABLE=0, another all-to-all backend.

What does not: quantisation.

Evidence: gpu_worker.py:277 (0.21.0): the snapshot is taken after NCCL; vllm issue 39788.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB, gib

_REMEDIES = (
    "fewer_channels",
    "nccl_cumem",
)


@rule("startup_free_memory", "weights_load", "profile_run", "kv_alloc", "cudagraph_capture", "runtime_request")
def match(case: Case) -> Finding | None:
    context = case.account.get("context") or 0
    if case.failed and case.death.kind == "nccl_oom":
        text = "NCCL itself could not get memory: its buffers are allocated outside of PyTorch, beside all the rest."
        return Finding(Tier.COMPUTED, text, case.line("nccl_oom"), _REMEDIES, {})
    if not case.failed or case.tp < 2 or context < 1.5 * GIB or case.oom is None:
        return None
    text = (
        f"{gib(context)} per rank belong to this process but not to PyTorch; with {case.tp} ranks these are "
        "communicators"
        " (NCCL channels, all-reduce and all-to-all buffers)."
    )
    return Finding(
        Tier.COMPUTED if context > 3 * GIB and case.stage != "runtime_request" else Tier.POSSIBLE,
        text,
        case.line("nccl", "torch_oom"),
        _REMEDIES,
        {},
        settle="VLLM_LOGGING_LEVEL=DEBUG prints non-torch memory",
    )
