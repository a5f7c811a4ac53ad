"""A plan's advice: single changes first, then the smallest combination, then another checkpoint, layout or card."""

from collections.abc import Iterable, Iterator, Sequence

from oomph.advice.combine import MOST_FLAGS, around_a_middle, is_flag, mildest, smallest_combination
from oomph.advice.judge import Judge, price, together, tokens
from oomph.ir import Advice, Change, Judged, Lever, Plan
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
    # what else runs on the card may have to stay there
    if not any(fix.change.rank < _DEAR and fix.change.kind != "host" for fix in _fixes(judged)):
        flags = [lever for kind in ("flag", "environment") for lever in by_kind[kind]]
        judged += list(smallest_combination(judge, flags)) or around_a_middle(judge, flags)
        if not _fixes(judged):  # the GPUs that are there, with one or two flags besides, before a download
            wider = (lever.changes[-1] for lever in by_kind["layout"])
            judged += [answer for change in wider for answer in smallest_combination(judge, flags, change, 2)]
    if len(_fixes(judged)) < _ENOUGH:
        judged += [judge_lever(judge, lever) for kind in ("release", "checkpoint") for lever in by_kind[kind]]
    if all(fix.change.kind == "layout" for fix in _fixes(judged)):
        judged += _with_another_checkpoint(judge, by_kind["checkpoint"], by_kind["flag"], by_kind["layout"])
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
        tuple(j for j in judged if j.effect in ("nothing", "worse", "refused") and not _moves_a_fix(j, fixes)),
        next_step if all(j.change.kind in ("hardware", "offload") for j in fixes) else "",
    )


def _moves_a_fix(useless: Judged, fixes: Sequence[Judged]) -> bool:
    """The other direction of a flag that alone fixes the plan: who reads of the fix does not turn it the wrong way."""
    fields = useless.change.flags.keys()
    return bool(fields) and any(fix.change.flags.keys() == fields and not fix.change.model for fix in fixes)


def is_usable(judge: Judge, fixes: Sequence[Judged], context: int = 0) -> bool:
    """Whether one of them changes flags alone, or a layout, and leaves `context` tokens; 0 = none were
    typed: a useful part of the model's."""
    least = context or _context(judge.before) // _MUCH
    return any(
        fix.change.kind in _AT_ONCE and not fix.change.model and _context(judge.plan(fix.change)) >= least
        for fix in fixes
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
            return judge.judge(_with_a_request(judge, lever, mildest(judge, lever.changes)), lever)
        others = lever.changes[:-1] if lever.two_sided else lever.changes[:1]  # too much of it may do harm elsewhere
        milder = next((change for change in others if judge.fixes(change)), strongest)
        if milder is not strongest:
            return judge.judge(_with_a_request(judge, lever, milder), lever)
    return judge.judge(strongest, lever)


def _with_a_request(judge: Judge, lever: Lever, mild: Change) -> Change:
    """Some engines start with a pool that is smaller than one request: the first stronger setting that holds one."""

    def holds(change: Change) -> bool:
        plan = judge.plan(change)
        return not isinstance(plan, str) and plan.kv is not None and plan.kv.max_concurrency >= 1

    stronger = lever.changes[lever.changes.index(mild) :]
    return next((change for change in stronger if holds(change) and (change is mild or judge.fixes(change))), mild)


def _fixes(judged: Iterable[Judged]) -> list[Judged]:
    return [j for j in judged if j.effect == "fixes"]


def _for_a_fitting_plan(judged: Sequence[Judged], why: Sequence[str]) -> Advice:
    helps = sorted((j for j in judged if j.effect == "helps"), key=lambda j: (-j.tokens, price(j)))
    return Advice(tuple(why), (), tuple(helps), tuple(j for j in judged if j.effect not in ("helps", "fixes")))


def _with_another_checkpoint(
    judge: Judge, checkpoints: Sequence[Lever], flags: Sequence[Lever], layouts: Sequence[Lever]
) -> Iterator[Judged]:
    """Smaller checkpoints that start with one further change: the GPUs that are idle, which costs nothing that was
    asked for; else a shorter context, fewer sequences."""
    answered = False
    for lever in checkpoints:
        spread = (together([lever.changes[0], wider.changes[-1]]) for wider in layouts)
        if on_all := next((change for change in spread if judge.fixes(change)), None):
            answered = True
            yield judge.judge(on_all)
            continue
        for judged in smallest_combination(judge, flags, lever.changes[0], most=1):
            answered = True
            yield judged
    if checkpoints and not answered:
        yield from smallest_combination(judge, flags, checkpoints[-1].changes[0])


# A fix that keeps more of the context, where the cheapest ones cut most of it away.

_MUCH = 4  # a fix that leaves less than this part of the context is one that few people can use
_WORTH = 2  # how much longer the context must be for a further line


def longer_context(
    judge: Judge, flags: Sequence[Lever], checkpoints: Sequence[Lever], fixes: Sequence[Judged], dear: int
) -> Iterator[Judged]:
    """At most one answer: the two flags of a rank below `dear` that give the KV cache most, one after the other, and
    the longest context that starts with them, on the checkpoint of the fix that keeps most."""
    shorter = next((lever for lever in flags if lever.name == "max_model_len"), None)
    best = max(fixes, key=lambda fix: _context(judge.plan(fix.change)), default=None)
    if shorter is None or best is None:
        return
    longest = _context(judge.plan(best.change))
    if not 0 < _MUCH * longest < _context(judge.before):
        return
    mild = [_strongest_below(lever, dear) for lever in flags if lever is not shorter and is_flag(lever)]
    helpers = [change for change in mild if change is not None]
    others = [lever.changes[0] for lever in checkpoints if lever.changes[0].model == best.change.model != ""]
    for _ in range(MOST_FLAGS - 1):
        without = _tokens(judge.plan(together([*others, shorter.changes[-1]])))
        cached = {n: _tokens(judge.plan(together([*others, h, shorter.changes[-1]]))) for n, h in enumerate(helpers)}
        best_helper = max(cached, key=lambda n: cached[n], default=None)
        if best_helper is None or cached[best_helper] <= without:
            break
        others.append(helpers[best_helper])
        helpers = [helper for n, helper in enumerate(helpers) if n != best_helper and cached[n] > without]
    if not judge.fixes(together([*others, shorter.changes[-1]])):
        return
    answer = together([*others, mildest(judge, shorter.changes, others)])
    if _context(judge.plan(answer)) >= _WORTH * longest:
        yield judge.judge(answer)


def _strongest_below(lever: Lever, dear: int) -> Change | None:
    return next((change for change in reversed(lever.changes) if change.rank < dear), None)


def _context(plan: Plan | str) -> int:
    return 0 if isinstance(plan, str) else int(plan.resolved.get("max_model_len", 0))


def _tokens(plan: Plan | str) -> int:
    return 0 if isinstance(plan, str) else tokens(plan)
