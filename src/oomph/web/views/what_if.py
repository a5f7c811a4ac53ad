"""Every change that moves memory, made alone and planned: a table that sorts, with a button on each row."""

from oomph.advice.what_if import Row, WhatIf
from oomph.ir import STAGE_WORDS
from oomph.web.markup import Html, el
from oomph.web.views.advice import OUTCOMES, apply_change, before_words, cost_words
from oomph.web.views.plan import heading, verdict
from oomph.web.views.shared import signed, soft, table

_EFFECTS = {
    "fixes": "fixes it", "helps": "helps", "nothing": "does nothing", "worse": "makes it worse", "refused": "refused"
}  # fmt: skip


def what_if_view(answer: WhatIf) -> Html:
    plan = answer.plan
    binding = STAGE_WORDS[answer.binding][0] if answer.binding in STAGE_WORDS else answer.binding
    gain = "#KV memory" if plan.fits else "#room where it dies"
    heads = ["change", "effect", gain, "#tokens", "#at once", "then", "cost or reason", ""]
    rows = [_row(row, plan.deployment.engine.name) for row in answer.rows]
    body = (
        table(heads, rows, sorts=True, label="What each change does")
        if rows
        else soft("There is nothing to try: the engine refuses this command before it reads any memory flag.")
    )
    standing = f"As it is: {before_words(plan)}. What decides: {binding}. A star marks what guides advise."
    return el("article", heading(plan), verdict(plan), soft(standing), body, cls="view what-if")


def _row(row: Row, engine: str) -> tuple[object, ...]:
    j = row.judged
    order = list(_EFFECTS)
    then = OUTCOMES[j.outcome] if j.outcome else "refused"
    return (
        (
            el("span", el("code", row.label), el("span", " ★", title="guides advise it") if row.advised else None),
            row.label,
        ),
        (el("b", _EFFECTS[row.effect], cls=f"effect {row.effect}"), order.index(row.effect)),
        (signed(j.gain_bytes) if j.gain_bytes else "", j.gain_bytes),
        (f"{j.tokens:,}" if j.tokens else "", j.tokens),
        (f"{j.concurrency:.2f}" if j.tokens else "", j.concurrency),
        (then, then),
        (el("div", cost_words(j), cls="reason"), cost_words(j)),
        (apply_change(j, engine) or "", 0),
    )
