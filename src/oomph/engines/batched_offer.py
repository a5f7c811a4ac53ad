"""What an engine that batches requests can do for a model on some GPUs: the most exact checkpoint of it that starts."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from oomph import catalog
from oomph.commands import parse_command
from oomph.engines.protocol import Offer
from oomph.errors import OomphError
from oomph.ir.deployment import Deployment
from oomph.ir.hardware import Device
from oomph.ir.plan import Plan


def best_offer(
    model: str,
    gpus: tuple[Device, ...],
    words_for: Callable[[str], tuple[str, ...]],
    planner: Callable[[Deployment], Plan],
) -> Offer:
    """`words_for`: the command that serves one checkpoint."""
    planned: list[tuple[Plan, tuple[str, ...]]] = []
    for checkpoint in dict.fromkeys((model, *catalog.variants(model))):
        words = words_for(checkpoint)
        try:
            plan = planner(replace(parse_command(words), gpus=gpus))
        except OomphError:
            continue
        if plan.verdict.stage != "other":
            planned.append((plan, words))
    if not planned:
        return Offer(None, why="no checkpoint of it can be planned", checkpoint=model)
    fitting = [pair for pair in planned if pair[0].fits]
    if not fitting:
        plan, words = min(planned, key=lambda pair: pair[0].verdict.short_bytes)
        return Offer(plan, words, why=f"out of memory at {(plan.verdict.stage or '').replace('_', ' ')}")
    plan, words = max(fitting, key=lambda pair: (_weights(pair[0]), _users(pair[0])))
    return Offer(plan, words, _users(plan))


def weights_on_host(plan: Plan) -> int:
    """What --cpu-offload-gb and its like keep in host memory, of all ranks."""
    return sum(-rank.terms["weights"].parts.get("kept in host memory", 0) for rank in plan.ranks)


def _weights(plan: Plan) -> int:
    return sum(rank.terms["weights"].bytes for rank in plan.ranks)


def _users(plan: Plan) -> float:
    return plan.kv.max_concurrency if plan.kv else 0.0
