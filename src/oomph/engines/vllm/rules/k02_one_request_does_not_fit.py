"""K02: One request of the full context does not fit.

What it is: vLLM refuses to start unless a single request of max_model_len fits into the KV cache. The default is the
model's own context, often 131,072 or more.

How to recognise it: "To serve at least one request with the model's max seq len (L), (N GiB KV cache is needed, which
is larger than the available KV cache memory (K GiB)". Newer releases also print the longest context that fits.

Look-alikes: K01 (nothing is left), K11 (sliding windows charged as full attention), L09 (KV heads replicated), P10
(the graph estimate took what is missing).

What fixes it: --max-model-len at or below the printed estimate (or auto, since 0.14); an 8-bit KV cache halves the
need; utilization higher by need - have; more ranks.

What does not: fewer sequences; swap or offloading: one request must fit on the GPU.

Evidence: kv_cache_utils.py:715 (0.21.0).
"""

from oomph.doctor.reading.failure import UNSAID
from oomph.doctor.writing import Case, Finding, Named, Tier, rule
from oomph.engines.vllm.serving.safe_utilization import unplanned_utilization
from oomph.text.late import late_pattern
from oomph.units import GIB, gib


@rule("kv_check", since="0.7.0", dated=False)
def match(case: Case) -> Finding | None:
    check = case.first("kv_need")
    if check is None and not (case.has("kv_need_part") and case.has("kv_len_part")):
        return _cut(case) or _told(case)
    length = case.value("kv_need", "max_model_len") or case.value("kv_len_part", "max_model_len") or 0
    need = case.value("kv_need", "need")
    have = case.value("kv_need", "available") or case.value("kv_need_part", "available") or 0
    estimate = case.value("kv_need", "estimate")
    total = case.total
    text = f"One request{f' of {length:,} tokens' if length else ''} needs "
    text += (
        f"{gib(need)} of KV cache, {gib(have)} are left."
        if need
        else f"more KV cache than the {gib(have)} that are left."
    )
    if need and length:
        missing = f"{gib(need - have)} are missing" if need - have >= GIB // 100 else "the last hundredth is missing"
        text += f" That is {need / length / 1024:.3g} KiB per token; {missing}."
    if estimate:
        text += f" {estimate:,} tokens fit."
    remedies: list[Named] = []
    override = case.whole("num_gpu_blocks_override")
    if override and length:
        text += f" The pool was set by hand to {override:,} blocks: that, not the card, is what is left."
        remedies.append("no_block_override")
    fits = estimate or (int(length * have / need * 0.97) if need else 0)
    if fits > 256:
        remedies.append(("context", fits // 16 * 16))
    if str(case.flag("kv_cache_dtype") or "auto") == "auto" and need and need / 2 <= have:
        remedies.append("kv_dtype")
    if need and total:
        remedies.append(("share_up", case.util + (need - have) / total + 0.015))
    elif need and (enough := _card_for_a_higher_share(case, need - have, have)):
        text += f" A higher share is enough on a GPU of {gib(enough)} or more."
        remedies.append(("share_up", unplanned_utilization(case.unified)))
    remedies.append("more_gpus")
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("kv_need", "kv_need_part", "available_kv"),
        tuple(remedies),
        {"sequences": "the check asks for one request only"},
    )


def _cut(case: Case) -> Finding | None:
    """The log ends behind the line that says what is left for KV: next is the check for one request."""
    left = case.value("available_kv", "available")
    cut = case.death.kind in UNSAID or case.death.kind == "memory_short"
    if not case.failed or case.stage != "kv_check" or not cut or not left or left <= 0:
        return None
    text = (
        f"{gib(left)} were left for the KV cache when it died, and its last words are not here: what is checked next is"
        " whether one request of the full length fits there."
    )
    remedies = ("context", "share_up", "kv_dtype")
    return Finding(Tier.LIKELY, text, case.line("available_kv"), remedies, {})


def _told(case: Case) -> Finding | None:
    """Somebody says that the check for one request refused, in words of their own: a length or one request is named."""
    if not case.told_short_at("kv_check") or not any(_ONE_REQUEST.search(claim.text) for claim in case.claims):
        return None
    text = "By what you say one request of the full length needs more KV cache than is left for it."
    return Finding(Tier.LIKELY, text, (case.death.line,), ("context", "share_up", "kv_dtype", "more_gpus"))


_ONE_REQUEST = late_pattern(
    r"(?i)\b(?:one|a single|single|each|ein(?:e|zelne)) (?:\w{1,12} ){0,2}(?:request|sequence|prompt|anfrage|sequenz)|"
    r"(?:for|für) (?:a|eine) (?:request|anfrage)|\bmax[-_ ]model[-_ ]len|需要\s?[\d.]|"
    r"\blength\b|\btokens?\b|\blänge\b|\bkontext\b|\bcontext\b|(?:一条|一个|单条|单个)请求|上下文|长度"
)
_BESIDE = 16 * GIB  # chosen: more than activations, graphs and a context ever took beside weights and KV cache


def _card_for_a_higher_share(case: Case, missing: int, have: int) -> int:
    """Whose card is not known: the size from which a higher share is enough; 0 where the log's weights rule it out."""
    more = unplanned_utilization(case.unified) - case.util
    if more < 0.04:  # a step that is hardly worth a restart
        return 0
    enough = round(missing / more)
    weights = case.value("weights", "weights")
    return 0 if weights and (weights + have + _BESIDE) / case.util < enough else enough
