"""K12: No context length fits.

--max-model-len auto finds no length at all.

What it is: with auto the longest context that fits is searched; here not even one block set fits.

How to recognise it: "Cannot auto-fit max_model_len: not enough GPU memory available".

Look-alikes: K01, which is the same shortage with a fixed length.

What fixes it: as K01: more budget, or less weights, activations and graphs.

What does not: a shorter context: none fits.

Evidence: kv_cache_utils.py:1857 (0.21.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib


@rule("kv_check", since="0.14.0")
def match(case: Case) -> Finding | None:
    line = case.first("auto_fit_none")
    if line is None:
        return None
    kv = case.value("available_kv", "available")
    text = "Not even the shortest context fits" + (f": {gib(kv)} are left for KV." if kv is not None else ".")
    remedies = ("share_up", ("sequences", 16), ("batch", 2048), "checkpoint", "more_gpus")
    return Finding(
        Tier.SAID,
        text,
        (line.line, *case.line("available_kv")),
        remedies,
        {"context": "auto already tried every length"},
    )
