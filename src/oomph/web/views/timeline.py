"""The start-up from top to bottom, each stage to scale: what stays, how high the peak goes, and where it dies."""

from __future__ import annotations

from oomph.ir import STAGE_WORDS, Plan, RankPlan, Stage
from oomph.units import human
from oomph.web.markup import Html, el
from oomph.web.views.scale import block, picture, span, upright

_HEIGHT = 22


def timeline(plan: Plan) -> Html:
    rank = plan.ranks[min(plan.verdict.rank, len(plan.ranks) - 1)]
    longest = max(rank.total_bytes, *(max(s.peak_bytes, s.peak_high) for s in rank.stages), 1)
    names = [stage.name for stage in rank.stages]
    dies = names.index(plan.verdict.stage) if not plan.fits and plan.verdict.stage in names else len(names)
    rows = [_stage(stage, index - dies, rank, longest, plan) for index, stage in enumerate(rank.stages)]
    return el("ol", rows, cls="timeline")


def stage_words(name: str) -> str:
    return STAGE_WORDS[name][0] if name in STAGE_WORDS else name.replace("_", " ")


def _stage(stage: Stage, place: int, rank: RankPlan, longest: int, plan: Plan) -> Html:
    """`place`: 0 is the stage that kills; those behind it are never reached."""
    dies = place == 0
    over = stage.peak_bytes > rank.total_bytes
    tight = plan.fits and stage.name == plan.verdict.first_to_break
    note = _note(stage, plan) if dies else stage.note
    word = "dies here" if dies else "tightest" if tight else "not reached" if place > 0 else ""
    track = picture(
        _HEIGHT,
        f"{stage_words(stage.name)}: {human(stage.resident_bytes)} stay, the peak is {human(stage.peak_bytes)}",
        block("ground", 0, rank.total_bytes / longest, 5, 12),
        block("stays", 0, stage.resident_bytes / longest, 5, 12, f"stays: {human(stage.resident_bytes)}"),
        block("rises over" if dies or over else "rises", stage.resident_bytes / longest,
              max(0, stage.peak_bytes - stage.resident_bytes) / longest, 5, 12, f"peak: {human(stage.peak_bytes)}"),
        block("rises over", rank.total_bytes / longest, (stage.peak_bytes - rank.total_bytes) / longest, 5, 12)
        if over else None,
        upright("peak over" if dies or over else "peak", stage.peak_bytes / longest, 2, 20),
        span("interval", stage.peak_low / longest, stage.peak_high / longest, 11, 3) if stage.peak_low else None,
        upright("limit", rank.total_bytes / longest, 0, _HEIGHT),
        cls="track",
    )  # fmt: skip
    return el(
        "li", el("span", stage_words(stage.name), cls="stage"), track,
        el("span", human(stage.peak_bytes), cls="size"),
        el("span", el("b", word, cls="word") if word else None, " " if word and note else None, note, cls="note")
        if word or note else None,
        cls="dies" if dies else "later" if place > 0 else "",
    )  # fmt: skip


def _note(stage: Stage, plan: Plan) -> str:
    short = f"{human(plan.verdict.short_bytes)} short"
    return f"{short}; {stage.note}" if stage.note else short
