"""A thread: its runs, what was tried, what is settled, and the answer as a comment to paste."""

from oomph.doctor.explanation import Explanation
from oomph.doctor.threads.thread import Run, ThreadExplanation, Tried
from oomph.report.answer import Answer, Answers, Details, Heading, Paragraph, Verbatim
from oomph.report.screens import explain
from oomph.report.screens.explain import STAGE_WORDS
from oomph.text.redaction import hide_secrets

_SHOWN = 12


def answer(thread: ThreadExplanation) -> Answer:
    state = f", {thread.state}" if thread.state else ""
    runs = tuple(map(_run_words, thread.runs)) or ("no post holds a log",)
    inside = (explain.answer(thread.explanation),) if thread.explanation is not None else ()
    return Answer(
        "thread",
        Heading(thread.title or "A thread", below=(f"{thread.posts} posts{state}",)),
        None,
        (
            Paragraph("Logs", runs[:_SHOWN]),
            Details("More logs", (Paragraph("", runs[_SHOWN:]),)),
            Paragraph("Tried", tuple(map(_tried_words, thread.tried[:_SHOWN]))),
            Details("More that was tried", (Paragraph("", tuple(map(_tried_words, thread.tried[_SHOWN:]))),)),
            Paragraph("Settled", (thread.settled,)),
            Answers(inside, f"The run of post {thread.about}", on_screen=True),
            Verbatim("A comment to paste", comment(thread)),
        ),
    )


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
