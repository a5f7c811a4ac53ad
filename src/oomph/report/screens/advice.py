"""A plan's advice: why it dies, what works, the cheapest first, and what of the usual advice does not."""

from oomph.ir import Advice, Judged, Outcome, Plan
from oomph.report.answer import Block, Changes, Facts, Paragraph, Quote, Reasons
from oomph.units import human

OUTCOMES: dict[Outcome, str] = {
    "fits": "fits", "at_risk": "starts, at risk", "close": "too close to call", "fails": "does not start"
}  # fmt: skip


def advice_blocks(plan: Plan, advice: Advice, *, engine: str) -> tuple[Block, ...]:
    """`engine`: whose message it is."""
    if plan.verdict.outcome == "fits":
        return more_room(plan, advice)
    message = plan.verdict.message if plan.verdict.stage not in (None, "other") else ""
    before, name = before_words(plan), plan.deployment.engine.name
    shown_helps = 0 if any(fix.change.kind != "hardware" for fix in advice.fixes) else 2
    following = f"No flag alone is enough. Search further: {advice.next_step}" if advice.next_step else ""
    return (
        Paragraph("Why", advice.why),
        Quote(engine, message),
        Changes("Works", "What works", advice.fixes, tuple(map(gives, advice.fixes)), before, name, shown=5),
        Changes("Helps", "What helps, but is not enough", advice.helps, tuple(map(_gains, advice.helps)), before, name,
                shown=shown_helps),
        Facts((("Next", following),)),
        _useless(plan, advice),
    )  # fmt: skip


def more_room(plan: Plan, advice: Advice) -> tuple[Block, ...]:
    """Of a plan that fits: what gives more tokens first, then what gives room only; the cheapest first."""
    tokens = _more_tokens(plan, advice)
    rest = [judged for judged in advice.helps if judged not in tokens and judged.gain_bytes > 0]
    judged = (*tokens, *(one for one in rest if one.outcome == "fits"))
    before, engine = before_words(plan), plan.deployment.engine.name
    effects = tuple(map(gives, judged))
    return (
        Changes("More", "What gives more", judged, effects, before, engine, shown=min(3, len(tokens))),
        _useless(plan, advice),
    )


def _more_tokens(plan: Plan, advice: Advice) -> list[Judged]:
    """Changes that give a fitting plan more room, and are not paid with fewer requests than would fit into it."""
    tokens = plan.kv.logged_tokens if plan.kv else 0
    helps = [j for j in advice.helps if j.tokens > 1.01 * tokens and j.outcome == "fits"]
    return [j for j in helps if j.change.flags.get("max_num_seqs", j.concurrency) >= j.concurrency]


def before_words(plan: Plan) -> str:
    """Where things stand, to be set against what a change makes of them."""
    if plan.kv is not None and plan.verdict.fits:
        return f"{plan.kv.logged_tokens:,} tokens, {plan.kv.max_concurrency:.2f} at once"
    return f"{human(plan.verdict.short_bytes)} short" if plan.verdict.short_bytes else OUTCOMES[plan.verdict.outcome]


def gives(judged: Judged) -> str:
    """The same for every kind of change: tokens, requests at once, what it costs."""
    size = f"{judged.tokens:,} tokens, {judged.concurrency:.2f} at once" if judged.tokens else "it starts"
    return f"{size} ({judged.change.cost})" if judged.change.cost else size


def _gains(judged: Judged) -> str:
    gains = f"gains {human(judged.gain_bytes)}; " if judged.gain_bytes else ""
    return f"{gains}{judged.why}".removesuffix("; ")


def _useless(plan: Plan, advice: Advice) -> Reasons:
    """First what the user has set or the engine's own message recommends, without its value."""
    message, flags = plan.verdict.message, plan.deployment.flags
    in_company = {field for fix in advice.fixes if " + " in fix.change.lever for field in fix.change.flags}
    near: dict[str, str] = {}
    far: list[tuple[str, str]] = []
    for judged in advice.useless:
        name = judged.change.label.split()[0]
        is_named = name in message or any(field in flags for field in judged.change.flags)
        if judged.effect == "nothing" and name.startswith("-") and is_named:
            alone = " alone" if in_company.intersection(judged.change.flags) else ""
            near.setdefault(f"{name}{alone}", judged.why)
        else:
            far.append((judged.change.label, judged.why or OUTCOMES[judged.outcome or "fails"]))
    shown = 0 if plan.verdict.outcome == "fits" else min(3, len(near))
    return Reasons("Useless", "What does not help", (*near.items(), *far), shown)
