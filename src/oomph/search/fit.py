"""fit(): which checkpoint, layout and flags serve a model best on these GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import CannotPlan, CommandError, OomphError
from oomph.facts.vllm.defaults import defaults
from oomph.facts.vllm.flags import by_field
from oomph.ir.deployment import Deployment
from oomph.ir.hardware import Device
from oomph.ir.model import Model
from oomph.ir.plan import Plan
from oomph.search import score
from oomph.search.solve import Planner, Point, Solver, pareto
from oomph.search.space import (
    FEWER_TOKENS,
    Arm,
    Options,
    Space,
    arms_of,
    context_grid,
    context_ladder,
    is_moe,
    layouts,
    user_levels,
    utilisation_grid,
)
from oomph.units import GIB, gib

PREFERENCES = ("quality", "context", "users", "speed")
_BAND = 0.9  # within a tenth of the best counts as equally good in the first goal
_OFFLOADS = (2, 4, 8, 16, 32, 64)


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


class Want(Struct, frozen=True):
    context: int = 0  # 0 = not said
    users: int = 0
    prefer: str = ""
    options: Options = Options()


class Answer(Struct, frozen=True):
    """One configuration of the front, planned."""

    point: Point
    plan: Plan
    relative_speed: float  # 1.0 = the fastest of the front
    gives_up: tuple[str, ...]
    precision: str = ""  # of most of its weights
    note: str = ""  # what tells it from the engine's defaults


class Neighbour(Struct, frozen=True):
    """One step away from the pick, and why it is not the pick."""

    change: str
    why: str


class Refused(Struct, frozen=True):
    checkpoint: str
    why: str


class Fit(Struct, frozen=True):
    model: str
    gpus: tuple[Device, ...]
    want: Want
    met: bool  # the context and users asked for are there
    close: bool  # only without the safety margin
    pick: Answer | None
    front: tuple[Answer, ...]
    nearest: tuple[Answer, ...] = ()  # where it is not met
    neighbours: tuple[Neighbour, ...] = ()
    refused: tuple[Refused, ...] = ()  # checkpoints that are no part of the answer
    plans: int = 0
    notes: tuple[str, ...] = ()


def fit(
    model: str,
    gpus: str | Sequence[Device],
    want: Want | None = None,
    *,
    context: int = 0,
    users: int = 0,
    prefer: str = "",
    engine: str = "",
    only: bool = False,
    also: Sequence[str] = (),
    explain: bool = False,
    planner: Planner | None = None,
) -> Fit:
    """`gpus`: as --gpu takes them, or Devices. `want`, or its parts. `only`: this checkpoint and no other of the same
    model; `also`: further checkpoints, from catalogue, hub or folder."""
    from oomph.plan import run
    from oomph.sources.gpu import parse_gpus

    gpus = parse_gpus(gpus) if isinstance(gpus, str) else tuple(gpus)
    want = want or Want(context, users, prefer)
    if want.prefer and want.prefer not in PREFERENCES:
        raise CommandError(f"--prefer {want.prefer!r}: it is one of {', '.join(PREFERENCES)}")
    if not gpus:
        raise CommandError("no GPU to fit on", hint='--gpu "2x RTX 5070 Ti"')
    base, notes = base_of(model, gpus, engine)
    models, refused = models_of(base, only, also)
    spaces = Spaces(models, gpus, want, base.engine.version)
    solver = Solver(base, models, planner or run, spaces.default)
    front, met, close = _search(solver, spaces, want)
    nearest = [] if met else _nearest(solver, spaces, want)
    if want.context > spaces.longest:
        notes = (*notes, f"the model itself takes {spaces.longest:,} tokens at most")
    pick = choose(front, want) if met else choose(nearest, want)
    shown = front if met else nearest
    answers = _answers(solver, shown, models)
    chosen = next((a for a in answers if pick is not None and a.point == pick), None)
    refused += _why_not(solver, spaces, models, shown)
    return Fit(
        model=next(iter(models)),
        gpus=gpus,
        want=want,
        met=met,
        close=close,
        pick=chosen,
        front=tuple(answers) if met else (),
        nearest=tuple(answers) if not met else (),
        neighbours=tuple(neighbours(solver, chosen, spaces)) if chosen is not None and explain else (),
        refused=tuple(refused),
        plans=solver.plans,
        notes=notes,
    )


class Spaces:
    """The spaces of one request: as asked, and what is looked at where that is not met."""

    def __init__(self, models: dict[str, Model], gpus: tuple[Device, ...], want: Want, version: str) -> None:
        self.models, self.gpus, self.want, self.version = models, gpus, want, version
        self.default = defaults(version).utilization
        self.longest = max(m.max_position for m in models.values())
        self.shapes = layouts(len(gpus), moe=any(is_moe(m) for m in models.values()))
        self.too_large: dict[str, int] = {}
        self.arms = self._arms(0, want.options)
        room = _room(gpus, len(gpus))
        # what the ranks keep together is at least the checkpoint without its towers
        self.too_large = {n: _least(m) - room for n, m in models.items() if _least(m) > room}

    def _arms(self, offload: int, options: Options) -> list[Arm]:
        out: list[Arm] = []
        for name, model in self.models.items():
            fitting = [
                s
                for s in self.shapes
                if _least(model) <= _room(self.gpus, s.gpus) + offload * s.gpus * GIB and (not s.ep or is_moe(model))
            ]
            out += arms_of(name, model, fitting, options)
        known = by_field(self.version)
        return [a for a in out if known.keys() >= a.flags().keys()]

    def offloaded(self, gib_each: int) -> tuple[Arm, ...]:
        """Everything else is given up before weights are moved to the host."""
        options = replace(self.want.options, graphs=("eager",), prefix_off=(False,), tokens=(FEWER_TOKENS,))
        options = replace(options, text_only=options.text_only[-1:], drafts=options.drafts[:1])
        return tuple(replace(a, offload_gib=gib_each) for a in self._arms(gib_each, options) if not a.layout.ep)

    def space(self, context: int, users: int, arms: Sequence[Arm] | None = None) -> Space:
        return Space(
            tuple(self.arms if arms is None else arms),
            context_ladder(context, self.longest),
            tuple(n for n in user_levels(users) if n >= (users or 1)),
            utilisation_grid(self.default),
        )


def _room(gpus: tuple[Device, ...], count: int) -> int:
    return sum(g.total_bytes - g.used_bytes for g in gpus[:count])


def _least(model: Model) -> int:
    return sum(s.nbytes for s in model.stored if s.role not in ("multimodal", "other"))


def base_of(model: str, gpus: tuple[Device, ...], engine: str) -> tuple[Deployment, tuple[str, ...]]:
    from oomph.plan import parse

    base = parse(["vllm", "serve", model], engine)
    return replace(base, gpus=gpus), base.notes


def models_of(base: Deployment, only: bool, also: Sequence[str]) -> tuple[dict[str, Model], list[Refused]]:
    from oomph import catalog
    from oomph.plan import load

    first = load(base.model)
    if first.opaque or not first.layers:
        raise CannotPlan(f"the architecture of {first.name} is not known: its caches would be a guess")
    models: dict[str, Model] = {first.name: first}
    refused = []
    others = () if only else catalog.variants(first.name)
    for name in dict.fromkeys((*others, *also)):
        if name in models:
            continue
        try:
            models[name] = load(name)
        except OomphError as e:
            refused.append(Refused(name, e.message))
    return models, refused


def _search(solver: Solver, spaces: Spaces, want: Want) -> tuple[list[Point], bool, bool]:
    """(front, met, close). Offloading to the host only where nothing else serves."""
    space = spaces.space(want.context, want.users)
    if space.contexts[0] > spaces.longest:
        return [], False, False
    grid = context_grid(spaces.longest, want.context)
    front = solver.front(space, grid=[c for c in grid if c >= space.contexts[0]])
    if front:
        return front, True, False
    for gib_each in _OFFLOADS:  # as little as serves
        front = solver.front(replace(space, arms=spaces.offloaded(gib_each)))
        if front:
            return front, True, False
    solver.keep_margin(False)
    front = solver.front(space)
    if not front:
        solver.keep_margin(True)
    return front, bool(front), bool(front)


def _nearest(solver: Solver, spaces: Spaces, want: Want) -> list[Point]:
    """The longest context for the users asked, the most users of the context asked, and what one user gets."""
    found: list[Point] = []
    low = min(2048, spaces.longest)
    if want.users > 1 and want.context <= spaces.longest:
        found += solver.front(spaces.space(want.context, 0))
    if want.context:
        space = spaces.space(low, want.users)
        grid = [c for c in context_grid(spaces.longest, want.context) if c >= low]
        found += solver.front(replace(space, contexts=(low,)), grid=grid)
    if not found and (want.users > 1 or want.context):
        space = spaces.space(low, 0)
        grid = [c for c in context_grid(spaces.longest) if c >= low]
        found = solver.front(replace(space, contexts=(low,)), grid=grid)
    return pareto(found)


def choose(points: Sequence[Point], want: Want) -> Point | None:
    """The first goal within a tenth of the best, then the others in turn."""
    if not points:
        return None
    prefer = want.prefer or "quality"
    kept = list(points)
    if prefer in ("context", "users"):
        best = max(getattr(p, prefer) for p in kept)
        kept = [p for p in kept if getattr(p, prefer) >= _BAND * best]
    elif prefer == "speed":
        best = max(p.speed for p in kept)
        kept = [p for p in kept if p.speed >= best - 1]
    return max(kept, key=lambda p: _order(p, want))


def _order(p: Point, want: Want) -> tuple[float, ...]:
    """The checkpoint first; then what no number weighs; then speed, and what was not asked for. An 8-bit KV cache is
    too small a loss to give up CUDA graphs for, and large enough not to be taken where the context is long anyway."""
    first = (-int(2 * p.quality), not p.arm.text_only, not p.arm.prefix_off, p.speed)
    if want.context and want.users:
        rest: tuple[float, ...] = (-p.quality, p.context * p.users)
    elif want.context:
        rest = (p.users, p.context, -p.quality)
    else:
        rest = (p.context, p.users, -p.quality)
    return (*first, *rest, -p.arm.changes)


def _answers(solver: Solver, points: Sequence[Point], models: dict[str, Model]) -> list[Answer]:
    from oomph.search.solve import judge

    out = []
    for p in points:
        plan = solver.planner(solver.deployment(p.arm, p.context, p.users, p.utilisation), models[p.arm.model])
        if judge(plan, margin=solver.margin).kind != "ok":
            continue
        out.append(Answer(p, plan, 0.0, gives_up(p), score.precision(models[p.arm.model]), describe(p, solver.default)))
    if not out:
        return out
    seconds = [score.request_seconds(models[a.point.arm.model], a.point.arm, a.plan) for a in out]
    best = min(seconds)
    return [replace(a, relative_speed=round(best / s, 2)) for a, s in zip(out, seconds, strict=True)]


def gives_up(point: Point) -> tuple[str, ...]:
    arm, out = point.arm, []
    if arm.text_only:
        out.append("no images, video or audio")
    if arm.kv_dtype != "auto":
        out.append("KV cache in 8 bits")
    if arm.eager:
        out.append("no CUDA graphs")
    if arm.few_graphs:
        out.append("CUDA graphs for small batches only")
    if arm.prefix_off:
        out.append("no prefix caching")
    if arm.tokens:
        out.append(f"prompts in steps of {arm.tokens:,} tokens")
    if arm.offload_gib:
        out.append(f"{arm.offload_gib} GiB of weights over PCIe in every step")
    return tuple(out)


def describe(point: Point, default: float) -> str:
    """What tells it from the engine's defaults, shortly."""
    arm, out = point.arm, []
    if arm.layout.gpus > 1:
        out.append(f"TP {arm.layout.tp}" + (f" PP {arm.layout.pp}" if arm.layout.pp > 1 else ""))
    if arm.layout.ep:
        out.append("EP")
    if arm.drafts:
        out.append(f"MTP {arm.drafts}")
    out += gives_up(point)
    if point.utilisation != default:
        out.append(f"utilisation {point.utilisation}")
    return ", ".join(out)


def neighbours(solver: Solver, answer: Answer, spaces: Spaces) -> list[Neighbour]:
    """One step in every direction."""
    p = answer.point
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
    return "fits too, and is not better"


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


def _why_not(solver: Solver, spaces: Spaces, models: dict[str, Model], shown: Sequence[Point]) -> list[Refused]:
    """Checkpoints that are not on the front: too large, refused by the engine, or beaten."""
    used = {p.arm.model for p in shown}
    out = []
    for name in models:
        if name in used:
            continue
        if name in spaces.too_large:
            out.append(Refused(name, f"its weights are {gib(spaces.too_large[name])} more than all GPUs have"))
            continue
        space = spaces.space(min(spaces.want.context, spaces.longest), spaces.want.users)
        arms = [a for a in spaces.arms if a.model == name]
        fitting = [a for a in arms if solver.fits(a, space.contexts[0], space.users[0], space)]
        if fitting:
            out.append(Refused(name, "fits, but another checkpoint is at least as good in everything"))
        elif arms:
            arm = min(arms, key=lambda a: (-a.layout.gpus, a.changes))
            out.append(Refused(name, reason(solver, arm, space.contexts[0], space.users[0], solver.default)))
    return out
