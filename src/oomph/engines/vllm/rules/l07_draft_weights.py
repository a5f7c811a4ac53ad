"""L07: The draft model's weights do not fit.

What it is: the drafter (MTP layer, EAGLE head, draft model) is loaded after the target. Unless it shares embedding
and output head with it, each costs vocabulary x hidden x 2 bytes more; MTP layers are usually BF16 in a 4-bit
checkpoint.

How to recognise it: the target's files are loaded, then the traceback runs through speculator, eagle or drafter code.

Look-alikes: L01 (dies in the target).

What fixes it: without --speculative-config; a draft that shares the embeddings; more ranks.

What does not: fewer speculative tokens: the weights stay the same.

Evidence: v1/spec_decode/eagle.py "Sharing target model" (0.21.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib


@rule("weights_load", at_stage=True)
def match(case: Case) -> Finding | None:
    if not case.memory:
        return None
    inside = case.in_traceback("speculator", "load_draft_model", "/eagle", "drafter", "draft_model")
    if not inside and not (case.before("draft_load") and case.oom is not None):
        return None
    allocated = case.oom_value("allocated")
    text = "The target model was loaded; the draft model's weights no longer fit"
    text += f" ({gib(allocated)} were allocated)." if allocated else "."
    remedies = (
        "no_drafts",
        "more_gpus",
    )
    rejected = {"draft_tokens": "the number of drafted tokens does not change the draft's weights"}
    return Finding(Tier.COMPUTED, text, case.line("draft_load", "draft_shares", "torch_oom"), remedies, rejected)
