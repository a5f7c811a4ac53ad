"""Several deployments, and as JSON: one line each, the worst named first, and where to look next."""

from collections import Counter
from collections.abc import Sequence

from oomph.answers.check import Check, Item, Outcome
from oomph.engines.registry import engine_of
from oomph.ir import STAGE_WORDS
from oomph.report.answer import Answer, Answers, Aside, Block, Cell, Column, Command, Heading, Row, Table
from oomph.report.screens import plan
from oomph.report.screens.plan_words import close_words, short_words
from oomph.report.terminal import clean
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
_TONES: dict[Outcome, str] = {"fits": "fits", "fails": "fails", "unread": "fails"}
_WIDEST_NAME = 40


def answer(check: Check) -> Answer:
    """One file that was asked about is named once; else each line stands under its file."""
    if not check.items:
        return Answer("check", Heading(f"no deployment is in {check.where or f'the {check.files} files'}"), None, ())
    widest = min(_WIDEST_NAME, max(len(clean(item.name)) for item in check.items))
    columns = (Column("deployment", widest, gap="  "), Column("outcome", 16, gap="  "), Column("model"))
    rows = tuple(_row(item, "" if check.where else item.file or "the command") for item in check.items)
    plans = tuple(plan.answer(item.plan) for item in check.items if item.plan is not None)
    return Answer(
        "check",
        Heading(summary(check), (f"in {check.where}",) if check.where else ()),
        None,
        (
            Table("Deployments", columns, rows, below=4 + widest + 2 + 16, has_head=False),
            Aside(_alone(check.items) if check.where else ""),
            *_next_step(check.items, check.where),
            Answers(plans),
        ),
    )


def _row(item: Item, file: str) -> Row:
    subject, detail = _subject(item), details(item)
    warning = (f"warning: {item.warning}",) if item.warning else ()
    word = Cell(WORDS[item.outcome][0], item.outcome, _TONES.get(item.outcome, "close"))
    why = (detail,) if subject and detail else ()
    return Row((item.name, word, subject or detail), below=(*why, *warning), group=file)


def summary(check: Check) -> str:
    """ "3 of 5 deployments fit; 1 will not start; 1 cannot be read"."""
    counts = Counter(item.outcome for item in check.items)
    total = len(check.items)
    noun = "deployment" if total == 1 else "deployments"
    if counts == {"fits": total}:
        return f"{total} {noun}: {'it fits' if total == 1 else 'all fit'}"
    rest = [f"{counts[o]} {words}" for o, (_, words) in WORDS.items() if counts[o] and o != "fits"]
    return f"{counts['fits']} of {total} {noun} fit; {'; '.join(rest)}"


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


def _next_step(items: Sequence[Item], where: str) -> tuple[Block, ...]:
    """The command that explains the first that does not fit."""
    item = next((one for one in items if one.plan is not None and one.outcome != "fits"), None)
    file = where or (item.file if item else "")
    if item is None or not file or not item.name:
        return ()
    name = f"'{file}:{item.name}'" if " " in file + item.name else f"{file}:{item.name}"
    return Aside("Why, and what would help:"), Command(f"oomph plan {name}")
