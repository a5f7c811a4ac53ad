"""S01: SGLang: the weights fill the static share.

What it is: mem_fraction_static x free memory before the load must hold weights and KV cache. Here the weights alone
are more.

How to recognise it: "Not enough memory. Please try to increase --mem-fraction-static" or "Loaded weights leave no GPU
memory for the KV cache under --mem-fraction-static=F"; no CUDA error.

Look-alikes: S02 and S03, which need the opposite.

What fixes it: a higher fraction, above 1 - free after / free before the load; more ranks; a smaller checkpoint.

What does not: a lower fraction, which the documentation advises for the other OOMs.

Evidence: model_runner.py profile_max_num_token (0.5.23); sglang issues 322 and 4330.
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import gib


@rule("kv_check")
def match(case: Case) -> Finding | None:
    shown = case.first("sg_no_pool")
    if shown is None and case.death.kind == "sg_profiled":
        shown = case.first("sg_profiled")
    if shown is None and case.stage == "kv_check" and case.death.basis == "milestone":
        shown = case.first("sg_weights")  # its words are not in the text; what is left of the card behind the load is
    if shown is None:
        return _told(case)
    weights, left = case.value("sg_weights", "weights"), case.value("sg_weights", "avail")
    fraction = case.real("sg_no_pool", "fraction") or case.flag("mem_fraction_static")
    above = case.real("sg_no_pool", "above")
    text = "The weights fill the static share; nothing is left in it for KV."
    need = above or 0.0
    if weights and left is not None:
        before = weights + left
        need = need or weights / before
        text += f" {gib(weights)} of {gib(before)} are weights: the fraction must be above {weights / before:.3f}"
        text += f", it is {fraction:g}." if isinstance(fraction, (int, float)) else "."
    target = (need or 0.9) + 0.02
    remedies = (
        ("share_up", round(target, 3)),
        "checkpoint",
        ("more_gpus", 2 * case.tp),
        "offload",
    )
    return Finding(
        Tier.SAID,
        text,
        (shown.line, *case.line("sg_weights")),
        remedies,
        {"share_down": "it makes the share that is already full smaller"},
    )


def _told(case: Case) -> Finding | None:
    """Somebody says that nothing was left for the pool behind the load."""
    if not case.told_short_at("kv_check"):
        return None
    text = "By what you say the weights fill the static share, and nothing is left in it for KV."
    levers = ("share_up", "checkpoint", ("more_gpus", 2 * case.tp), "offload")
    useless = {"share_down": "it makes the share that is already full smaller"}
    return Finding(Tier.LIKELY, text, (case.death.line,), levers, useless)
