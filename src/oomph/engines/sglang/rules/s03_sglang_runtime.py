"""S03: SGLang: a prefill does not fit, or the pool is full.

SGLang: a prefill does not fit in the dynamic share, or the pool is full.

What it is: prefill activations exceed what mem_fraction_static leaves (a real OOM), or the token pool is full
(requests are retracted, which is no error).

How to recognise it: a CUDA OOM while serving; or "KV cache pool is full. Retract requests".

Look-alikes: S01 (start-up, opposite cure).

What fixes it: --chunked-prefill-size 2048 or 4096, less --mem-fraction-static, fewer --max-running-requests.

What does not: a higher fraction.

Evidence: sglang issue 6027.
"""

from oomph.doctor.writing import Case, Finding, Named, Tier, rule
from oomph.units import human


@rule("runtime_request", "kv_alloc")
def match(case: Case) -> Finding | None:
    if case.has("sg_no_pool", "sg_capture_failed"):
        return None
    slots = case.failed and case.in_traceback("alloc_for_extend", "alloc_for_decode", "token_slots")
    beside, free = case.value("sg_beside", "need"), case.value("sg_beside", "free")
    if beside is not None and case.failed:
        text = f"A buffer of {human(beside)} beside the static share did not fit"
        text += f": {human(free)} were free." if free is not None else "."
        fraction = case.flag("mem_fraction_static")
        lower = ("share_down", round(float(fraction) - 0.05, 3) if isinstance(fraction, (int, float)) else None)
        return Finding(Tier.SAID, text, case.line("sg_beside"), (lower,), {"share_up": "it leaves less beside it"})
    retract = case.has("sg_retract", "sg_pool_full", "sg_no_slots") or slots
    oom = case.failed and case.oom is not None and case.stage in ("runtime_request", "kv_alloc")
    unsaid = case.failed and case.stage == "runtime_request" and case.in_traceback("forward_extend", "forward_decode")
    short = case.failed and case.stage == "runtime_request" and case.memory and not case.has("sg_resume_oom")
    if not retract and not oom and not unsaid and not short:
        return None
    fraction = case.flag("mem_fraction_static")
    down = round(float(fraction) - 0.05, 3) if isinstance(fraction, (int, float)) else 0.8
    remedies = (
        "batch",
        ("share_down", down),
        "sequences",
    )
    rejected = {"share_up": "prefill buffers live outside of the static share"}
    if (unsaid or short) and not oom and not retract:
        text = "A forward pass failed while serving; what it needs lives outside of the static share."
        sure = case.memory and (unsaid or case.death.basis in ("message", "traceback", "milestone"))
        tier = Tier.LIKELY if sure else Tier.POSSIBLE
        return Finding(tier, text, case.line("sg_exception", "frame")[:2], remedies, rejected)
    if oom:
        return _buffer(case, down, remedies, rejected)
    if case.failed:
        text = "The token pool had no room for the next batch, and the server ended: more was admitted than it holds."
        shrink = {"share_down": "the pool would only become smaller"}
        lines = case.line("sg_pool_full", "sg_no_slots", "sg_retract", "frame")[:3]
        more = (
            "sequences",
            "batch",
            ("share_up", round(down + 0.08, 3)),
        )
        return Finding(Tier.LIKELY, text, lines, more, shrink)
    text = "The token pool is full and requests are retracted: they run again later. Slow, but no failure."
    return Finding(
        Tier.LIKELY,
        text,
        case.line("sg_retract", "sg_pool_full", "sg_no_slots"),
        ("sequences",),
        {"share_down": "the pool would only become smaller"},
    )


def _buffer(case: Case, down: float, levers: tuple[Named, ...], useless: dict[str, str]) -> Finding:
    tried = case.oom_value("tried")
    text = "A buffer outside of the static share did not fit" + (f": {human(tried)}." if tried else ".")
    if tried and case.total and tried > case.total * 0.6:
        text += " It is larger than the card: sized by the model's full context. A smaller --context-length shrinks it."
        shorter = (
            ("context", 131072),
            ("share_down", down),
        )
        return Finding(Tier.LIKELY, text, case.line("torch_oom"), shorter, useless)
    if case.stage == "kv_alloc":
        text = "The static share allowed the pool, and the card had no room left for it"
        text += f": {human(tried)} were asked for." if tried else "."
        text += " Something else takes memory there, or the size of the pool was set by hand."
        return Finding(Tier.LIKELY, text, case.line("torch_oom"), (("share_down", down), "free_card_last"), useless)
    return Finding(Tier.LIKELY, text, case.line("torch_oom", "sg_ready"), levers, useless)
