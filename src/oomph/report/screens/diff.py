"""Two plans side by side, and as JSON: the verdicts, what moved, and the releases that moved it."""

from collections.abc import Iterable
from typing import Any

from oomph.answers.diff import Change, Diff
from oomph.engines.registry import engine_of
from oomph.ir import Plan
from oomph.report.answer import (
    Answer,
    Block,
    Cell,
    Column,
    Details,
    Heading,
    Paragraph,
    Piece,
    Quote,
    Row,
    Sides,
    Table,
    Verdict,
)
from oomph.report.screens.advice import OUTCOMES
from oomph.report.screens.plan_words import gpus_line
from oomph.units import MIB, human

_COUNTS = {"kv_tokens", "num_blocks", "max_concurrency"}
_NAMES = {
    "available_kv": "KV cache memory",
    "kv_tokens": "KV cache tokens (as printed)",
    "users_held": "users held",
    "max_concurrency": "requests at once",
    "kv_need_of_one_request": "KV of one longest request",
    "activation_peak": "activation peak",
    "cudagraph": "CUDA graphs",
    "non_torch": "outside PyTorch",
    "load_peak": "load peak",
    "num_blocks": "KV cache blocks",
}


def answer(difference: Diff) -> Answer:
    after = difference.after
    settings = [change for change in difference.changes if change.kind == "setting"]
    figures = [change for change in difference.changes if change.kind == "figure"]
    lost = f"No such flag in {_release(after)}:"
    message = after.verdict.message if not after.fits and not difference.flags else ""
    blocks = (
        Paragraph("Flags", (lost, *difference.flags, "The rest is without these flags.") if difference.flags else ()),
        Quote(engine_of(after.deployment).title, message),
        Sides(difference.before, after),
        *_moves("figure", "Figures that move", figures),
        *_moves("setting", "Settings that move", settings),
        *_steps(difference, {change.what for change in settings}),
        Details("KV cache tokens by release", _tokens(difference)),
    )
    heading = Heading(difference.before.model, below=(f"{_side(difference.before)} -> {_other(difference)}",))
    return Answer("diff", heading, _verdict(difference), blocks)


def _verdict(difference: Diff) -> Verdict:
    before, after = difference.before.verdict.outcome, difference.after.verdict.outcome
    if not difference.changes:
        return Verdict("NOTHING MOVES", after, "the two plans are equal")
    word = "THE SAME OUTCOME" if before == after else "ANOTHER OUTCOME"
    moved = [(change.before, change.after) for change in difference.changes if change.kind == "verdict"]
    first, last = moved[0] if moved and not difference.flags else (OUTCOMES[before], OUTCOMES[after])
    return Verdict(word, after, f"{first} -> {last}" if first != last else _and_tokens(first, difference.changes))


def _and_tokens(outcome: str, changes: Iterable[Change]) -> str:
    """Of two plans that end alike, what one gives more than the other."""
    tokens = next((change for change in changes if change.what == "kv_tokens"), None)
    if tokens is None or not tokens.before or not tokens.after:
        return f"{outcome}, both"
    return f"{outcome}, both: {tokens.before:,} -> {tokens.after:,} tokens of KV cache"


def _release(plan: Plan) -> str:
    return f"{engine_of(plan.deployment).title} {plan.deployment.engine.version}"


def _side(plan: Plan) -> str:
    return f"{_release(plan)} on {gpus_line(plan.deployment.gpus)}"


def _other(difference: Diff) -> str:
    """The second side: what differs of model, release, GPUs and flags."""
    before, after = difference.before, difference.after
    if (before.model, _side(before)) != (after.model, _side(after)):
        return _side(after) if before.model == after.model else f"{after.model} with {_side(after)}"
    changed = {k: v for k, v in after.deployment.flags.items() if before.deployment.flags.get(k) != v}
    words = " ".join(f"--{k.replace('_', '-')}" + ("" if v is True else f" {v}") for k, v in changed.items())
    return f"with {words[:200]}" if words else _side(after)


def value_words(what: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{n} x {name}" for name, n in value.items())
    if isinstance(value, list):
        return f"{len(value)} sizes" if value else "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if what in _COUNTS or abs(value) < 1 << 20 else human(value)
    return str(value)


def _values(change: Change) -> tuple[str, str]:
    return value_words(change.what, change.before), value_words(change.what, change.after)


def _words(change: Change) -> str:
    """A figure in words, a setting in the engine's own."""
    return _NAMES.get(change.what, change.what if change.kind == "setting" else change.what.replace("_", " "))


def _moves(name: str, title: str, changes: Iterable[Change]) -> tuple[Block, ...]:
    rows = tuple(Row((_words(change), *_values(change), _moved(change))) for change in changes)
    columns = (
        Column(name, 30), Column("now", 16, is_number=True), Column("then", 16, is_number=True),
        Column("change", 14, is_number=True),
    )  # fmt: skip
    return (Table(title, columns, rows, sorts=False),) if rows else ()


def _moved(change: Change) -> str:
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in (change.before, change.after)):
        return ""
    moved = change.after - change.before
    size = abs(moved)
    large = isinstance(moved, int) and max(abs(change.before), abs(change.after)) >= MIB and "tokens" not in change.what
    words = human(size) if large else f"{size:,}" if isinstance(moved, int) else f"{size:.4g}"
    return f"{'+' if moved >= 0 else '-'}{words}"


def _steps(difference: Diff, settings: set[str]) -> tuple[Block, ...]:
    """Which release moved what, of all that is in force at the end."""
    steps = [step for step in difference.steps if step.kind != "setting" or step.what in settings]
    rows = tuple(Row((step.since, _words(step), *_values(step))) for step in steps if len(set(_values(step))) > 1)
    columns = (
        Column("release", 9), Column("what it moved", 29), Column("before", 16, is_number=True),
        Column("after", 16, is_number=True),
    )  # fmt: skip
    return (Table("What each release moved", columns, rows, sorts=False),) if rows else ()


def _tokens(difference: Diff) -> tuple[Block, ...]:
    """After each release that moved them."""
    moves = [step for step in difference.steps if step.what == "kv_tokens" and isinstance(step.after, int)]
    if not moves or difference.before.kv is None:
        return ()
    first = (difference.before.deployment.engine.version, moves[0].before or 0)
    points = [first, *((step.since, step.after) for step in moves)]
    most = max(tokens for _, tokens in points) or 1
    rows = tuple(
        Row((release, Cell(f"{tokens:,}", tokens, bar=(Piece("kv", tokens / most),)))) for release, tokens in points
    )
    return (Table("", (Column("release", 9), Column("tokens", 16, is_number=True)), rows, label="Tokens by release"),)
