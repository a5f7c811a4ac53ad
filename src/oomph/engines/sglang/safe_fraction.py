"""How high --mem-fraction-static may go for one deployment on its cards, so that graphs and requests still fit beside
the pools: the one figure that advice, fit, gpus and the plan's warning use."""

from __future__ import annotations

from math import floor

from msgspec import Struct

from oomph.engines.sglang.running import EAGER_DECODING, SHORT_REQUEST
from oomph.ir import STAGE_WORDS, Plan, RankPlan, Stage
from oomph.units import GIB

# Chosen: room for what no measured load showed, as a share of the card (as for vLLM).
RESERVE = 0.005
# Chosen, for a plan that ends before the pools are there: what follows them is not planned then.
UNPLANNED = 0.95
HIGHEST = 0.99
_GROWS = ("kv_alloc", "cudagraph_capture", "runtime_request")


class SafeFraction(Struct, frozen=True):
    value: float  # two decimals, rounded down; 0: none is safe
    reason: str


def safe_fraction(plan: Plan) -> SafeFraction:
    """The tightest rank's. The pools rise by a share of what was free before the load, byte for byte."""
    share = float(plan.resolved.get("mem_fraction_static") or UNPLANNED)
    unplanned = SafeFraction(UNPLANNED, "the plan ends before the pools, so what follows is not known")
    return min((_of_rank(plan, rank, share) for rank in plan.ranks), key=lambda safe: safe.value, default=unplanned)


def _of_rank(plan: Plan, rank: RankPlan, share: float) -> SafeFraction:
    last = [stage for stage in rank.stages if stage.name in _GROWS]
    free = rank.terms["free_before_load"].bytes
    if not last or not free:
        return SafeFraction(UNPLANNED, "the plan ends before the pools, so what follows is not known")
    tightest = max(last, key=lambda stage: stage.peak_high)
    room = rank.total_bytes * (1 - RESERVE) - tightest.peak_high
    beyond = (tightest.peak_high - last[0].resident_bytes) / GIB
    growth = 1 + (_decoding_per_pool_byte(plan, last) if room > 0 else 0.0)
    value = floor(100 * (share + room / (free * growth)) + 1e-6) / 100
    reason = f"{STAGE_WORDS[tightest.name][0]} may take {beyond:.2f} GiB beside the pools"
    return SafeFraction(max(0.0, min(HIGHEST, value)), reason)


def _decoding_per_pool_byte(plan: Plan, stages: list[Stage]) -> float:
    """Larger pools admit more requests, and where these decode without a graph they take more themselves."""
    kv, serving = plan.kv, stages[-1]
    if kv is None or not kv.block_size or serving.note != EAGER_DECODING:
        return 0.0
    pool = kv.logged_tokens * kv.bytes_per_block / kv.block_size
    admitted = kv.logged_tokens // SHORT_REQUEST
    if not pool or admitted >= int(plan.resolved["max_running_requests"]):
        return 0.0
    return (serving.peak_high - stages[-2].peak_bytes) / pool
