"""What an engine that batches requests can do for a model on some GPUs, for `compare`.

It is what `fit` picks for so many users of the context, by the same objective for every engine; where `fit` finds
nothing, the checkpoint that misses by the least (or starts without fit's margin, or with fewer requests),
and where it dies.
"""

from typing import Any

from msgspec.structs import replace

from oomph import catalog
from oomph.answers.bare_plan import run
from oomph.commands import to_command
from oomph.commands.call import quote
from oomph.engines.protocol import EngineProtocol, fills
from oomph.engines.registry import all_engines, engine_of
from oomph.engines.values import Offer
from oomph.errors import OomphError
from oomph.ir import STAGE_WORDS, Change, Deployment, Device, Plan
from oomph.ir.advice import Kind
from oomph.search.best import Best, rate_of, slow
from oomph.search.fit import gives_up, pick_for, pick_or_nearest
from oomph.search.placed import Places
from oomph.search.request import Want, base_of, knobs_of, parallel_flag
from oomph.sources.load import is_local, load_once
from oomph.units import gib


def batched_offer(engine: EngineProtocol, model: str, gpus: tuple[Device, ...], want: Want, *, headless: bool) -> Offer:
    pick, near = pick_or_nearest(model, gpus, want, engine.name, headless=headless)
    if near is not None:
        short = f"{near.point.context:,} of the {want.context:,} tokens" if near.point.context < want.context else ""
        users = f"{near.point.users:,} of the {want.users:,} users" if near.point.users < want.users else ""
        why = f"holds {' for '.join(filter(None, (short, users)))} for certain"
        return replace(_offer(near), is_met=False, why=why)
    return _offer(pick) if pick is not None else _nearest(engine, model, gpus, want.context, want.users or 1)


def _offer(best: Best) -> Offer:
    plan = best.plan
    return Offer(
        plan, tuple(to_command(plan.deployment)), _users(plan), _weights_on_host(plan),
        gives_up=gives_up(best.point),
    )  # fmt: skip


def _users(plan: Plan) -> float:
    """Requests of the whole context at once: what the cache holds, and no more than the engine lets run."""
    capacity = plan.kv.max_concurrency if plan.kv else 0.0
    allowed = plan.deployment.flags.get(knobs_of(plan.deployment).users)
    return min(capacity, float(allowed)) if allowed else capacity


def _weights_on_host(plan: Plan) -> int:
    """What --cpu-offload-gb and its like keep in host memory, of all ranks."""
    return sum(-rank.terms["weights"].parts.get("kept in host memory", 0) for rank in plan.ranks)


def _nearest(engine: EngineProtocol, model: str, gpus: tuple[Device, ...], context: int, users: int) -> Offer:
    plans = []
    for checkpoint in dict.fromkeys((model, *catalog.variants(model))):
        base, _ = base_of(checkpoint, gpus, engine.name)
        knobs = knobs_of(base)
        flags = {**base.flags, knobs.context: context, knobs.users: users}
        if len(gpus) > 1:
            flags[parallel_flag(knobs)] = len(gpus)
        try:
            plans.append(run(replace(base, flags=flags)))
        except OomphError:
            continue
    refusals = [plan.verdict.message for plan in plans if plan.verdict.stage == "other"]
    plans = [plan for plan in plans if plan.verdict.stage != "other"]
    if not plans:
        why = refusals[0].partition("\n")[0] if refusals else "no checkpoint of it can be planned"
        return Offer(None, why=why, checkpoint=model)
    plan = min(
        plans, key=lambda p: (p.verdict.outcome != "fits", p.verdict.short_bytes, -int(_users(p)) if users > 1 else 0)
    )
    if plan.verdict.outcome == "fits":  # fit wants a margin besides, or room for more requests
        capacity = _users(plan)
        why = f"it starts and holds {capacity:.1f} of the {users} requests at once" if 1 < users > capacity else ""
        return Offer(plan, tuple(to_command(plan.deployment)), capacity, _weights_on_host(plan), why)
    stage = plan.verdict.stage
    why = f"out of memory {STAGE_WORDS[stage][1]}" if stage else "too close to call"
    return Offer(plan, tuple(to_command(plan.deployment)), why=why)


# What fit finds for a command's own model on its own GPUs, as a change of that command.
#
# For commands that no one, two or three flags make fit: the advice then has fit's flags, planned with the user's own.
# Weights that are larger than the GPUs are answered by a smaller checkpoint; the levers name those that are offloaded.

_RANK = 20  # dearer than any set of three flags, whose ranks add up to less
_LAYOUT = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")


def context_asked(deployment: Deployment) -> int:
    """What the command says of its context in tokens; 0 where it says none, or fit does not search its engine."""
    if not fills(engine_of(deployment), "fit_knobs"):
        return 0
    length = deployment.flags.get(knobs_of(deployment).context)
    return length if isinstance(length, int) and not isinstance(length, bool) and length > 0 else 0


def change_by_fit(plan: Plan) -> Change | None:
    """None where fit has nothing for this model on these GPUs, or does not search this engine. Another checkpoint of
    the model counts; weights in host memory do where the command's own context is had no other way and people can read
    along: elsewhere the levers name those."""
    deployment = plan.deployment
    engine_terms = engine_of(deployment).terms
    if not fills(engine_of(deployment), "fit_knobs"):
        return None
    engine = f"{deployment.engine.name}=={deployment.engine.version}"
    want = Want(context_asked(deployment))
    try:
        answer = pick_for(deployment.model, deployment.gpus, want, engine, offload=want.context > 0, headless=True)
    except OomphError:
        return None
    if answer is None or (answer.point.arm.offload_gib and not answer.reads_well):
        return None
    flags: dict[str, Any] = {
        name: value for name, value in answer.plan.deployment.flags.items() if deployment.flags.get(name) != value
    }
    model = answer.point.arm.model if answer.point.arm.model != plan.model else ""
    if model:
        dropped = ("quantization", "load_format", "dtype")
        flags |= {name: None for name in dropped if name in deployment.flags and name not in flags}
    divided = [name for name in _LAYOUT if deployment.flags.get(name, 1) != 1]
    if plan.verdict.refusal:  # one of its flags is what the engine refuses
        divided = list(engine_of(deployment).memory_flags(deployment))
    flags |= {name: None for name in divided if name not in answer.plan.deployment.flags}
    moves = tuple(term for term in engine_terms if term != "context")
    kind: Kind = "checkpoint" if model else "flag"
    label = " ".join(filter(None, (model, _label(deployment, flags))))
    download = f"a download of {gib(load_once(model).nbytes)}" if model and not is_local(model) else ""
    losses = (download, *gives_up(answer.point), _rate_words(answer))
    cost = "; ".join(filter(None, losses)) or "what fit picks on these GPUs"
    return Change("fit", label, kind, flags, model=model, cost=cost, rank=_RANK + len(flags), moves=moves)


def change_of_engine(plan: Plan) -> Change | None:
    """The first engine with another file of the model, where those that read its checkpoint do not have it; on the GPUs
    that there are, or on a node of the same card."""
    own = plan.deployment.gpus
    engines = [
        engine for engine in all_engines() if engine.layout != "ranks" and engine.name != plan.deployment.engine.name
    ]
    for gpus in dict.fromkeys((own, own[:1] * max(8, len(own)))):
        for engine in engines:
            try:
                offer = Places(plan.model or plan.deployment.model, gpus, Want(0), engine, run).best()[0]
            except OomphError:
                continue
            if offer.plan is None or offer.why:
                continue
            file = offer.plan.deployment
            more = f"on {len(gpus)} x {gpus[0].name} instead of {len(own)}" if gpus != own else ""
            cost = "; ".join(filter(None, ("another engine and file", more, *offer.gives_up)))
            return Change(
                "engine", f"{engine.title}: {' '.join(map(quote, offer.words))}", "release", file.flags,
                file.environment, model=file.model, version=file.engine.version, engine=engine.name, cost=cost,
                gpus=gpus if gpus != own else (), rank=_RANK,
            )  # fmt: skip
    return None


def _rate_words(answer: Best) -> str:
    """Where weights are read over the link, what that leaves of the speed."""
    rate = rate_of(answer.speed) if answer.point.arm.offload_gib else None
    return slow(answer.speed) or (f"about {rate:.2g} tokens/s per user" if rate is not None else "")


def _label(deployment: Deployment, flags: dict[str, Any]) -> str:
    """The flags as they are typed."""
    bare = to_command(replace(deployment, flags={}))
    words = to_command(replace(deployment, flags={name: value for name, value in flags.items() if value is not None}))
    without = [f"without --{name.replace('_', '-')}" for name, value in flags.items() if value is None]
    return " ".join([*(quote(word) for word in words[len(bare) :]), *without])
