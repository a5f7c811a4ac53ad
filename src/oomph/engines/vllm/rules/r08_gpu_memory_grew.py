"""R08: Something on the GPU grew after the start.

What it is: another process on the card, image preprocessing on the GPU, lazily loaded modules and communicators,
adapters loaded at run time.

How to recognise it: the engine was ready, and in use is above utilization x total + graphs, or others hold more than
at the start.

Look-alikes: P07 (the request itself is too large), R06 (fragmentation).

What fixes it: lower utilization by what grew; the GPU for this engine alone.

What does not: a cron job that calls empty_cache.

Evidence: config/multimodal.py:650 (0.32.0): preprocessing on the GPU.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB, gib


@rule("runtime_request", at_stage=True)
def match(case: Case) -> Finding | None:
    if case.oom is None:
        return None
    total, others = case.total, case.account.get("others") or 0
    in_use = case.oom_value("in_use") or 0
    tier = Tier.POSSIBLE
    text = "The engine was serving; memory that was free at the start no longer is."
    if total and others > GIB // 2:
        text += f" Other processes hold {gib(others)} of {gib(total)}."
        tier = Tier.COMPUTED
    elif total and in_use > case.util * total + GIB:
        text += f" This process holds {gib(in_use)}, above its {case.util:g} x {gib(total)}."
        tier = Tier.LIKELY
    return Finding(
        tier,
        text,
        case.line("torch_oom"),
        (("share_down", case.util - 0.05), "alone"),
        {"empty_cache": "the memory is in use, not cached"},
        settle="nvidia-smi at the start and at the failure: which process grew",
    )
