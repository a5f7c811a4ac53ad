"""How high --gpu-memory-utilization may go for one deployment on its cards, so that warm-up and serving still fit: the
one figure that advice, fit, gpus and the rules of the doctor use."""

from math import floor

from oomph.engines.values import SafeShare
from oomph.ir import STAGE_WORDS, Plan, RankPlan, Stage
from oomph.units import GIB

# Chosen: room for what no measured load showed (kernels that an unusual shape loads late, pieces that days of requests
# leave between tensors), as a share of the card.
RESERVE = 0.005
# Chosen, for a plan that ends before the KV cache is there: what follows it is not planned then.
UNPLANNED = 0.95
# GB10, Jetson and other machines whose system lives in the same memory: 0.87 and more mostly fail in posted starts.
SHARED_MEMORY = 0.85
HIGHEST = 0.99  # what a search tries at most: a plan says how much of it is safe
_GROWS = ("kv_alloc", "cudagraph_capture", "sampler_warmup", "runtime_request")


def unplanned_utilization(unified: bool) -> float:
    """The ceiling where nothing is planned."""
    return SHARED_MEMORY if unified else UNPLANNED


def safe_utilization(plan: Plan) -> SafeShare:
    """The tightest rank's. What follows the cache rises byte for byte with the utilisation, since the cache takes what
    is left of the budget: one plan tells the figure for all."""
    util = float(plan.resolved.get("gpu_memory_utilization") or UNPLANNED)
    # ranks that are alike share the list of their stages
    ranks = [rank for at, rank in enumerate(plan.ranks) if not at or rank.stages is not plan.ranks[at - 1].stages]
    limits = [_of_rank(rank, util) for rank in ranks]
    if any(device.unified for device in plan.deployment.gpus):
        limits += [
            SafeShare(SHARED_MEMORY, "the operating system lives in the same memory"),
            *_by_host(plan, util),
        ]
    unplanned = SafeShare(UNPLANNED, "the plan ends before the KV cache, so what follows is not known")
    return min(limits, key=lambda safe: safe.value, default=unplanned)


def _by_host(plan: Plan, util: float) -> list[SafeShare]:
    """On memory shared with the CPU the host's own room falls byte for byte as the budget grows."""
    margin = plan.host.margin if plan.host is not None else None
    if margin is None or not plan.ranks or plan.ranks[0].terms["available_kv"].basis == "given":
        return []
    value = _down(min(util + margin.low / rank.total_bytes for rank in plan.ranks))
    return [SafeShare(value, "the host shares the memory and must survive what the budget does not count")]


def _of_rank(rank: RankPlan, util: float) -> SafeShare:
    total = rank.total_bytes
    before = rank.stages[0].peak_high
    by_check = SafeShare(_down(1 - before / total), f"{before / GIB:.2f} GiB are in use before the engine starts")
    last = [stage for stage in rank.stages if stage.name in _GROWS]
    if not last or rank.terms["available_kv"].basis == "given":
        unplanned = SafeShare(UNPLANNED, "what follows the KV cache does not depend on the utilisation here")
        return min(by_check, unplanned, key=lambda safe: safe.value)
    tightest = max(last, key=_needed)
    beyond = (_needed(tightest) - rank.requested_bytes) / GIB
    words = STAGE_WORDS[tightest.name][0]
    reason = f"{words} may reach {beyond:.2f} GiB above the budget" + (f" ({tightest.note})" if tightest.note else "")
    by_load = SafeShare(_down(util + (total * (1 - RESERVE) - _needed(tightest)) / total), reason)
    return min(by_check, by_load, key=lambda safe: safe.value)


def _needed(stage: Stage) -> int:
    return stage.needed_high or stage.peak_high


def _down(value: float) -> float:
    return max(0.0, min(HIGHEST, floor(value * 100 + 1e-6) / 100))
