"""T05: TensorRT-LLM: the KV pool has no free block left.

What it is: a sequence needs a block and the pool has none. While graphs are captured the dummy batch takes its blocks
once per beam, so that a pool that holds every real request may be too small for the warm-up.

How to recognise it: "No free block found" or "Can't allocate new blocks. No free blocks left."; no CUDA error.

Look-alikes: T02, where CUDA itself runs out.

What fixes it: a larger kv_cache_config.max_tokens (or leave it unset), fewer beams, a smaller max_batch_size, fewer
graph sizes.

What does not: a lower free_gpu_memory_fraction, which makes the pool smaller still.

Evidence: TensorRT-LLM issue 19527: 32 beams, a batch of 8 and 256 blocks.
"""

from oomph.doctor.ledger import last, number
from oomph.doctor.writing import Case, Finding, Tier, rule


@rule("cudagraph_capture", "profile_run", "runtime_request", "kv_alloc", "other")
def match(case: Case) -> Finding | None:
    full_pool = case.first("tr_pool_full")
    if full_pool is None or not case.failed:
        return None
    blocks = number(last(case.observations, "tr_blocks", "blocks"), "blocks")
    pool = f" of {blocks:,} blocks" if blocks else ""
    text = f"The KV pool{pool} had no free block for the next sequence."
    if case.has("tr_graphs"):
        text += " It was asked for by the dummy batch of the CUDA graphs, which takes its blocks once per beam."
    remedies = (
        "sequences",
        "no_graphs",
        "share_up",
    )
    rejected = {"share_down": "the pool would be smaller still"}
    return Finding(Tier.SAID, text, (full_pool.line, *case.line("tr_blocks", "tr_graphs")), remedies, rejected)
