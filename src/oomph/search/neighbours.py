"""Why not: what stands one step from the pick, and the checkpoints that are no part of the answer."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.search.request import Arm, Refused, Spaces, context_grid
from oomph.search.solve import Point, Solver
from oomph.text.tables import all_that_hold
from oomph.units import gib

SAME = "fits too, and is not better"
WHERE = {
    "startup_free_memory": "refused at the start, too little is free",
    "weights_load": "out of memory loading the weights",
    "profile_run": "out of memory in the profiling run",
    "cudagraph_profile": "out of memory profiling CUDA graphs",
    "kv_check": "too little left for one request",
    "kv_alloc": "out of memory allocating the KV cache",
    "cudagraph_capture": "out of memory capturing CUDA graphs",
    "sampler_warmup": "out of memory warming up the sampler",
    "runtime_request": "out of memory while serving",
    "host_ram": "out of host memory",
    "other": "refused",
}


class Neighbour(Struct, frozen=True):
    """One step away from the pick, and why it is not the pick."""

    change: str
    why: str


def neighbours(solver: Solver, point: Point, spaces: Spaces) -> list[Neighbour]:
    """One step in every direction."""
    knobs = solver.knobs
    longest, requests, share = (f"--{k.replace('_', '-')}" for k in (knobs.context, knobs.users, knobs.share))
    steps = [
        (f"{longest} {context}", context, point.users, point.utilisation, point.arm)
        for context in _next(spaces.longest, point.context)
    ]
    steps.extend(
        (f"{requests} {n}", point.context, n, point.utilisation, point.arm)
        for n in dict.fromkeys((point.users + 1, 2 * point.users))
    )
    up = round(point.utilisation + 0.01, 2)
    if point.utilisation and up < 1:
        steps.append((f"{share} {up}", point.context, point.users, up, point.arm))
    for label, arm in _without(point.arm):
        steps.append((label, point.context, point.users, point.utilisation, arm))
    steps.extend(
        (name, point.context, point.users, point.utilisation, replace(point.arm, model=name))
        for name in spaces.models
        if name != point.arm.model
    )
    out = []
    for label, context, users, utilisation, arm in steps:
        why = reason(solver, arm, context, users, utilisation)
        if why == SAME and arm == point.arm and (context > point.context or users > point.users):
            why = "fits too: more than was asked for"
        out.append(Neighbour(label, why))
    return out


def reason(solver: Solver, arm: Arm, context: int, users: int, utilisation: float) -> str:
    outcome = solver.outcome(arm, context, users, utilisation)
    if outcome.plan is None:
        return outcome.error
    verdict = outcome.plan.verdict
    if not verdict.fits:
        return (
            verdict.message
            if verdict.stage == "other"
            else f"{WHERE[verdict.stage or 'other']}: {gib(verdict.short_bytes)} short"
        )
    if outcome.kind != "ok":
        return "fits only without the margin: the uncertain terms could tip it"
    if outcome.concurrency < users:
        return f"room for {int(outcome.concurrency)} requests of {context:,} tokens, not {users}"
    return SAME


def _next(longest: int, context: int) -> list[int]:
    grid = context_grid(longest)
    return [c for c in grid if c > context][:1] + [c for c in (2 * context,) if c <= longest]


def _without(arm: Arm) -> list[tuple[str, Arm]]:
    """The pick with one of its flags left out."""
    return all_that_hold(
        (arm.kv_dtype != "auto", ("without --kv-cache-dtype", replace(arm, kv_dtype="auto"))),
        (arm.eager, ("without --enforce-eager", replace(arm, eager=False))),
        (arm.few_graphs, ("without --max-cudagraph-capture-size", replace(arm, few_graphs=False))),
        (arm.text_only, ("without --language-model-only", replace(arm, text_only=False))),
        (arm.drafts, ("without MTP", replace(arm, drafts=0))),
        (arm.prefix_off, ("with prefix caching", replace(arm, prefix_off=False))),
        (arm.tokens, ("without --max-num-batched-tokens", replace(arm, tokens=0))),
    )


def why_not(solver: Solver, spaces: Spaces, shown: Sequence[Point]) -> list[Refused]:
    """Checkpoints that are not on the front: too large, refused by the engine, or beaten."""
    used = {p.arm.model for p in shown}
    out = []
    for name in spaces.models:
        if name in used:
            continue
        if name in spaces.too_large:
            out.append(Refused(name, f"its weights are {gib(spaces.too_large[name])} more than all GPUs have"))
            continue
        space = spaces.space(min(spaces.want.context, spaces.longest), spaces.want.users)
        arms = [a for a in spaces.arms if a.model == name]
        frugal_first = solver.open_arms(replace(space, arms=tuple(reversed(arms))))
        if any(solver.possible(arm, space) for arm in frugal_first):
            out.append(Refused(name, "fits, but another checkpoint is at least as good in everything"))
        elif arms:
            arm = min(arms, key=lambda a: (-a.layout.gpus, a.changes))
            out.append(Refused(name, reason(solver, arm, space.contexts[0], space.users[0], solver.default)))
    return out
