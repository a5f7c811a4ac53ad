"""Two plans side by side: what moves, and for an upgrade, which release moved it."""

from typing import Any

from oomph.answers.diff import Change, Diff
from oomph.engines.registry import engine_of
from oomph.ir import Plan
from oomph.report.screens.diff import change_words, value_words
from oomph.report.screens.plan_lines import gpus_line
from oomph.units import MIB, human
from oomph.web.markup import Html, el
from oomph.web.views.advice import OUTCOMES
from oomph.web.views.shared import block, memory_bars, picture, section, soft, table


def diff_view(answer: Diff) -> Html:
    settings = [change for change in answer.changes if change.kind == "setting"]
    figures = [change for change in answer.changes if change.kind != "setting"]
    sides = el("div", _side("Now", answer.before), _side("Then", answer.after), cls="sides")
    return el(
        "article",
        el("header", el("h1", answer.before.model), soft(_side_words(answer.before), " → ", _side_words(answer.after)),
           cls="heading"),
        _verdict(answer),
        section("Flags that the other release does not have",
                el("ul", [el("li", s) for s in answer.flags], cls="reasons")) if answer.flags else None,
        sides,
        section("KV cache tokens by release", _releases(answer)),
        section("Figures that move", _moves(figures)),
        section("Settings that move", _moves(settings)),
        section("Which release", _steps(answer, settings)),
        cls="view diff",
    )  # fmt: skip


def _verdict(answer: Diff) -> Html:
    before, after = answer.before.verdict.outcome, answer.after.verdict.outcome
    word = "NOTHING MOVES" if not answer.changes else "THE SAME OUTCOME" if before == after else "ANOTHER OUTCOME"
    rest = f"{OUTCOMES[before]} → {OUTCOMES[after]}" if answer.changes else "the two plans are equal"
    message = answer.after.verdict.message if not answer.after.fits else ""
    return el("div", el("p", el("strong", word), " ", rest, cls="says"),
              el("pre", message, cls="message", tabindex=0) if message else None, cls=f"verdict {after}")  # fmt: skip


def _side_words(plan: Plan) -> str:
    return f"{engine_of(plan.deployment).title} {plan.deployment.engine.version} on {gpus_line(plan.deployment.gpus)}"


def _side(name: str, plan: Plan) -> Html:
    return el("div", el("h2", f"{name}: {plan.deployment.engine.version}, {OUTCOMES[plan.verdict.outcome]}"),
              memory_bars(plan) if plan.ranks else soft(plan.verdict.message))  # fmt: skip


def _moves(changes: list[Change]) -> Html | None:
    if not changes:
        return None
    rows = [(change_words(change), *_values(change), _delta(change)) for change in changes]
    return table(["what", "#now", "#then", "#change"], rows, label="What moves")


def _values(change: Change) -> tuple[str, str]:
    return value_words(change.what, change.before), value_words(change.what, change.after)


def _delta(change: Change) -> str:
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in (change.before, change.after)):
        return ""
    moved: Any = change.after - change.before
    sign = "+" if moved >= 0 else "−"
    large = isinstance(moved, int) and max(abs(change.before), abs(change.after)) >= MIB and "tokens" not in change.what
    return f"{sign}{human(abs(moved))}" if large else f"{sign}{abs(moved):,.4g}"


def _releases(answer: Diff) -> Html | None:
    """The tokens after each release that moved them."""
    moves = [step for step in answer.steps if step.what == "kv_tokens" and isinstance(step.after, int)]
    if not moves or answer.before.kv is None:
        return None
    points = [(answer.before.deployment.engine.version, moves[0].before or 0), *((m.since, m.after) for m in moves)]
    most = max(tokens for _, tokens in points) or 1
    rows = [
        (el("b", release), picture(16, f"{tokens:,} tokens", block("ground", 0, 1, 2, 12),
                                   block("fill kv", 0, tokens / most, 2, 12), cls="inline"), f"{tokens:,}")
        for release, tokens in points
    ]  # fmt: skip
    return table(["release", "", "#tokens"], rows, label="KV cache tokens by release")


def _steps(answer: Diff, settings: list[Change]) -> Html | None:
    names = {change.what for change in settings}
    steps = [change for change in answer.steps if change.kind != "setting" or change.what in names]
    steps = [change for change in steps if len(set(_values(change))) > 1]
    rows = [(el("b", change.since), change_words(change), *_values(change)) for change in steps]
    return table(["release", "what", "#before", "#after"], rows, label="What each release moved") if rows else None
