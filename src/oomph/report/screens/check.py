"""Several deployments for people, and as JSON: one line each, the worst named first, and where to look next."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from oomph.answers.check import Check, Item, Outcome
from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.ir import STAGE_WORDS
from oomph.report.contract.plan import SCHEMA
from oomph.report.plan_json import plan_json
from oomph.report.screens.plan_lines import close_words, short_words
from oomph.report.terminal import Style, clean, length, wrap
from oomph.units import gib

# the outcome as a word of the table, and as it is counted in the first line
WORDS: dict[Outcome, tuple[str, str]] = {
    "fails": ("WILL NOT START", "will not start"),
    "unread": ("NOT READ", "cannot be read"),
    "unplanned": ("NOT PLANNED", "cannot be planned"),
    "close": ("TOO CLOSE", "too close to call"),
    "at_risk": ("AT RISK", "start, at risk"),
    "fits": ("FITS", "fit"),
}
_PAINT = {"fits": "1;32", "fails": "1;31", "unread": "1;31"}
_WIDEST_NAME = 40


def render(check: Check, style: Style, *, width: int = 100, everything: bool = False, where: str = "") -> str:
    """`where`: the one file that all of them are from; "" = each line names its file."""
    if not check.items:
        return f"\n  no deployment is in {where or f'the {check.files} files'}\n\n"
    lines = ["", f"  {style.bold(summary(check))}{f' in {clean(where)}' if where else ''}", ""]
    file = where
    name_width = min(_WIDEST_NAME, max(length(clean(item.name)) for item in check.items)) + 2
    for item in check.items:
        if item.file != file and not where:
            file = item.file
            lines.append(f"  {style.bold(clean(file) or 'the command')}")
        lines += _item(item, style, width, name_width)
    closing = (_alone(check.items) if where else "", _next_step(check.items, where))
    lines += ["", *(f"  {sentence}" for sentence in closing if sentence)] if any(closing) else []
    return "\n".join(lines) + "\n\n"


def summary(check: Check) -> str:
    """ "3 of 5 deployments fit; 1 will not start; 1 cannot be read"."""
    counts = Counter(item.outcome for item in check.items)
    total = len(check.items)
    noun = "deployment" if total == 1 else "deployments"
    if counts == {"fits": total}:
        return f"{total} {noun}: {'it fits' if total == 1 else 'all fit'}"
    rest = [f"{counts[o]} {words}" for o, (_, words) in WORDS.items() if counts[o] and o != "fits"]
    return f"{counts['fits']} of {total} {noun} fit; {'; '.join(rest)}"


def _item(item: Item, style: Style, width: int, name_width: int) -> list[str]:
    name, word = clean(item.name), WORDS[item.outcome][0]
    column = 4 + name_width + 16
    head = f"    {name:<{name_width}}"
    verdict = style.paint(f"{word:<16}", _PAINT.get(item.outcome, "1;33"))
    if length(head) > 4 + name_width:
        head = head.rstrip() + "  "
    title, detail = _subject(item), details(item)
    warning = wrap(f"warning: {clean(item.warning)}", width, " " * column, " " * column) if item.warning else []
    if not title:
        return [*wrap(detail, width, head + verdict, " " * column), *warning]
    return [f"{head}{verdict}{title}", *wrap(style.dim(detail), width, " " * column, " " * column), *warning]


def _subject(item: Item) -> str:
    if item.plan is None:
        return clean(item.model)
    plan = item.plan
    gpus = " + ".join(
        f"{number} x {name}" if number > 1 else name
        for name, number in Counter(g.name for g in plan.deployment.gpus).items()
    )
    engine = plan.deployment.engine
    return clean(f"{plan.model}   {engine_of(plan.deployment).title} {engine.version}   {gpus}")


def details(item: Item) -> str:
    """One sentence: why, by how much, or what is held."""
    if item.plan is None:
        error = item.error
        return clean(f"{error.message}{f' ({error.hint})' if error.hint else ''}") if error is not None else ""
    plan = item.plan
    verdict = plan.verdict
    if verdict.stage == "other":
        return clean(" ".join(verdict.message.split()))
    if verdict.outcome == "close":
        return close_words(verdict)
    if verdict.outcome == "fails":
        return f"out of memory {STAGE_WORDS[verdict.stage or 'other'][1]}: {short_words(plan)}"
    tokens = f"{plan.kv.logged_tokens:,} tokens of KV cache" if plan.kv is not None else ""
    if verdict.outcome == "at_risk":
        return "; ".join(filter(None, (verdict.risk, tokens)))
    room = f"at least {gib(verdict.margin.low)} of room" if verdict.margin is not None else ""
    return ", ".join(filter(None, (tokens, room)))


def _alone(items: Sequence[Item]) -> str:
    """Servers of one file may be meant to share a card, and nothing in the file says so."""
    planned = [item for item in items if item.plan is not None]
    return "Each is planned as if it had its GPUs to itself." if len(planned) > 1 else ""


def _next_step(items: Sequence[Item], where: str) -> str:
    """The command that explains the first that does not fit."""
    item = next((one for one in items if one.plan is not None and one.outcome != "fits"), None)
    file = where or (item.file if item else "")
    if item is None or not file or not item.name:
        return ""
    name = f"'{file}:{item.name}'" if " " in file + item.name else f"{file}:{item.name}"
    return f"Why, and what would help: oomph plan {clean(name)}"


def check_json(check: Check, *, where: str = "") -> dict[str, Any]:
    """`where`: the one file that was asked about."""
    file = {"file": where} if where else {}
    return {
        "schema": SCHEMA,
        **file,
        "outcome": check.outcome,
        "exit_code": check.exit_code,
        "files": check.files,
        "deployments": [_item_json(item) for item in check.items],
    }


def _item_json(item: Item) -> dict[str, Any]:
    place = {"file": item.file, "name": item.name, "line": item.line, "outcome": item.outcome, "warning": item.warning}
    return {**place, **plan_json(item.plan)} if item.plan is not None else {**place, "error": error_json(item.error)}


def error_json(error: OomphError | None) -> dict[str, str]:
    """As every command prints its errors with --json."""
    return {} if error is None else {"kind": error.kind, "message": error.message, "hint": error.hint}
