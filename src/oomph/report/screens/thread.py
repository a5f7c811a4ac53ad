"""A thread for people: its runs, what was tried, what is settled, and the answer as a comment to paste."""

from typing import Any

from msgspec import to_builtins

from oomph.doctor.explanation import Explanation
from oomph.doctor.thread import Run, ThreadExplanation, Tried
from oomph.report.contract.plan import SCHEMA
from oomph.report.explain_json import explanation_json
from oomph.report.screens.explain import STAGE_WORDS
from oomph.report.terminal import INDENT, Style, clean, wrap
from oomph.text.redaction import hide_secrets

_SHOWN = 12


def render(thread: ThreadExplanation, style: Style, *, width: int = 100, everything: bool = False) -> str:
    shown = None if everything else _SHOWN
    state = f", {thread.state}" if thread.state else ""
    lines = [
        "",
        f"  {clean(thread.title) or 'A thread'}",
        f"  {thread.posts} posts{state}",
        "",
        *_block("Logs", [_run_words(run) for run in thread.runs[:shown]] or ["no post holds a log"], width),
        *_block("Tried", [_tried_words(one) for one in thread.tried[:shown]], width),
        *_block("Settled", [thread.settled], width),
    ]
    if thread.explanation is not None:
        lines += ["", f"  The run of post {thread.about}", *thread.explanation.text(width=width).splitlines()[2:]]
    lines += ["", "  A comment to paste", "", *(f"  {line}".rstrip() for line in comment(thread).splitlines())]
    return "\n".join(lines).rstrip() + "\n"


def _block(name: str, sentences: list[str], width: int) -> list[str]:
    lines: list[str] = []
    for number, sentence in enumerate(sentences):
        head = f"  {name:<{INDENT - 2}}" if number == 0 else " " * INDENT
        lines += wrap(clean(sentence), width, head, " " * INDENT)
    return lines


def _run_words(run: Run) -> str:
    model = f", {run.model}" if run.model else ""
    where = STAGE_WORDS.get(run.stage, run.stage)
    outcome = {True: f"failed {where}".strip(), False: "did not fail", None: "cannot tell"}[run.failed]
    rule = f" ({run.rule})" if run.rule not in ("", "none") else ""
    return f"post {run.post} by {run.author or 'somebody'}: {run.engine}{model}: {outcome}: {run.cause}{rule}"


def _tried_words(one: Tried) -> str:
    planned = f"; {one.planned}" if one.planned else ""
    return f"post {one.post} by {one.author or 'somebody'}: {one.change}: {one.verdict}{planned}"


def comment(thread: ThreadExplanation) -> str:
    """Markdown for the thread itself: the cause, what works with its command, what does not; without secrets."""
    explanation = thread.explanation
    if explanation is None:
        return (
            "No post here holds a log from which the failure could be told. Could you add the output of the engine "
            "from its first line, the whole command, and the GPUs?"
        )
    where = STAGE_WORDS.get(explanation.stage or "", "")
    sure = "" if explanation.cause.sure else "Probably: "
    cause = explanation.cause
    place = f", {where}" if where else ""
    parts = [f"**Why** (post {thread.about}): {sure}{cause.title}{place}. {cause.text}", *_works(explanation)]
    if explanation.rejected:
        rejected = "; ".join(f"`{one.change.label}`: {one.why}" for one in explanation.rejected[:3])
        parts.append(f"**Does not help here:** {rejected}")
    if explanation.settle:
        parts.append(f"**To be sure:** {explanation.settle}")
    parts.append("<sub>Worked out from the log with oomph; figures have intervals, and nothing was run.</sub>")
    return hide_secrets("\n\n".join(parts))


def _works(explanation: Explanation) -> list[str]:
    verified = [remedy for remedy in explanation.remedies if remedy.verified and remedy.command]
    if verified:
        best, others = verified[0], verified[1:3]
        also = "".join(f"\n- or `{one.change.label}`{f': {one.costs}' if one.costs else ''}" for one in others)
        cost = f" ({best.costs})" if best.costs else ""
        return [f"**Works** (planned, not run): `{best.change.label}`{cost}\n\n```sh\n{best.command}\n```{also}"]
    offers = "".join(
        f"\n- `{one.change.label}`{f': {one.costs}' if one.costs else ''}" for one in explanation.remedies[:3]
    )
    return [f"**Worth trying** (not planned):{offers}"] if offers else []


def thread_json(thread: ThreadExplanation) -> dict[str, Any]:
    plain = to_builtins(thread)
    about = None if thread.explanation is None else explanation_json(thread.explanation)
    return {"schema": SCHEMA, **plain, "explanation": about, "comment": comment(thread)}
