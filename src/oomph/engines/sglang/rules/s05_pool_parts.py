"""S05: SGLang: one part of the pool leaves no room for the rest.

What it is: the static share holds the KV cache, the pool of a sliding window and the recurrent states of a hybrid, and
some of them are sized by how many requests may run at once. What they take is missing for the others.

How to recognise it: "SWA pool cap (N tokens, X GiB) leaves no room for the full KV pool", "Not enough GPU memory for
hybrid (mamba/linear-attention) state cache", "state cache is too small to serve any requests", or "byte budget N cannot
fit ONE worst-case request".

Look-alikes: S01 (the weights alone fill the share).

What fixes it: fewer --max-running-requests; a higher --mem-fraction-static; a shorter context where one request is too
large.

What does not: fewer CUDA graphs, a smaller prefill chunk: they live outside of the share.

Evidence: pool_configurator.py, kv_cache_configurator.py and unified_memory_pool.py of 0.5.23.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib, human


@rule("kv_check")
def match(case: Case) -> Finding | None:
    line = case.first("sg_no_state") or case.first("sg_no_room")
    if line is None:
        return None
    share = case.flag("mem_fraction_static")
    higher = ("share_up", round(share + 0.05, 3) if isinstance(share, float) else None)
    useless = {"no_graphs": "graphs live outside of the static share", "batch": "prefill lives outside of it as well"}
    part, need = case.value("sg_no_room", "part"), case.value("sg_no_room", "need")
    left = case.value("sg_no_room", "available")
    if need is not None and left is not None:
        text = f"One request of the full context needs {human(need)} of the pool, which has {human(left)}."
        return Finding(Tier.SAID, text, (line.line,), (higher, "context", "kv_dtype"), useless)
    if part is not None and left is not None:
        text = (
            f"The pool of the sliding window is sized for the requests that may run at once: {gib(part)} of "
            f"{gib(left)}; nothing is left for the layers that keep all tokens."
        )
        return Finding(Tier.SAID, text, (line.line,), ("sequences", higher, "more_gpus"), useless)
    state, rest = case.value("sg_no_state", "state"), case.value("sg_no_state", "rest")
    text = "The recurrent states of the requests that may run at once do not fit into the static share"
    text += f": {human(state)} for each request, {gib(rest)} are left." if state and rest is not None else "."
    return Finding(Tier.SAID, text, (line.line,), ("sequences", higher, "more_gpus"), useless)
