"""D01: Something else holds the card.

Less is free at the start than utilization x total.

What it is: before anything is loaded vLLM compares free memory with the share it was asked to take. Other processes,
the desktop or an engine that is still ending hold the difference. Its own CUDA context and communicators count as
used too (0.4 to 1.5 GiB), because the measurement is taken after they exist.

How to recognise it: "Free memory on device (F/T GiB) on startup is less than desired GPU memory utilization"; or an
OOM during the load where PyTorch lists other processes that hold more than this one.

Look-alikes: D02 (an orphan of an earlier run), D03 (unified memory), D05 (a slice of a GPU), D06 (Windows).

What fixes it: end the other process or take another GPU; or a utilization of at most (free - 0.2) / total.

What does not: anything about the model: context, quantisation, eager mode. The model is not known yet.

Evidence: v1/worker/utils.py:403 request_memory (0.21.0).
"""

from oomph.doctor.writing import Case, Finding, Tier, rule
from oomph.units import GIB, gib


@rule(
    "startup_free_memory",
    "weights_load",
    engines=("vllm", "sglang", "trtllm"),
    since="0.9.1",
    dated=False,
    over=("K01", "S03", "R08", "P07"),
)
def match(case: Case) -> Finding | None:
    observation = case.first("free_short")
    if observation is None:
        return _unbalanced(case) or _beside(case) or _taken(case) or _told(case)
    free, total = case.value("free_short", "free"), case.value("free_short", "total")
    if free is None or not total:
        text = "Free memory at the start was below utilization x total, before any weight was loaded."
        return Finding(
            Tier.COMPUTED,
            text,
            (observation.line,),
            ("free_card",),
            {},
            settle="nvidia-smi shows who holds the card",
        )
    in_use = total - free
    requested = case.value("free_short", "requested") or round(case.util * total)
    text = (
        f"{gib(free)} of {gib(total)} were free, {case.util:g} x {gib(total)} = {gib(requested)} were asked for: "
        f"{gib(requested - free)} too little, before any weight was loaded. {gib(in_use)} are held"
    )
    if in_use < 1.5 * GIB:
        text += ", not more than a CUDA context, its communicators and a desktop: the share asked for is too high."
    else:
        text += " by something else than this engine (its own context is about half a GiB of it)."
    remedies = ["free_card"]
    weights = case.account.get("weights") or round(case.params * SMALLEST)
    if free - 0.2 * GIB > max(weights + GIB, total // 10):
        remedies.append("share_down")  # a share that holds the model
    if in_use > 4 * GIB:
        remedies.append("wait_for_memory")
    tier = Tier.LIKELY if case.unified else Tier.COMPUTED
    settle = "nvidia-smi shows who holds the card"
    return Finding(tier, text, (observation.line,), tuple(remedies), {}, settle=settle)


def _told(case: Case) -> Finding | None:
    """Somebody says that it was refused before anything was loaded, and for its memory: no other check is there."""
    if not case.told_short_at("startup_free_memory"):
        return None
    text = "By what you say less memory was free at the start than the share asks for, before any weight was loaded."
    settle = "nvidia-smi shows who holds the card"
    return Finding(Tier.LIKELY, text, (case.death.line,), ("free_card",), {}, settle=settle)


def _unbalanced(case: Case) -> Finding | None:
    """SGLang compares the ranks' free memory before it loads, and refuses a difference of more than a tenth."""
    if not case.failed or case.death.kind != "sg_unbalanced":
        return None
    least, local = case.value("sg_unbalanced", "least"), case.value("sg_unbalanced", "local")
    text = "One GPU has more than a tenth less free memory than another, before any weight is loaded"
    text += f": {gib(least)} against {gib(local)}." if least and local else "."
    remedies = (
        "free_card",
        "balance_check",
    )
    rejected = {"share_down": "the fraction is not read yet"}
    return Finding(
        Tier.SAID, text, case.line("sg_unbalanced"), remedies, rejected, settle="nvidia-smi shows who holds it"
    )


def _beside(case: Case) -> Finding | None:
    """An allocation failed during the load, and PyTorch lists processes that hold more than this one."""
    others, total, own = case.account.get("others") or 0, case.total, case.oom_value("allocated")
    free, cached = case.oom_value("free"), case.oom_value("reserved")
    if not others and total and own is not None and free is not None and cached is not None:
        # PyTorch may not look at other processes here: what is neither free nor its own is theirs
        others = max(0, total - free - (case.oom_value("in_use") or own + cached + OWN_CONTEXT))
    if not case.failed or not total or own is None or case.unified:
        return None
    if others < max(2 * GIB, own) or (case.stage != "weights_load" and others < total // 4):
        return None
    text = (
        f"Other processes hold {gib(others)} of {gib(total)}; this one held {gib(own)} itself when the card was full."
    )
    remedies = (
        "free_card",
        "one_gpu_each",
    )
    return Finding(
        Tier.COMPUTED,
        text,
        case.line("torch_oom"),
        remedies,
        {},
        settle="nvidia-smi shows who holds it",
    )


def _taken(case: Case) -> Finding | None:
    """Nothing is left for KV beside a model that is far smaller than the budget: somebody else is on the card."""
    if not case.failed or case.stage != "kv_check" or not case.has("kv_none", "available_kv", "v0_terms"):
        return None
    weights, left = case.account.get("weights"), case.value("available_kv", "available")
    if weights is None or case.has("kv_need") or (left is not None and left > 0):
        return None
    own = weights + (case.account.get("activations") or 0) + (case.account.get("graphs") or 0)
    budget = case.account.budget or (round(case.util * case.total) if case.total else 0)
    tiny = weights < SMALL_MODEL and not budget
    if not tiny and not (budget and own + OWN_CONTEXT < budget // 2):
        return None
    text = f"Nothing is left for the KV cache, although this engine holds only {gib(own)}"
    text += f" of a budget of {gib(budget)}" if budget else ""
    text += ": the rest of the card is held by something else."
    remedies = (
        "free_card",
        "share_up",
    )
    lines = case.line("kv_none", "available_kv", "weights", "v0_terms")
    return Finding(Tier.COMPUTED, text, lines, remedies, {}, settle="nvidia-smi shows who holds the card")


SMALLEST = 0.55  # bytes per parameter, 4 bits with their scales
SMALL_MODEL = 4 * GIB  # weights that leave room for a KV cache on every card that vLLM runs on
OWN_CONTEXT = 2 * GIB  # a CUDA context, communicators and workspaces, generously
