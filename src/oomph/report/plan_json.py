"""A plan as JSON: the contract (report/contract/plan.py). Additions are fine, renames are not."""

from typing import Any

from msgspec import UNSET, json

from oomph.ir import Advice, HostPart, HostPlan, Judged, KvSummary, Plan, RankPlan, Term, Verdict
from oomph.ir.plan import Asleep
from oomph.report.contract.plan import (
    SCHEMA,
    AdviceOutput,
    AsleepOutput,
    EngineOutput,
    HostOutput,
    HostPartOutput,
    JudgedOutput,
    KvGroupOutput,
    KvOutput,
    PlanOutput,
    RankOutput,
    StageOutput,
    TermOutput,
    VerdictOutput,
)


def plan_json(plan: Plan) -> dict[str, Any]:
    """As plain Python values, a tuple as the list that JSON has."""
    plain: dict[str, Any] = json.decode(json.encode(plan_output(plan)))
    return plain


def plan_output(plan: Plan) -> PlanOutput:
    engine = plan.deployment.engine
    return PlanOutput(
        schema=SCHEMA,
        engine=EngineOutput(engine.name, engine.version, engine.version_from),
        model=plan.model,
        verdict=_verdict(plan.verdict),
        ranks=[_rank(rank) for rank in plan.ranks],
        kv=None if plan.kv is None else _kv(plan.kv),
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


def _kv(kv: KvSummary) -> KvOutput:
    return KvOutput(
        available_bytes=max(0, kv.available_bytes),
        num_blocks=kv.num_blocks,
        bytes_per_block=kv.bytes_per_block,
        block_size=kv.block_size,
        logged_tokens=kv.logged_tokens,
        max_concurrency=kv.max_concurrency,
        need_bytes=kv.need_bytes,
        longest_request=kv.longest_request,
        groups=[
            KvGroupOutput(group.kind, group.layers, group.block_size, group.page_bytes, group.blocks_per_request)
            for group in kv.groups
        ],
        log_lines=list(kv.log_lines),
    )


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
        parts=[_host_part(part) for part in host.parts],
        later=[_host_part(part) for part in host.later],
    )


def _host_part(part: HostPart) -> HostPartOutput:
    return HostPartOutput(
        part.name, part.bytes, part.low, part.high, part.why, part.after_start, reclaimable=part.reclaimable
    )
