"""What an engine that batches requests can do for a model on some GPUs: the most exact checkpoint of it that starts."""

from __future__ import annotations

from msgspec.structs import replace

from oomph import catalog
from oomph.commands import parse_command, to_command
from oomph.engines.protocol import EngineProtocol, Offer
from oomph.errors import OomphError
from oomph.ir.hardware import Device
from oomph.ir.plan import Plan
from oomph.search.fit import fit


def best_offer(
    engine: EngineProtocol, model: str, gpus: tuple[Device, ...], context: int, flags: tuple[str, ...]
) -> Offer:
    """What `fit` picks for one user of this context, so that compare and fit say the same; `flags` are tried where fit
    finds nothing."""
    search = fit(model, gpus, context=context, users=1, engine=engine.name)
    if not search.met or search.pick is None:
        return _most_exact(engine, model, gpus, flags)
    chosen = search.pick.plan.deployment
    knobs = engine.fit_knobs(chosen.engine.version)
    assert knobs is not None  # fit has searched with them
    plan = engine.plan(replace(chosen, flags={**chosen.flags, knobs.context: context}))
    return Offer(plan, tuple(to_command(plan.deployment)), _users(plan), _weights_on_host(plan))


def _most_exact(engine: EngineProtocol, model: str, gpus: tuple[Device, ...], flags: tuple[str, ...]) -> Offer:
    """The most exact checkpoint that starts with these flags on all the GPUs."""
    parallel = (engine.words.parallel_flag, str(len(gpus))) if len(gpus) > 1 else ()
    planned: list[tuple[Plan, tuple[str, ...]]] = []
    for checkpoint in dict.fromkeys((model, *catalog.variants(model))):
        words = (*engine.serve_command(checkpoint), *flags, *parallel)
        try:
            plan = engine.plan(replace(parse_command(words), gpus=gpus))
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


def _weights_on_host(plan: Plan) -> int:
    """What --cpu-offload-gb and its like keep in host memory, of all ranks."""
    return sum(-rank.terms["weights"].parts.get("kept in host memory", 0) for rank in plan.ranks)


def _weights(plan: Plan) -> int:
    return sum(rank.terms["weights"].bytes for rank in plan.ranks)


def _users(plan: Plan) -> float:
    return plan.kv.max_concurrency if plan.kv else 0.0
