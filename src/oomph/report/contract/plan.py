"""The shape of a plan in JSON, and what makes it. Additions are fine, renames are not.

`docs/schema/` is made from these classes and those beside this file (tools/schemas.py): the comment behind a field is
its description there. What is printed as it is kept has its shape where it is kept.
"""

from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from oomph.ir import (
    Advice,
    Basis,
    Effect,
    Engine,
    HostPart,
    HostPlan,
    Judged,
    KvSummary,
    Margin,
    Outcome,
    Plan,
    RankPlan,
    StageName,
    Term,
    Verdict,
)
from oomph.ir.advice import Kind as ChangeKind
from oomph.ir.plan import Asleep, Grounds
from oomph.ir.timeline import RefusalKind

SCHEMA = 1  # a new number is a new contract: a field was renamed, removed, or means something else


class VerdictOutput(Struct, frozen=True):
    """What a start will do."""

    outcome: Outcome  # fits; at_risk: it starts and a named load breaks it; close: too close to call; fails
    fits: bool  # the expected case: true for fits and at_risk
    stage: StageName | None  # where it dies; null where it starts
    short_bytes: int  # what is missing at that stage
    message: str  # what the engine would print
    rank: int  # the GPU that decides
    sure: bool  # true for fits and fails
    first_to_break: str  # the stage with the least room
    risk: str  # what breaks a start that succeeds
    margin_bytes: Margin | None  # room at the stage that decides, negative where it is short; null: refused anyway
    deciding_term: str  # the term whose interval is the widest there
    asked_margin_bytes: int  # the room that --margin asks for
    refusal: RefusalKind  # what a refusal before any memory is touched is about; empty where memory decides


class TermOutput(Struct, frozen=True):
    """One part of the memory of one GPU."""

    bytes: int  # the expected size
    low: int  # the lower end of its interval
    high: int  # the upper end
    basis: Basis  # exact: to the byte; formula: derived; measured; assumed: nobody knows; given: the user said so
    parts: dict[str, int]  # what it consists of
    why: str  # the formula, or where the figure is from
    created_bytes: int | UnsetType = UNSET  # weights: what the layers create before repacking


class StageOutput(Struct, frozen=True):
    """One stage of the start-up on one GPU."""

    name: StageName
    resident_bytes: int  # in use when the stage is over, other processes included
    peak_bytes: int  # the highest point inside it
    note: str


class RankOutput(Struct, frozen=True):
    """One GPU."""

    rank: int
    gpu: str
    total_bytes: int  # as the driver reports it
    used_by_others_bytes: int
    requested_bytes: int  # the engine's budget
    terms: dict[str, TermOutput]
    stages: list[StageOutput]  # in the order in which the engine passes them


class JudgedOutput(Struct, frozen=True):
    """One change that a person can make, planned."""

    lever: str  # the same name in every command
    change: str  # as it is typed
    kind: ChangeKind
    effect: Effect
    outcome: Outcome | None  # of the changed plan; null: the change is refused
    stage: StageName | None  # where the changed plan dies
    gain_bytes: int  # room at the failing stage, or KV memory where the plan fits; negative: lost
    tokens: int  # tokens of KV cache with the change
    concurrency: float
    cost: str  # what is given up for it
    why: str  # why it does nothing, makes it worse or is refused; of a help: what is still missing
    command: str  # complete, ready to be started


class AdviceOutput(Struct, frozen=True):
    """What would help, each change planned."""

    why: list[str]
    fixes: list[JudgedOutput]  # the cheapest first
    helps: list[JudgedOutput]
    useless: list[JudgedOutput]  # does nothing, makes it worse, or is refused
    next_step: str  # a command of oomph's own that goes on from here


class HostOutput(Struct, frozen=True):
    """The memory of the busiest node."""

    need_bytes: int  # at the highest point, page cache left out
    serving_bytes: int  # of it, once the server runs
    shm_bytes: int  # of it, in /dev/shm
    ram_bytes: int  # what the node has; 0: nobody said
    ram_from: str  # --ram, this machine, the container's limit, shared with the GPU
    available_bytes: int  # of it, not in use by others
    margin_bytes: Margin | None  # what is left of it; null where it is not known
    parts: list[HostPart]
    later: list[HostPart]  # what a later event takes: sleep level 1, a prompt cache that fills


class AsleepOutput(Struct, frozen=True):
    """An engine that sleeps (--enable-sleep-mode), per GPU."""

    left_bytes: int  # stays on the GPU, at level 1 and 2
    low: int
    high: int
    wakes_bytes: int  # must be free at once to wake up


class PlanOutput(Struct, frozen=True):
    """`oomph plan --json`, and one line of `--batch`."""

    schema: int
    engine: Engine
    model: str
    verdict: VerdictOutput
    ranks: list[RankOutput]
    kv: KvSummary | None
    resolved: dict[str, Any]  # the settings that the engine ends up with, by its own names
    assumptions: list[str]
    warnings: list[str]
    host: HostOutput | None  # null: not planned
    asleep: AsleepOutput | None = None  # null: the engine cannot sleep
    rests_on: Grounds | None = None  # what the constants were measured on; null: there is no such table
    advice: AdviceOutput | UnsetType = UNSET  # left out by --no-advice and by --batch


def plan_output(plan: Plan) -> PlanOutput:
    return PlanOutput(
        schema=SCHEMA,
        engine=plan.deployment.engine,
        model=plan.model,
        verdict=_verdict(plan.verdict),
        ranks=[_rank(rank) for rank in plan.ranks],
        kv=None if plan.kv is None else replace(plan.kv, available_bytes=max(0, plan.kv.available_bytes)),
        resolved=plan.resolved,
        assumptions=list(plan.assumptions),
        warnings=list(plan.warnings),
        host=None if plan.host is None else _host(plan.host),
        asleep=None if plan.asleep is None else _asleep(plan.asleep),
        rests_on=plan.grounds,
        advice=UNSET if plan.advice is None else advice_output(plan.advice),
    )


def _asleep(asleep: Asleep) -> AsleepOutput:
    return AsleepOutput(asleep.left.bytes, asleep.left.low, asleep.left.high, asleep.wakes_bytes)


def _verdict(verdict: Verdict) -> VerdictOutput:
    return VerdictOutput(
        outcome=verdict.outcome,
        fits=verdict.fits,
        stage=verdict.stage,
        short_bytes=verdict.short_bytes,
        message=verdict.message,
        rank=verdict.rank,
        sure=verdict.outcome in ("fits", "fails"),
        first_to_break=verdict.first_to_break,
        risk=verdict.risk,
        margin_bytes=verdict.margin,
        deciding_term=verdict.deciding_term,
        asked_margin_bytes=verdict.asked_bytes,
        refusal=verdict.refusal,
    )


def _rank(rank_plan: RankPlan) -> RankOutput:
    return RankOutput(
        rank_plan.rank,
        rank_plan.gpu,
        rank_plan.total_bytes,
        rank_plan.used_by_others_bytes,
        max(0, rank_plan.requested_bytes),
        {name: _term(name, term, rank_plan) for name, term in rank_plan.terms.items()},
        stages=[StageOutput(s.name, s.resident_bytes, s.peak_bytes, s.note) for s in rank_plan.stages],
    )


def _term(name: str, term: Term, rank: RankPlan) -> TermOutput:
    """What is left for the cache is nothing where it is negative; how much is missing is the verdict's."""
    created = rank.created_bytes if name == "weights" else UNSET
    size, low, high = max(0, term.bytes), max(0, term.low), max(0, term.high)
    return TermOutput(size, low, high, term.basis, term.parts, term.why, created_bytes=created)


def advice_output(advice: Advice) -> AdviceOutput:
    return AdviceOutput(
        list(advice.why),
        [judged_output(j) for j in advice.fixes],
        [judged_output(j) for j in advice.helps],
        [judged_output(j) for j in advice.useless],
        advice.next_step,
    )


def judged_output(j: Judged) -> JudgedOutput:
    return JudgedOutput(
        lever=j.change.lever,
        change=j.change.label,
        kind=j.change.kind,
        effect=j.effect,
        outcome=j.outcome,
        stage=j.stage,
        gain_bytes=j.gain_bytes,
        tokens=j.tokens,
        concurrency=j.concurrency,
        cost=j.change.cost,
        why=j.why,
        command=j.command,
    )


def _host(host: HostPlan) -> HostOutput:
    return HostOutput(
        need_bytes=host.need_bytes,
        serving_bytes=host.serving_bytes,
        shm_bytes=host.shm_bytes,
        ram_bytes=host.ram_bytes,
        ram_from=host.ram_from,
        available_bytes=host.available_bytes,
        margin_bytes=host.margin,
        parts=list(host.parts),
        later=list(host.later),
    )
