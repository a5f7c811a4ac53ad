"""Every setting of every lever, planned alone: the table behind `oomph what-if`, from the judge that plan has."""

from msgspec import Struct

from oomph.advice.judge import Judge, judge_all, price, tokens
from oomph.ir import Effect, Judged, Lever, Plan
from oomph.ir.printed import Printed

_ORDER: tuple[Effect, ...] = ("fixes", "helps", "nothing", "worse", "refused")


class Row(Struct, frozen=True):
    judged: Judged
    tokens_change: int | None  # None: the change is refused
    advised: bool  # one of the fixes that guides list

    @property
    def label(self) -> str:
        return self.judged.change.label

    @property
    def effect(self) -> Effect:
        return self.judged.effect


class WhatIf(Printed, frozen=True):
    """What `oomph what-if` prints: every change of a command, planned alone."""

    plan: Plan
    binding: str  # the stage, or "KV cache"
    rows: tuple[Row, ...]

    def in_short(self) -> str:
        fixes = sum(row.effect == "fixes" for row in self.rows)
        return f"{self.plan.model}: {len(self.rows)} changes, {fixes} make it fit, decided by {self.binding}"


def what_if(judge: Judge, levers: tuple[Lever, ...]) -> WhatIf:
    plan = judge.before
    rows = [Row(judged, _tokens_change(judged, plan), lever.popular) for judged, lever in judge_all(judge, levers)]
    rows.sort(key=lambda row: (_ORDER.index(row.effect), *_place(row, plan)))
    return WhatIf(plan, "KV cache" if plan.fits else plan.verdict.stage or "other", tuple(rows))


def _place(row: Row, plan: Plan) -> tuple[int, ...]:
    """Fixes stand in the order of the plan's advice, the cheapest and mildest first; the rest by what it moves."""
    if row.effect == "fixes":
        return (*price(row.judged), _moved(row, plan), row.judged.tokens)
    return (-_moved(row, plan), -row.judged.tokens)


def _tokens_change(judged: Judged, plan: Plan) -> int | None:
    if judged.effect == "refused":
        return None
    return judged.tokens - tokens(plan) if plan.fits else judged.tokens


def _moved(row: Row, plan: Plan) -> int:
    return row.tokens_change or 0 if plan.fits else row.judged.gain_bytes
