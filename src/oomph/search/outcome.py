"""What became of one plan of the search, and what its figures say about the next one."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from oomph.engines.registry import engine_of
from oomph.ir import Plan
from oomph.search.request import knobs_of


class Outcome(Struct, frozen=True):
    """What became of one plan. over: too much utilisation; short: too little cache; never: neither would help."""

    kind: Literal["ok", "over", "short", "never"]
    concurrency: float  # with the interval's low end of KV memory where the margin is kept
    plan: Plan | None
    error: str = ""


def judge(plan: Plan, *, margin: bool) -> Outcome:
    verdict = plan.verdict
    shared = knobs_of(plan.deployment).shared_stages
    if not verdict.fits:
        if verdict.stage in shared:
            return Outcome("over", 0.0, plan, verdict.message)
        return Outcome("short" if verdict.stage == "kv_check" else "never", 0.0, plan, verdict.message)
    if plan.kv is None:
        return Outcome("never", 0.0, plan)
    if not margin:
        return Outcome("ok", _without_cache(plan.kv.max_concurrency, plan), plan)
    low = low_concurrency(plan)
    if verdict.outcome != "fits":
        # one request may be what is at risk, of a cache that is too small: a higher share gives it more
        is_risk = verdict.outcome == "at_risk"
        short = low < 1 if is_risk else verdict.first_to_break == "kv_check"
        over = not short and (is_risk or verdict.first_to_break in shared)
        return Outcome("over" if over else "short" if short else "never", 0.0, plan, "close")
    if share_of(plan) > engine_of(plan.deployment).safe_share(plan)[0]:
        return Outcome("over", 0.0, plan, "close")
    return Outcome("ok" if low >= 1 else "short", low, plan, "" if low >= 1 else "close")


def share_of(plan: Plan) -> float:
    """The share of its GPUs that the plan gives the engine; 0: it has no such setting."""
    return float(plan.resolved.get(knobs_of(plan.deployment).share) or 0)


def low_concurrency(plan: Plan) -> float:
    """Requests of max_model_len at once if KV memory is at the low end of its interval; one block is the null block. A
    cache that the engine makes no larger than its requests need has all of its blocks there too."""
    kv = plan.kv
    assert kv is not None
    if not kv.num_blocks or not kv.bytes_per_block:
        return _without_cache(kv.max_concurrency, plan)
    if kv.num_blocks * kv.bytes_per_block < min(rank.terms["available_kv"].low for rank in plan.ranks):
        return kv.max_concurrency
    shortfall = max(r.terms["available_kv"].bytes - r.terms["available_kv"].low for r in plan.ranks)
    blocks = max(0, kv.num_blocks - 1 - -(-shortfall // kv.bytes_per_block))
    knobs = knobs_of(plan.deployment)
    if kv.max_concurrency == plan.resolved.get(knobs.users):
        # there are as many states as may run at once, and more tokens than they need
        certain = kv.logged_tokens * blocks / kv.num_blocks
        return min(kv.max_concurrency, certain / float(plan.resolved[knobs.context]))
    return kv.max_concurrency * blocks / kv.num_blocks


def _without_cache(concurrency: float, plan: Plan) -> float:
    """A model without a cache serves as many as it is told to."""
    if plan.kv is not None and plan.kv.groups:
        return concurrency
    return float(plan.resolved[knobs_of(plan.deployment).users])


def same_budget(first: Outcome, second: Outcome) -> bool:
    """Two contexts that leave the same bytes for the cache in the same blocks are full at the same utilisation. Latent
    attention profiles a workspace that grows with the context; most models do not."""
    if (
        first.kind == "over"
        or first.plan is None
        or second.plan is None
        or first.plan.kv is None
        or second.plan.kv is None
    ):
        return False
    return (first.plan.kv.available_bytes, first.plan.kv.bytes_per_block) == (
        second.plan.kv.available_bytes,
        second.plan.kv.bytes_per_block,
    )


def guess_share(plan: Plan, grid: Sequence[float], start: int, *, margin: bool) -> int:
    """Where the tightest utilised stage would be full, were it to grow with the utilisation byte for byte."""
    room = None
    shared = knobs_of(plan.deployment).shared_stages
    for rank in plan.ranks:
        for stage in rank.stages:
            if stage.name in shared and stage.name != "startup_free_memory":
                peak = (stage.needed_high or stage.peak_high) if margin else stage.peak_bytes
                here = (rank.total_bytes - peak) / rank.total_bytes
                room = here if room is None else min(room, here)
        free = rank.total_bytes - (rank.stages[0].peak_high if margin else rank.stages[0].peak_bytes)
        here = (free - rank.requested_bytes) / rank.total_bytes
        room = here if room is None else min(room, here)
    target = grid[start] + (room or 0.0)
    return max(0, min(len(grid) - 1, bisect_right(grid, target + 1e-9) - 1))
