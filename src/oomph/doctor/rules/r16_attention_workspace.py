"""R16: The attention workspace is too small.

The attention library's workspace is too small; the card's memory is not short.

What it is: FlashInfer plans its prefill in a workspace of a fixed size that the engine allocates once (a few hundred
MiB). A batch with many long sequences needs a larger one, and FlashInfer says that it "failed to allocate" inside it.

How to recognise it: "Failed to allocate memory for batch_prefill_tmp_v with size N and alignment 16 in
AlignedAllocator", "Buffer overflow when allocating memory for ...".

Look-alikes: an out-of-memory error of the card names its total and what is free.

What fixes it: a larger workspace; smaller batches; another attention backend.

What does not: utilization, the context, anything that makes room on the card: the workspace has a size of its own.

Evidence: flashinfer allocator.h AlignedAllocator; VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE (envs.py),
SGLANG_FLASHINFER_WORKSPACE_SIZE.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import MIB, human

SIZE = 1024 * MIB


@rule("runtime_request", "cudagraph_capture", "profile_run", "other", engines=("vllm", "sglang"))
def match(case: Case) -> Finding | None:
    observation = case.first("workspace_small")
    if observation is None or not case.failed:
        return None
    tried = int(observation.values.get("tried", 0))
    text = "FlashInfer's workspace, which is allocated once and has a fixed size, is too small for this batch"
    text += f": {human(tried)} more were needed in it." if tried else "."
    size = max(SIZE, 2 * tried)
    levers = (("workspace", size), "batch", "sequences", "backend")
    why = "the workspace has a size of its own: room on the card does not enlarge it"
    return Finding(Tier.SAID, text, (observation.line,), levers, {"gpu_flags": why})
