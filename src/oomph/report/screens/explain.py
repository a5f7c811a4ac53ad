"""An explanation: what happened, where, why, what fixes it, what does not, and the lines of the log that say so."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oomph.doctor.explanation import Explanation
from oomph.doctor.reading.meanings import UNFINISHED
from oomph.engines.registry import engine_named
from oomph.ir import STAGES, Judged, timeline
from oomph.ir.evidence import asserts
from oomph.report.answer import (
    Answer,
    Block,
    Changes,
    Details,
    Entry,
    Excerpt,
    Facts,
    Heading,
    Inquiry,
    Items,
    Ledger,
    LogLine,
    Notes,
    Paragraph,
    Reasons,
    Stages,
    Verdict,
)
from oomph.units import GIB, gib, human

if TYPE_CHECKING:
    from oomph.doctor.runs import Run
    from oomph.logs.reader import RawLog

# Where a run died, in the words of every report.
STAGE_WORDS: dict[str, str] = {**{name: when for name, (_, when) in timeline.STAGE_WORDS.items()}, "other": ""}
LINES = 13  # of the first screen; `--all` has the rest. A terminal gets an empty line behind them
SHOWN = 6  # remedies and rejected advice on one screen
AROUND = 2  # lines of the log on both sides of one that says something


def answer(explanation: Explanation, log: "RawLog | None" = None) -> Answer:
    """`log`: where its lines come from, to show those around what says something."""
    cause = explanation.cause
    possible = tuple((f"{other.title} ({other.id})", other.text) for other in explanation.candidates)
    others = Items("Or", possible, "" if cause.sure else "What else it could be")
    return Answer(
        "explain",
        Heading(explanation.model, (_engine(explanation), _card(explanation)), unnamed="A log"),
        _verdict(explanation),
        (
            *_stages(explanation),
            Paragraph("Why", (cause.text,)),
            Paragraph("Inferred", (explanation.inferred_reason,)),
            _remedies(explanation),
            _ledger(explanation),
            Reasons("Useless", "What does not help",
                    tuple((one.change.label, one.why) for one in explanation.rejected), SHOWN),
            *_question(explanation),
            Paragraph("Also", tuple(map(_second, explanation.also)), "Another failure in the same text"),
            Details("What else it could be", (others,)) if cause.sure else others,
            Paragraph("Settle", (explanation.settle,), "What would settle it"),
            _excerpt(explanation, log),
            Facts((("Rule", cause.id if cause.tier not in ("", "remark") else ""),)),
            Notes(explanation.notes),
        ),
        {"cause": cause.id, "stage": explanation.stage or ""},
        LINES,
    )  # fmt: skip


def _second(other: Explanation) -> str:
    """Another attempt's failure: where, of what, and what to do."""
    levers = "; ".join(one.change.label for one in other.remedies[:2])
    first = f"another attempt FAILED {where_words(other)}: {other.cause.title}. {other.cause.text}"
    return f"{first} Try {levers}." if levers else first


def answers(runs: "Sequence[Run]") -> dict[str, Answer]:
    """Each run of a log under its name."""
    names = (f"Run {number}: {_short(run.explanation)}" for number, run in enumerate(runs, 1))
    return {name: answer(run.explanation, run.log) for name, run in zip(names, runs)}


def _short(explanation: Explanation) -> str:
    if explanation.failed:
        return f"failed {where_words(explanation)}".strip()
    return "cannot tell" if explanation.failed is None else "did not fail"


def _engine(explanation: Explanation) -> str:
    engine = explanation.engine
    if explanation.speaker:
        return explanation.speaker
    return f"{engine_named(engine.name).title} {engine.version}".strip() if engine.name else ""


def _card(explanation: Explanation) -> str:
    size = f"{explanation.total_bytes / GIB:.2f} GiB per GPU" if explanation.total_bytes else ""
    return ", ".join(words for words in (explanation.gpu, size) if words)


def _verdict(explanation: Explanation) -> Verdict:
    cause, unfinished = explanation.cause, explanation.settle == UNFINISHED
    if not explanation.failed and cause.id == "none" and (explanation.inferred_reason or unfinished):
        return Verdict("NO ERROR IN THIS LOG", "close", _likely(explanation))
    if unfinished:
        return Verdict("NO ERROR IN THIS LOG", "close", cause.title)
    if explanation.failed is None and any(one.change.lever == "nothing" for one in explanation.remedies):
        return Verdict("NOTHING TO FIX", "fits", cause.title)
    if explanation.failed is None:
        return Verdict("CANNOT TELL", "close", cause.title if cause.tier else "", "whether it failed")
    if not explanation.failed:
        return Verdict("DID NOT FAIL", "fits", cause.title)
    sure = "" if cause.sure or cause.tier in ("", "remark") else "probably: "
    return Verdict("FAILED", "fails", f"{sure}{cause.title}", where_words(explanation))


def where_words(explanation: Explanation) -> str:
    """A stage is stated only where something asserts it."""
    where = [_during(explanation, chance.stage) for chance in explanation.stages]
    if asserts(explanation.stage_basis) or not explanation.stages:
        return _during(explanation, explanation.stage or "")
    if explanation.stages[0].stage == "other":
        return "in a stage that this text does not tell"  # what is far less likely is asked for, not headlined
    return f"most likely {', or '.join(words for words in where if words)}" if any(where) else ""


def _during(explanation: Explanation, stage: str) -> str:
    engine = explanation.engine.name
    own = engine_named(engine).words.stages if engine else {}
    return own.get(stage) or STAGE_WORDS.get(stage, "")


def _likely(explanation: Explanation) -> str:
    where = STAGE_WORDS.get(explanation.inferred_stage or explanation.stage or "", "")
    if explanation.inferred_stage:
        return f"if the run died, most likely {where}"
    return f"it ends {where}" if where else "and nothing in it points to one"


def _stages(explanation: Explanation) -> tuple[Block, ...]:
    passes = [stage for stage in STAGES if stage not in ("host_ram", "other")]
    is_asserted = explanation.failed and asserts(explanation.stage_basis)
    return tuple(Stages(stage) for stage in passes if is_asserted and stage == explanation.stage)


def _question(explanation: Explanation) -> tuple[Block, ...]:
    question = explanation.question
    if question is None:
        return ()
    answers = tuple(
        (word, stage, _during(explanation, stage) or "before any memory is touched")
        for word, stage in question.answers.items()
    )
    return (Inquiry(question.text, answers, question.command),)


def _ledger(explanation: Explanation) -> Ledger:
    entries = [Entry(entry.term.replace("_", " "), entry.bytes, entry.basis) for entry in explanation.ledger]
    rest = explanation.unaccounted_bytes
    whole = sum(entry.bytes for entry in entries) + (rest or 0)
    total = f" = {gib(whole)}" if explanation.failed and rest is not None else " GiB"
    if entries and rest and abs(rest) > GIB // 20:
        entries.append(Entry("unaccounted", rest, "what the lines do not say"))
    return Ledger(tuple(entries), total, explanation.total_bytes)


def _remedies(explanation: Explanation) -> Changes:
    remedies = explanation.remedies
    works = any(remedy.verified for remedy in remedies[:SHOWN])
    return Changes(
        "Works" if works else "Try",
        "What works" if works else "What to try",
        remedies,
        tuple(map(_effect, remedies)),
        before="failed" if explanation.failed else "as it is",
        engine=explanation.engine.name,
        shown=SHOWN,
        command=next((remedy.command for remedy in remedies[:SHOWN] if remedy.command), ""),
        in_columns=False,
    )


def _effect(remedy: Judged) -> str:
    gained = f", {human(remedy.gain_bytes)} gained" if remedy.gain_bytes > 0 else ""
    planned = f"planned: fits{gained}" if remedy.verified else ""
    return "   ".join(words for words in (planned, remedy.costs) if words)


def _excerpt(explanation: Explanation, log: "RawLog | None") -> Excerpt:
    evidence = {line.line: line.text for line in explanation.evidence}
    near = {number for line in evidence for number in range(line - AROUND, line + AROUND + 1)}
    around = {line.number: line.text for line in log.lines if line.number in near} if log is not None else {}
    texts = {**evidence, **around}
    return Excerpt(tuple(LogLine(number, texts[number], number in evidence) for number in sorted(texts)))
