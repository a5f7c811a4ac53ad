"""A deployment to the options of a packing problem: planned on an empty card at several shares of its memory.

What an option needs is the upper end of what the plan says of serving; what its start asks for is the larger of the
engine's own check (its budget must be free, beside its CUDA context) and the peak of any stage.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.answers.plan import run
from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.ir import Deployment, Device, Plan, RankPlan, Stage
from oomph.pack.problem import Option
from oomph.units import MIB, cdiv

_LEAST, MOST_SHARE = 0.02, 0.98


class Planned(Struct, frozen=True):
    """A deployment with the share of one option, planned on empty cards of each kind."""

    deployment: Deployment
    plans: dict[str, Plan]  # by the card's name
    share: float  # 0: the engine has none
    as_written: bool


def option_at(
    deployment: Deployment, cards: Sequence[Device], share: float, *, asleep: bool, certain: bool = True
) -> tuple[Planned, Option] | None:
    """One way to run it, on whichever of the cards it starts; a share of 0 is the command as it is written. Without
    `certain` every term is as expected."""
    changed = with_share(deployment, share)
    plans: dict[str, Plan] = {}
    for card in cards:
        if card.name not in plans and (plan := _plan(changed, card)) is not None:
            plans[card.name] = plan
    plans = {name: plan for name, plan in plans.items() if _starts(plan, certain)}
    if not plans:
        return None
    planned = Planned(changed, plans, share or written_share(deployment), not share)
    return planned, _option(planned, cards, asleep, certain)


def _plan(deployment: Deployment, card: Device) -> Plan | None:
    count = gpus_of(deployment)
    free = replace(card, used_bytes=0) if card.system is None else card
    try:
        return run(replace(deployment, gpus=(free,) * count, ram_bytes=0))
    except OomphError:
        return None


def gpus_of(deployment: Deployment) -> int:
    return max(1, engine_of(deployment).gpus_needed(deployment))


def _starts(plan: Plan, certain: bool) -> bool:
    return plan.verdict.outcome in ("fits", "at_risk") if certain else plan.verdict.fits


def written_share(deployment: Deployment) -> float:
    knobs = engine_of(deployment).fit_knobs(deployment.engine.version)
    if knobs is None or not knobs.default_share:
        return 0.0
    value = deployment.flags.get(knobs.share)
    return float(value) if isinstance(value, (int, float)) else knobs.default_share


def least_share(deployment: Deployment, card: Device, *, certain: bool = True) -> float:
    """The smallest share, in hundredths, at which the plan fits; 0 where none does."""
    low, high = round(_LEAST * 100), round(MOST_SHARE * 100)
    serves = [n for n in range(high, low - 1, -8) if _serves(deployment, card, n / 100, certain)]
    if not serves:
        return 0.0
    top = serves[-1]
    low = max(low, top - 8)
    while low < top:
        middle = (low + top) // 2
        if _serves(deployment, card, middle / 100, certain):
            top = middle
        else:
            low = middle + 1
    return top / 100


def _serves(deployment: Deployment, card: Device, share: float, certain: bool) -> bool:
    plan = _plan(with_share(deployment, share), card)
    return plan is not None and _starts(plan, certain)


def with_share(deployment: Deployment, share: float) -> Deployment:
    knobs = engine_of(deployment).fit_knobs(deployment.engine.version)
    if not share or knobs is None:
        return deployment
    return replace(deployment, flags={**deployment.flags, knobs.share: share})


def _option(planned: Planned, cards: Sequence[Device], asleep: bool, certain: bool) -> Option:
    plans = [planned.plans.get(card.name) for card in cards]
    never = max(card.total_bytes for card in cards) // MIB * 4
    sizes = [(never, never) if p is None else _sizes(p, asleep, certain) for p in plans]
    served = [p for p in plans if p is not None]
    requests = min((p.kv.max_concurrency for p in served if p.kv is not None), default=1.0)
    limit = float(served[0].resolved.get("max_num_seqs") or 1e9)
    value = round(1000 * max(0.0, min(requests, limit)))
    host = served[0].host
    on_host = max(host.need_bytes, host.serving_bytes) if host is not None else 0
    on_host += sum(part.bytes for part in host.later) if host is not None and asleep else 0
    return Option(tuple(n for n, _ in sizes), tuple(s for _, s in sizes), value, cdiv(on_host, MIB))


def _sizes(plan: Plan, asleep: bool, certain: bool) -> tuple[int, int]:
    """(need, start) of the tightest rank, in MiB."""
    shared = not certain or plan.deployment.gpus[0].system is not None
    need = max(_residue(rank) if asleep else serving_bytes(rank, shared=shared) for rank in plan.ranks)
    start = max(starting_bytes(rank, shared=shared) for rank in plan.ranks)
    return cdiv(need, MIB), cdiv(start, MIB)


def serving_bytes(rank: RankPlan, *, shared: bool = False) -> int:
    """At the upper end of every interval, without what others hold. Memory that is shared with the system has intervals
    as wide as a service, which would count once for each of them: there it is what is expected, and the plan of every
    start beside the others says whether that is close."""
    last = rank.stages[-1]
    if shared:
        return _expected(last) - rank.used_by_others_bytes
    return (last.needed_high or last.peak_high or last.peak_bytes) - rank.used_by_others_bytes


def _expected(stage: Stage) -> int:
    """Without what PyTorch caches where there is room, as on a card that is not shared with the system."""
    return min(stage.peak_bytes, stage.needed_high or stage.peak_bytes)


def starting_bytes(rank: RankPlan, *, shared: bool) -> int:
    """vLLM's check wants its budget free beside its own context; loading and profiling have peaks of their own."""
    if shared:
        context = rank.terms["context"].bytes if "context" in rank.terms else 0
        peak = max(_expected(stage) for stage in rank.stages) - rank.used_by_others_bytes
        return max(rank.requested_bytes + context if rank.requested_bytes else 0, peak)
    context = rank.terms["context"].high if "context" in rank.terms else 0
    peaks = [(s.needed_high or s.peak_high or s.peak_bytes) - rank.used_by_others_bytes for s in rank.stages]
    return max(rank.requested_bytes + context if rank.requested_bytes else 0, *peaks)


def _residue(rank: RankPlan) -> int:
    """What a sleeping engine keeps on the card: context, kernels and CUDA graphs (weights and cache are gone)."""
    names = ("context", "non_torch", "cudagraph", "runner")
    return sum(rank.terms[name].high for name in names if name in rank.terms)
