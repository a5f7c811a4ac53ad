"""A plan's advice: single changes first, then the smallest combination, then another checkpoint, layout or card."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from oomph.advice.combine import around_a_middle, mildest, smallest_combination
from oomph.advice.judge import Judge, price
from oomph.advice.longer import longer_context
from oomph.ir import Advice, Judged, Lever, Plan
from oomph.ir.advice import KINDS, Kind
from oomph.units import gib

# Kinds in the order in which they are tried; a later group is looked at only while there are too few answers.
_AT_ONCE: tuple[Kind, ...] = ("flag", "environment", "host", "layout")
_DEAREST: tuple[Kind, ...] = ("hardware", "offload")
_ENOUGH = 3
_DEAR = 5  # the rank from which a flag costs more than two mild ones: no CUDA graphs, one request at a time


def advise(judge: Judge, levers: Sequence[Lever], why: Sequence[str], next_step: str = "") -> Advice:
    """`levers` is the engine's whole table for this plan."""
    if enough := _enough_host_memory(judge.before):
        why, next_step = (*why, enough), ""  # no other card or layout brings host memory
    by_kind = {kind: [lever for lever in levers if lever.changes[0].kind == kind] for kind in KINDS}
    judged = [judge_lever(judge, lever) for kind in _AT_ONCE for lever in by_kind[kind]]
    if judge.before.verdict.outcome == "fits":
        return _for_a_fitting_plan(judged, why)
    if not any(fix.change.rank < _DEAR for fix in _fixes(judged)):
        flags = [lever for kind in ("flag", "environment") for lever in by_kind[kind]]
        judged += list(smallest_combination(judge, flags)) or around_a_middle(judge, flags)
    if len(_fixes(judged)) < _ENOUGH:
        judged += [judge_lever(judge, lever) for kind in ("release", "checkpoint") for lever in by_kind[kind]]
    if not _fixes(judged):
        judged += _with_another_checkpoint(judge, by_kind["checkpoint"], by_kind["flag"])
    if not _fixes(judged):
        judged += [judge_lever(judge, lever) for lever in (*by_kind["hardware"], *by_kind["offload"])]
    flags = [lever for lever in by_kind["flag"] if lever.name == "max_model_len"]
    for kind in _DEAREST:
        if not _fixes(judged):
            judged += [j for lever in by_kind[kind] for j in smallest_combination(judge, flags, lever.changes[-1])]
    judged += longer_context(judge, by_kind["flag"], by_kind["checkpoint"], _fixes(judged), _DEAR)
    fixes = sorted(_fixes(judged), key=price)
    return Advice(
        tuple(why),
        tuple(fixes),
        tuple(sorted((j for j in judged if j.effect == "helps"), key=lambda j: -j.gain_bytes)),
        tuple(j for j in judged if j.effect in ("nothing", "worse", "refused")),
        next_step if all(j.change.kind in ("hardware", "offload") for j in fixes) else "",
    )


def _enough_host_memory(plan: Plan) -> str:
    """What the host must have where its memory is what breaks first; "" elsewhere."""
    host = plan.host
    if host is None or host.margin is None or plan.verdict.first_to_break != "host_ram" or host.margin.low >= 0:
        return ""
    if plan.deployment.gpus and plan.deployment.gpus[0].system is not None:
        return ""
    enough = gib(host.available_bytes - host.margin.low)
    there = f"there are {gib(host.available_bytes)} ({host.ram_from})"
    return f"{enough} of host memory are enough even at the worst; {there}."


def judge_lever(judge: Judge, lever: Lever) -> Judged:
    """The mildest setting that fixes the plan; else the strongest one, which says most about the lever."""
    strongest = lever.changes[-1]
    if lever.refused or judge.before.verdict.stage in lever.not_read:
        return judge.judge(strongest, lever)
    if judge.before.verdict.outcome != "fits":
        if judge.fixes(strongest):
            return judge.judge(mildest(judge, lever.changes), lever)
        others = lever.changes[:-1] if lever.two_sided else lever.changes[:1]  # too much of it may do harm elsewhere
        milder = next((change for change in others if judge.fixes(change)), strongest)
        if milder is not strongest:
            return judge.judge(milder, lever)
    return judge.judge(strongest, lever)


def _fixes(judged: Iterable[Judged]) -> list[Judged]:
    return [j for j in judged if j.effect == "fixes"]


def _for_a_fitting_plan(judged: Sequence[Judged], why: Sequence[str]) -> Advice:
    helps = sorted((j for j in judged if j.effect == "helps"), key=lambda j: (-j.tokens, price(j)))
    return Advice(tuple(why), (), tuple(helps), tuple(j for j in judged if j.effect not in ("helps", "fixes")))


def _with_another_checkpoint(judge: Judge, checkpoints: Sequence[Lever], flags: Sequence[Lever]) -> Iterator[Judged]:
    """Smaller checkpoints that start with one further change: a shorter context, fewer sequences."""
    answered = False
    for lever in checkpoints:
        for judged in smallest_combination(judge, flags, lever.changes[0], most=1):
            answered = True
            yield judged
    if checkpoints and not answered:
        yield from smallest_combination(judge, flags, checkpoints[-1].changes[0])
