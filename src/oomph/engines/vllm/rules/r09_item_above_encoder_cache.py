"""R09: An item is larger than the encoder cache.

An image or video is larger than the encoder cache.

What it is: the budget is fixed at the start; a larger item is refused with HTTP 400. It is no OOM.

How to recognise it: "... which exceeds the pre-allocated encoder cache size N", or "Multimodal GPU decode requested N
bytes, which exceeds the total pool size".

Look-alikes: P01 (start-up).

What fixes it: a larger --max-num-batched-tokens or item limit; a smaller item.

What does not: utilization.

Evidence: v1/core/encoder_cache_manager.py (0.21.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib


@rule("runtime_request")
def match(case: Case) -> Finding | None:
    if (refusal := case.first("decode_item")) is not None:
        need, pool = case.value("decode_item", "need") or 0, case.value("decode_item", "pool") or 0
        text = f"Decoding one item on the GPU takes {gib(need)}, and the pool for it has {gib(pool)}. It goes on."
        useless = {"share_up": "the pool is sized by --mm-ipc-gpu-memory-gb"}
        return Finding(Tier.SAID, text, (refusal.line,), ("gpu_decoding", "smaller_item"), useless)
    line = case.first("encoder_item")
    if line is None:
        return None
    size = case.value("encoder_item", "tokens") or 0
    text = (
        f"One item has more tokens than the encoder cache holds ({size:,}). The request is refused; the server goes on."
    )
    return Finding(
        Tier.SAID,
        text,
        (line.line,),
        (("batch_up", max(8192, size * 2)), "smaller_item"),
        {"share_up": "the encoder cache is sized by tokens, not by memory"},
    )
