"""P06: Kernel tuning leaves gigabytes outside of PyTorch.

What it is: tuning the gated-delta-net prefill kernels of hybrid models leaves local memory and modules in the driver:
3.4 GiB were measured on an RTX 5090. They belong to the process, not to PyTorch, and do not come back.

How to recognise it: in use - allocated - reserved is above 2 GiB with one GPU and no communicators; a long "Initial
profiling/warmup run".

Look-alikes: P09 (communicators: several ranks), D08 (a neighbour).

What fixes it: a release after 0.20 (tuning moved); otherwise what else shrinks the model.

What does not: expandable segments, empty_cache, fewer sequences.

Evidence: vllm issue 36973, PRs 36599 and 38343.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB, gib


@rule("profile_run", "kv_alloc", "cudagraph_capture", "kv_check", "cudagraph_profile", since="0.18.0", over=("C01",))
def match(case: Case) -> Finding | None:
    context = case.account.get("context") or 0
    if not case.failed or context <= 2 * GIB or case.tp > 1 or case.oom is None or not case.before("weights"):
        return None
    if case.stage not in ("profile_run", "kv_alloc", "cudagraph_capture", "kv_check", "cudagraph_profile"):
        return None
    text = (
        f"{gib(context)} belong to this process but not to PyTorch, with one GPU: a context alone is about half a GiB."
        " Kernel tuning during the profiling run leaves that much behind on some hybrid models."
    )
    tuned = case.has("warmup_run", "gdn_warmup") or case.in_traceback("gated_delta", "fla_", "chunk_")
    remedies = (("release", "0.20.0"), "checkpoint", ("batch", 1024))
    rejected = {
        "expandable": "the memory is the driver's, not PyTorch's",
        "empty_cache": "the memory is the driver's, not PyTorch's",
    }
    return Finding(
        (Tier.COMPUTED if context > 3 * GIB else Tier.LIKELY) if tuned else Tier.POSSIBLE,
        text,
        case.line("torch_oom", "warmup_run"),
        remedies,
        rejected,
        settle="nvidia-smi's figure for this process minus torch.cuda.memory_reserved()",
    )
