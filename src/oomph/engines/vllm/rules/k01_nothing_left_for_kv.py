"""K01: Nothing is left for the KV cache.

What it is: utilization x total is used up by weights, activations, memory outside of PyTorch and (since 0.20) the
graph estimate before a single KV block exists.

How to recognise it: "No available memory for the cache blocks", or "Available KV cache memory" at or below zero.

Look-alikes: K02 (something is left, but less than one request), D03 (unified memory), D08 (a neighbour was charged).

What fixes it: whichever term is too large: a higher utilization up to what is free; fewer sequences and a smaller
batch for activations; a smaller checkpoint or more ranks for weights; eager mode for graphs.

What does not: a shorter context: the KV cache is at zero whatever the context. A lower utilization.

Evidence: kv_cache_utils.py:697 (0.21.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB, gib

AMPLE = 0.8  # a share that leaves enough of any card: it settles the matter, a smaller peak may not


@rule("kv_check", "startup_free_memory")
def match(case: Case) -> Finding | None:
    if case.has("mm_reserve", "external_weights"):
        return _reserved(case)
    kv = case.value("available_kv", "available")
    if kv is None:
        kv = case.value("v0_terms", "available")
    is_printed = case.has("kv_none")
    if not is_printed and not (case.failed and case.death.kind in ("available_kv", "v0_terms", "v0_results")):
        return _told(case)
    weights, total = case.account.get("weights"), case.total
    text = "Nothing is left for the KV cache"
    text += f": {gib(kv)}." if kv is not None else "."
    parts = [(name, case.account.get(name)) for name in ("weights", "consumed", "activations", "context", "graphs")]
    sizes = [f"{gib(n)} of {name}" for name, n in parts if n]
    budget = case.account.budget or (round(case.util * total) if total else 0)
    if budget and sizes:
        text += (
            f" The budget is {case.util:g} x {gib(total or 0)} = {gib(budget)}; {' + '.join(sizes)} are taken from it."
        )
    elif sizes:
        text += f" Before it come {' + '.join(sizes)}, out of {case.util:g} of the card."
    if total and weights and weights > budget:
        text += " The weights alone are above the budget."
    missing = GIB - (kv if kv is not None else 0)
    share = case.util + max(0.02, missing / total) if total else None
    smaller_peak = () if share is not None and share <= AMPLE else (("sequences", 16), "batch")
    remedies = (
        ("share_up", share),
        *smaller_peak,
        "no_graphs",
        "checkpoint",
        ("offload", missing),
        "more_gpus",
    )
    why = "KV memory is at or below zero before the context length is looked at"
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("kv_none", "available_kv", "v0_terms", "weights"),
        remedies,
        {"context": why},
    )


def _reserved(case: Case) -> Finding:
    """What is promised to somebody else first is more than the share has."""
    decoding, left = case.value("mm_reserve", "reserved"), case.value("mm_reserve", "available")
    if decoding is not None:
        text = f"Decoding images and videos on the GPU reserves {gib(decoding)} of what the KV cache would get"
        text += f", which is {gib(left)}." if left is not None else "."
        return Finding(Tier.SAID, text, case.line("mm_reserve"), ("no_gpu_decoding", "share_up"))
    external, budget = case.value("external_weights", "held"), case.value("external_weights", "requested")
    text = "Another process holds the weights on this card, and they alone are more than the engine's share"
    text += f": {gib(external)} of {gib(budget)}." if external and budget else "."
    total = case.value("external_weights", "total")
    share = round((external + 2 * GIB) / total + 0.05, 2) if external and total else None
    return Finding(Tier.SAID, text, case.line("external_weights"), (("share_up", share), "checkpoint"))


def _told(case: Case) -> Finding | None:
    """Somebody says that too little is left for the KV cache; K02 says more where a request or a length is named."""
    if not case.told_short_at("kv_check"):
        return None
    text = "By what you say too little is left for the KV cache once the model is loaded and has been measured."
    return Finding(Tier.POSSIBLE, text, (case.death.line,), ("share_up", "checkpoint", "batch", "more_gpus"))
