"""K11: Sliding windows are charged as full attention.

The hybrid KV manager is off, so sliding windows are charged as full attention.

What it is: a KV connector, a platform or the flag switches it off. Layers with a window of 1,024 tokens then reserve
the whole context.

How to recognise it: "Hybrid KV cache manager is disabled for this hybrid model", or a need per token that is that of
all layers.

Look-alikes: K02 (an honest need).

What fixes it: without --disable-hybrid-kv-cache-manager, or without the connector that needs it; else a shorter
context.

What does not: a little more utilization: the need is several times as large.

Evidence: kv_cache_utils.py (0.21.0); config/vllm.py decides when it is off.
"""

from oomph.doctor.writing import Case, Finding, Named, Tier, rule
from oomph.units import gib


@rule("kv_check", at_stage=True)
def match(case: Case) -> Finding | None:
    off = case.has("hybrid_off") or case.flag("disable_hybrid_kv_cache_manager") is True
    if not off:
        return None
    need, have = case.value("kv_need", "need"), case.value("kv_need", "available")
    text = "The hybrid KV manager is off: sliding-window layers are charged for the whole context."
    if need and have is not None:
        text += f" That is how one request comes to need {gib(need)} ({gib(have)} are there)."
    remedies: list[Named] = ["hybrid_manager"]
    if case.has("kv_connector"):
        remedies.append("no_connector")
    if estimate := case.value("kv_need", "estimate"):
        remedies.append(("context", estimate // 16 * 16))
    return Finding(
        Tier.SAID,
        text,
        case.line("hybrid_off", "kv_need"),
        tuple(remedies),
        {"share_up": "the need is several times too large, not a few per cent"},
    )
