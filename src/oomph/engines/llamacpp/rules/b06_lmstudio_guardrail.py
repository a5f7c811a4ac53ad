"""B06: LM Studio's guardrail stopped the load.

What it is: before it loads anything LM Studio estimates the model's memory for the chosen context and GPU offload, and
refuses when that is more than the guardrail's level allows. The context dominates: a model at its whole trained length
is estimated with the KV cache of that length.

How to recognise it: "Model loading was stopped due to insufficient system resources ... requires approximately X".

Look-alikes: B01, B02 (the load was tried and an allocation failed).

What fixes it: a shorter context in the load settings, fewer parallel requests, an 8-bit KV cache, a smaller
quantisation; where the estimate is wrong, the guardrail's level in the settings.

What does not: reloading; another runtime.

Evidence: LM Studio's bug tracker 1202, 1471.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib


@rule("startup_free_memory")
def match(case: Case) -> Finding | None:
    if not case.has("lc_guard") or not case.failed:
        return None
    need = case.value("lc_guard", "need")
    estimate = gib(need) if need is not None else "more than the machine has"
    text = f"LM Studio estimated {estimate} for this model and these settings, and loaded nothing."
    remedies = (
        "context",
        "kv_dtype",
        "checkpoint",
        "guardrail",
    )
    rejected = {"reload": "the estimate stays the same"}
    return Finding(Tier.SAID, text, case.line("lc_guard"), remedies, rejected)
