"""K03: The context is longer than the KV cache (V0).

The V0 engine's wording of K02.

What it is: max_model_len is above the number of tokens the KV cache holds. Without chunked prefill V0's activations
follow the context too, so a shorter one also frees memory.

How to recognise it: "The model's max seq len (L) is larger than the maximum number of tokens that can be stored in KV
cache (N)", next to "# GPU blocks".

Look-alikes: K02 (V1).

What fixes it: --max-model-len at most N; more utilization; an 8-bit KV cache.

What does not: --swap-space.

Evidence: worker.py raise_if_cache_size_invalid, last in 0.10.2.
"""

from oomph.doctor.writing import Case, Finding, Named, Tier, rule
from oomph.units import gib


@rule("kv_check", until="0.11.0", dated=False)
def match(case: Case) -> Finding | None:
    check = case.first("kv_need_v0")
    if check is None:
        return None
    length, tokens = case.value("kv_need_v0", "max_model_len") or 0, case.value("kv_need_v0", "tokens") or 0
    text = f"The KV cache holds {tokens:,} tokens, one request may have {length:,}."
    kv = case.account.get("kv")
    if kv and tokens:
        whole = gib(kv / tokens * length)
        text += f" {gib(kv)} make {kv / tokens / 1024:.3g} KiB per token; {length:,} would take {whole}."
    if case.account.get("weights"):
        text += f" Weights are {gib(case.account.get('weights') or 0)}, per GPU."
    remedies: list[Named] = [("context", max(16, tokens // 16 * 16))] if tokens >= 512 else []
    if tokens and ((case.total and kv) or length <= 1.3 * tokens):
        remedies.append(("share_up", _share(case, kv, tokens, length)))
    if 2 * tokens >= length:  # 8 bits hold twice as many tokens
        remedies.append("kv_dtype")
    return Finding(Tier.SAID, text, case.line("kv_need_v0", "v0_blocks", "v0_terms"), tuple(remedies), {})


def _share(case: Case, kv: int | None, tokens: int, length: int) -> float | None:
    """The utilization at which the length would fit; None where the card is not known."""
    return case.util + kv / tokens * (length - tokens) / case.total + 0.01 if kv and case.total else None
