"""Why not: what stands one step from the pick, and the checkpoints that are no part of the answer."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.search.request import Refused, Spaces
from oomph.search.solve import Point, Solver
from oomph.search.space import Arm, context_grid
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


def neighbours(solver: Solver, p: Point, spaces: Spaces) -> list[Neighbour]:
    """One step in every direction."""
    steps = [(f"--max-model-len {c}", c, p.users, p.utilisation, p.arm) for c in _next(spaces.longest, p.context)]
    for n in dict.fromkeys((p.users + 1, 2 * p.users)):
        steps.append((f"--max-num-seqs {n}", p.context, n, p.utilisation, p.arm))
    up = round(p.utilisation + 0.01, 2)
    if up < 1:
        steps.append((f"--gpu-memory-utilization {up}", p.context, p.users, up, p.arm))
    for label, arm in _without(p.arm):
        steps.append((label, p.context, p.users, p.utilisation, arm))
    for name in spaces.models:
        if name != p.arm.model:
            steps.append((name, p.context, p.users, p.utilisation, replace(p.arm, model=name)))
    out = []
    for label, context, users, utilisation, arm in steps:
        why = reason(solver, arm, context, users, utilisation)
        if why == SAME and arm == p.arm and (context > p.context or users > p.users):
            why = "fits too: more than was asked for"
        out.append(Neighbour(label, why))
    return out


def reason(solver: Solver, arm: Arm, context: int, users: int, utilisation: float) -> str:
    found = solver.outcome(arm, context, users, utilisation)
    if found.plan is None:
        return found.error
    v = found.plan.verdict
    if not v.fits:
        return v.message if v.stage == "other" else f"{WHERE[v.stage or 'other']}: {gib(v.short_bytes)} short"
    if found.kind != "ok":
        return "fits only without the margin: the uncertain terms could tip it"
    if found.concurrency < users:
        return f"room for {int(found.concurrency)} requests of {context:,} tokens, not {users}"
    return SAME


def _next(longest: int, context: int) -> list[int]:
    grid = context_grid(longest)
    return [c for c in grid if c > context][:1] + [c for c in (2 * context,) if c <= longest]


def _without(arm: Arm) -> list[tuple[str, Arm]]:
    """The pick with one of its flags left out."""
    out = []
    if arm.kv_dtype != "auto":
        out.append(("without --kv-cache-dtype", replace(arm, kv_dtype="auto")))
    if arm.eager:
        out.append(("without --enforce-eager", replace(arm, eager=False)))
    if arm.few_graphs:
        out.append(("without --max-cudagraph-capture-size", replace(arm, few_graphs=False)))
    if arm.text_only:
        out.append(("without --language-model-only", replace(arm, text_only=False)))
    if arm.drafts:
        out.append(("without MTP", replace(arm, drafts=0)))
    if arm.prefix_off:
        out.append(("with prefix caching", replace(arm, prefix_off=False)))
    if arm.tokens:
        out.append(("without --max-num-batched-tokens", replace(arm, tokens=0)))
    return out


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
        if any(solver.fits(a, space.contexts[0], space.users[0], space) for a in arms):
            out.append(Refused(name, "fits, but another checkpoint is at least as good in everything"))
        elif arms:
            arm = min(arms, key=lambda a: (-a.layout.gpus, a.changes))
            out.append(Refused(name, reason(solver, arm, space.contexts[0], space.users[0], solver.default)))
    return out
