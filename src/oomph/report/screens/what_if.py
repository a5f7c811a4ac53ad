"""A what-if, and as JSON: every change alone, sorted by what it does at the point that binds."""

from oomph.advice.what_if import WhatIf
from oomph.ir import STAGE_WORDS
from oomph.report.answer import Answer, Aside, Effects
from oomph.report.screens.plan import heading, room, verdict


def answer(table: WhatIf) -> Answer:
    plan = table.plan
    what = "the KV cache" if plan.fits else f"the room {STAGE_WORDS[plan.verdict.stage or 'other'][1]}"
    explanation = f"Each change alone, planned, and what it does to {what}. * = what guides advise"
    nothing = "There is nothing to try: the engine refuses this command before it reads any memory flag."
    effects = Effects(table.rows, plan.fits, plan.deployment.engine.name)
    blocks = (*room(plan), Aside(explanation), effects if table.rows else Aside(nothing))
    return Answer("what-if", heading(plan), verdict(plan), blocks, {"stage": plan.verdict.stage or ""})
