"""The shapes of explanations, threads, reports and rules in JSON, and what makes them."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType, structs, to_builtins

from oomph.answers.report import Bundle, without_places
from oomph.doctor.explanation import Explanation
from oomph.doctor.threads.thread import Run, ThreadExplanation, Tried
from oomph.ir import Judged
from oomph.ir.advice import Kind
from oomph.report.contract.plan import SCHEMA, AdviceOutput, PlanOutput, advice_output, plan_output
from oomph.report.screens.thread import comment
from oomph.text.redaction import session


class RemedyOutput(Struct, frozen=True):
    change: str
    kind: str
    gains_bytes: int
    verified: bool  # planned, and it fits
    costs: str
    command: str
    lever: str


class RejectedOutput(Struct, frozen=True):
    lever: str
    advice: str  # as guides word it
    why: str


class ExplanationOutput(Explanation, frozen=True, kw_only=True):
    """`oomph explain --json`."""

    schema: int
    remedies: list[RemedyOutput]  # type: ignore[assignment]
    rejected: list[RejectedOutput]  # type: ignore[assignment]
    advice: AdviceOutput | UnsetType = UNSET  # type: ignore[assignment]


class ThreadOutput(Struct, frozen=True):
    """`oomph explain --json` of a saved issue."""

    schema: int
    title: str
    state: str  # open, closed, or empty where nothing says
    posts: int
    runs: list[Run]
    tried: list[Tried]
    settled: str
    explanation: ExplanationOutput | None  # of the run that the thread is about
    about: int  # the post that holds it
    comment: str  # the answer, as Markdown to paste


class ReportOutput(Struct, frozen=True):
    """`oomph report --json`."""

    schema: int
    versions: dict[str, str]
    machine: list[str]
    plan: PlanOutput | None
    explanation: ExplanationOutput | None
    log_end: list[str]  # the last lines of the log
    log_lines: int  # how many it has
    problems: list[str]  # what could not be told, and why


class RuleOutput(Struct, frozen=True):
    id: str
    title: str
    page: str  # empty where all are listed


class RulesOutput(Struct, frozen=True):
    """`oomph rule --json`."""

    schema: int
    rules: list[RuleOutput]


# What a remedy's kind has always been called in this JSON, where the advice of a plan calls it otherwise.
_KINDS: dict[Kind, str] = {
    "environment": "env",
    "checkpoint": "model",
    "release": "version",
    "layout": "flag",
    "offload": "flag",
}


def _remedy(judged: Judged) -> RemedyOutput:
    change = judged.change
    return RemedyOutput(
        change=change.label,
        kind=_KINDS.get(change.kind, change.kind),
        gains_bytes=max(0, judged.gain_bytes),
        verified=judged.verified,
        costs=judged.costs,
        command=judged.command,
        lever=change.lever,
    )


def explanation_output(explanation: Explanation) -> ExplanationOutput:
    return ExplanationOutput(
        **{
            **structs.asdict(explanation),
            "schema": SCHEMA,
            "remedies": [_remedy(judged) for judged in explanation.remedies],
            "rejected": [RejectedOutput(one.change.lever, one.change.label, one.why) for one in explanation.rejected],
            "advice": UNSET if explanation.advice is None else advice_output(explanation.advice),
        }
    )


def thread_output(thread: ThreadExplanation) -> ThreadOutput:
    about = None if thread.explanation is None else explanation_output(thread.explanation)
    further = {"schema": SCHEMA, "explanation": about, "comment": comment(thread)}
    return ThreadOutput(**{**structs.asdict(thread), **further})


def report_output(bundle: Bundle) -> Any:
    """Without secrets and places, which only plain values can be searched for."""
    output = ReportOutput(
        SCHEMA,
        bundle.versions,
        list(bundle.machine),
        None if bundle.plan is None else plan_output(bundle.plan),
        None if bundle.explanation is None else explanation_output(bundle.explanation),
        log_end=list(bundle.log_end),
        log_lines=bundle.log_lines,
        problems=list(bundle.problems),
    )
    return _placeless(session().hide_fields(to_builtins(output)))


def _placeless(value: Any) -> Any:
    if isinstance(value, str):
        return without_places(value)
    if isinstance(value, dict):
        return {key: _placeless(inner) for key, inner in value.items()}
    return [_placeless(inner) for inner in value] if isinstance(value, list | tuple) else value
