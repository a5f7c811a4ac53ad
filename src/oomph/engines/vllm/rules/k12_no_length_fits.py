"""K12: No context length fits.

--max-model-len auto finds no length at all.

What it is: with auto the longest context that fits is searched; here not even one block set fits.

How to recognise it: "Cannot auto-fit max_model_len: not enough GPU memory available".

Look-alikes: K01, which is the same shortage with a fixed length.

What fixes it: as K01: more budget, or less weights, activations and graphs.

What does not: a shorter context: none fits.

Evidence: kv_cache_utils.py:1857 (0.21.0).
"""

from oomph.doctor.writing import Candidate, Case, Tier, advice, rule
from oomph.units import gib


@rule("kv_check", since="0.14.0")
def match(case: Case) -> Candidate | None:
    line = case.first("auto_fit_none")
    if line is None:
        return None
    kv = case.value("available_kv", "available")
    text = "Not even the shortest context fits" + (f": {gib(kv)} are left for KV." if kv is not None else ".")
    remedies = [advice.sequences(16), advice.batch(2048), advice.checkpoint(case), advice.tensor_parallel(case)]
    if case.util < 0.95:
        remedies.insert(0, advice.utilization(case, min(0.97, case.util + 0.05)))
    return Candidate(
        Tier.SAID,
        text,
        (line.line, *case.line("available_kv")),
        tuple(remedies),
        advice.useless(case, advice.reject("max_model_len", "auto already tried every length")),
    )
