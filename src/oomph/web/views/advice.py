"""What would help, each change planned, as buttons that apply; and what would not, with the reason."""

from collections.abc import Sequence

from oomph.ir import Advice, Judged, Outcome, Plan
from oomph.report.screens.advice import more
from oomph.units import human
from oomph.web.cases import gpu_words
from oomph.web.markup import Html, el, join
from oomph.web.views.shared import apply_button, command_block, details, section, signed

OUTCOMES: dict[Outcome, str] = {
    "fits": "fits", "at_risk": "starts, at risk", "close": "too close to call", "fails": "does not start"
}  # fmt: skip
_KINDS = {
    "flag": "a restart", "environment": "a variable", "host": "on the host", "layout": "another layout",
    "release": "another release", "checkpoint": "another checkpoint", "hardware": "other GPUs",
    "offload": "weights in host memory",
}  # fmt: skip
_MOST = 6


def advice_parts(plan: Plan) -> list[Html | None]:
    """Why, what works, what helps and what does not: the plan's own advice."""
    advice = plan.advice
    if advice is None:
        return []
    fits = plan.verdict.outcome == "fits"
    helps = _gives_more(plan, advice) if fits else advice.helps
    before, engine = before_words(plan), plan.deployment.engine.name
    return [
        section("Why", [el("p", sentence) for sentence in advice.why], name="why"),
        section("What works", changes(advice.fixes, before, engine), name="works"),
        section("What gives more" if fits else "What helps, but is not enough", changes(helps, before, engine)),
        next_step(advice),
        section("What does not help", useless(advice.useless, plan), name="useless"),
    ]


def _gives_more(plan: Plan, advice: Advice) -> list[Judged]:
    """For a plan that fits: more tokens, or more of the model on the GPUs; the changes that cost the least first."""
    tokens = more(plan, advice)
    room = [j for j in advice.helps if j not in tokens and j.gain_bytes > 0 and j.outcome == "fits"]
    return [*tokens, *room]


def next_step(advice: Advice) -> Html | None:
    if not advice.next_step:
        return None
    return el("p", "No flag alone is enough. Search further: ", el("code", advice.next_step), cls="next")


def before_words(plan: Plan) -> str:
    """Where things stand, to be set against what a change makes of them."""
    if plan.kv is not None and plan.verdict.fits:
        return f"{plan.kv.logged_tokens:,} tokens, {plan.kv.max_concurrency:.2f} at once"
    return f"{human(plan.verdict.short_bytes)} short" if plan.verdict.short_bytes else OUTCOMES[plan.verdict.outcome]


def changes(judged: Sequence[Judged], before: str, engine: str) -> Html | None:
    if not judged:
        return None
    shown, rest = judged[:_MOST], judged[_MOST:]
    first = el("ul", [change(j, before, engine) for j in shown], cls="changes")
    if not rest:
        return first
    return join(first, details(f"{len(rest)} more", el("ul", [change(j, before, engine) for j in rest], cls="changes")))


def apply_change(judged: Judged, engine: str) -> Html | None:
    """A button for a change that may need another release or other GPUs beside its command."""
    change = judged.change
    return apply_button(
        judged.command,
        data_label=change.label,
        data_request=f"{engine}=={change.version}" if change.version and engine else None,
        data_gpu=gpu_words(change.gpus, "") or None,
    )


def change(judged: Judged, before: str, engine: str = "") -> Html:
    gain = el("span", signed(judged.gain_bytes), cls="gain") if judged.gain_bytes else None
    return el(
        "li",
        el("code", judged.change.label, cls="label"),
        apply_change(judged, engine),
        el("p", el("span", before, cls="before"), el("span", " → ", aria_label="becomes"),
           el("b", after_words(judged), cls=judged.outcome or "refused"), " ", gain),
        el("p", cost_words(judged), cls="soft"),
        details("the command", command_block(judged.command)) if judged.command else None,
        cls="change",
    )  # fmt: skip


def after_words(judged: Judged) -> str:
    if judged.outcome is None:
        return "refused"
    tokens = f", {judged.tokens:,} tokens, {judged.concurrency:.2f} at once" if judged.tokens else ""
    return f"{OUTCOMES[judged.outcome]}{tokens if judged.outcome != 'fails' else ''}"


def cost_words(judged: Judged) -> str:
    parts = dict.fromkeys((judged.change.cost, judged.why))
    return ". ".join(part[:1].upper() + part[1:] for part in parts if part) or _KINDS[judged.change.kind]


def useless(judged: Sequence[Judged], plan: Plan) -> Html | None:
    """First what the user has set or the engine's own message recommends, the rest on demand."""
    message, flags = plan.verdict.message, plan.deployment.flags
    near: list[Judged] = []
    far: list[Judged] = []
    for j in judged:
        named = j.change.label.split()[0] in message or any(field in flags for field in j.change.flags)
        (near if named else far).append(j)
    if not near and not far:
        return None
    return join(_reasons(near), details(f"{len(far)} more, each planned", _reasons(far)) if far else None)


def _reasons(judged: Sequence[Judged]) -> Html | None:
    rows = [el("li", el("code", j.change.label), ": ", j.why or OUTCOMES.get(j.outcome or "fails", "")) for j in judged]
    return el("ul", rows, cls="reasons") if rows else None
