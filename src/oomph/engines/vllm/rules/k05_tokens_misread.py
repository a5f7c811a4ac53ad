"""K05: The printed token count is not the capacity.

"GPU KV cache size: N tokens" is not the capacity of a hybrid model.

What it is: up to 0.20 the line prints blocks // groups x block size. With several groups (sliding window and full
attention, or recurrent layers) a request does not use the groups alike, so the figure says little. Since 0.21 it is
concurrency x max_model_len.

How to recognise it: the printed tokens are far below concurrency x max_model_len, often below max_model_len itself
although the concurrency is above 1.

Look-alikes: K02, which really refuses to start.

What fixes it: nothing is broken: capacity is concurrency x max_model_len. 0.21 and newer print that.

What does not: more utilization, or switching the hybrid manager off (which really costs memory).

Evidence: kv_cache_utils.py:1300 (0.19.1) against :1700 (0.21.0); vllm issues 39133 and 43308, PR 41069.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib


@rule("kv_alloc", "cudagraph_capture", "runtime_request", failure=False, until="0.21.0", dated=False, plan_adds="pool")
def match(case: Case) -> Finding | None:
    tokens, length = case.value("kv_tokens", "tokens"), case.value("concurrency", "max_model_len")
    times = case.real("concurrency", "concurrency")
    if case.failed or not tokens or not length or not times:
        return None
    capacity = int(times * length)
    if tokens > capacity * 0.8 or times < 1:
        return None
    text = (
        f"{tokens:,} is blocks / groups x block size, not a capacity; {times:g}x of {length:,} "
        "tokens is: the pool"
        f" holds about {capacity:,} tokens of such requests. Sliding windows and states are exploited, no flag is "
        "missing."
    )
    kv = case.account.get("kv")
    if kv:
        text += f" {gib(kv)} of KV memory is {kv / capacity / 1024:.3g} KiB per token, not {kv / tokens / 1024:.3g}."
    if case.has("e5m2_mentioned", "e5m2_refused"):
        text += (
            " fp8_e5m2 KV was refused because up to 0.23 the check asks whether the checkpoint is quantised at all;"
            " since 0.24.0 only checkpoints that bring FP8 KV scales are refused."
        )
    if case.has("fp8e4nv"):
        text += (
            " An 8-bit KV cache needs compute capability 8.9 in vLLM's Triton backend, e4m3 and e5m2 alike: this card"
            " is older."
        )
    rejected = {
        "share_up": "the pool is not small; the figure is misread",
        "hybrid_manager": "it charges sliding-window layers as full attention:"
        " the printed figure may look better, the capacity is worse",
    }
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("kv_tokens", "concurrency", "available_kv"),
        ("nothing", ("release", "0.21.0")),
        rejected,
    )
