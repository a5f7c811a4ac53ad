"""fit(): which checkpoint, layout and flags serve a model best on these GPUs."""

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.registry import engine_of
from oomph.errors import CommandError
from oomph.ir import Deployment, Device, Model, Plan
from oomph.ir.printed import Printed
from oomph.search import score
from oomph.search.neighbours import Neighbour, neighbours, why_not
from oomph.search.outcome import judge
from oomph.search.request import Arm, Refused, Space, Spaces, Want, base_of, context_grid, models_of
from oomph.search.solve import Planner, Point, Progress, Solver, pareto
from oomph.simulate.speed import Speed, speed_of
from oomph.text.tables import all_that_hold

PREFERENCES = ("quality", "context", "users", "speed")
_BAND = 0.9  # within a tenth of the best counts as equally good in the first goal
_NODE = 8
_SMALL = 48  # arms of a space that is searched whole
_OFFLOADS = (2, 4, 8, 16, 32, 64)


class Answer(Struct, frozen=True):
    """One configuration of the front, planned."""

    point: Point
    plan: Plan
    relative_speed: float  # 1.0 = the fastest of the front
    gives_up: tuple[str, ...]
    precision: str = ""  # of most of its weights
    note: str = ""  # what tells it from the engine's defaults
    speed: Speed | None = None  # of one user and of all; None: nobody knows how fast this card is


class Fit(Printed, frozen=True):
    """What `oomph fit` prints: the configuration that serves a model best on some GPUs, and those beside it."""

    model: str
    gpus: tuple[Device, ...]
    want: Want
    engine: str  # its title
    met: bool  # the context and users asked for are there
    close: bool  # what was asked for is too close to call
    pick: Answer | None
    front: tuple[Answer, ...]
    nearest: tuple[Answer, ...] = ()  # where it is not met
    neighbours: tuple[Neighbour, ...] = ()
    refused: tuple[Refused, ...] = ()  # checkpoints that are no part of the answer
    plans: int = 0
    notes: tuple[str, ...] = ()

    def in_short(self) -> str:
        if self.pick is None:
            return f"{self.model}: nothing fits"
        point = self.pick.point
        met = "" if self.met else " (not what was asked)"
        return f"{point.arm.model}: {point.context:,} tokens, {point.users} users{met}"


def _replicas(
    model: str, gpus: tuple[Device, ...], want: Want, engine: str, only: bool, also: Sequence[str],
    planner: Planner | None,
) -> tuple[str, ...]:  # fmt: skip
    """Whether every node can serve its part of the users alone, which needs no network between nodes."""
    nodes: dict[int, list[Device]] = {}
    for device in gpus:
        nodes.setdefault(device.node, []).append(replace(device, node=0))
    first = nodes[gpus[0].node]
    if any(node != first for node in nodes.values()):
        return ()
    users = -(-want.users // len(nodes)) if want.users else 0
    alone = fit(model, first, replace(want, users=users), engine=engine, only=only, also=also, planner=planner)
    if alone.pick is None or not alone.met:
        return ()
    served = f" with {users:,} users each" if users else ""
    command = f"oomph fit {model} --gpu '{len(first)}x {first[0].name}'" + (f" --users {users}" if users else "")
    command += f" --context {want.context}" if want.context else ""
    return (f"one node holds the model: {len(nodes)} replicas{served} need no network between nodes ({command})",)


def fit(
    model: str,
    gpus: str | Sequence[Device] = (),
    want: Want | None = None,
    *,
    gpu: str | Sequence[Device] = (),
    context: int = 0,
    users: int = 0,
    prefer: str = "",
    engine: str = "",
    only: bool = False,
    also: Sequence[str] = (),
    explain: bool = False,
    planner: Planner | None = None,
    progress: Progress | None = None,
) -> Fit:
    """`gpu` (or `gpus`): as --gpu takes them, or Devices. `want`, or its parts. `only`: this checkpoint and no other of
    the same model; `also`: further checkpoints, from catalogue, hub or folder. `progress` is told what is tried; with
    it, Ctrl-C ends the search with the best so far."""
    from oomph.answers.bare_plan import run
    from oomph.sources.gpu import parse_gpus

    gpus = gpus or gpu
    gpus = parse_gpus(gpus) if isinstance(gpus, str) else tuple(gpus)
    want = want or Want(context, users, prefer)
    if want.prefer and want.prefer not in PREFERENCES:
        raise CommandError(f"--prefer {want.prefer!r}: it is one of {', '.join(PREFERENCES)}")
    if not gpus:
        raise CommandError("no GPU to fit on", hint='--gpu "2x RTX 5070 Ti"')
    base, notes = base_of(model, gpus, engine)
    models, refused = models_of(base, only, also)
    spaces = Spaces(models, gpus, want, base)
    solver = Solver(base, models, planner or run, spaces.default)
    solver.progress = progress
    front, met, close = _search(solver, spaces, want)
    front, pick = _pick(solver, spaces, front)
    if solver.stopped:
        notes = (*notes, "stopped before every checkpoint and layout was tried: this is the best so far")
    nearest = [] if met else _nearest(solver, spaces, want)
    if want.context > spaces.longest:
        notes = (*notes, f"the model itself takes {spaces.longest:,} tokens at most")
    pick = pick or choose(nearest, want)
    if pick is not None and pick.arm.layout.gpus > _NODE:
        notes = (*notes, f"{pick.arm.layout.gpus} GPUs are more than one node has: --emit lws")
    if pick is not None and len({device.node for device in gpus}) > 1:
        notes = (*notes, *_replicas(model, gpus, want, engine, only, also, planner))
    shown = front if met else nearest
    answers = _answers(solver, shown, models)
    chosen = next((a for a in answers if pick is not None and a.point == pick), None)
    refused += [] if solver.stopped else why_not(solver, spaces, shown)
    return Fit(
        model=next(iter(models)),
        gpus=gpus,
        want=want,
        engine=engine_of(base).title,
        met=met,
        close=close,
        pick=chosen,
        front=tuple(answers) if met else (),
        nearest=tuple(answers) if not met else (),
        neighbours=tuple(neighbours(solver, chosen.point, spaces)) if chosen is not None and explain else (),
        refused=tuple(refused),
        plans=solver.plans,
        notes=notes,
    )


def pick_for(model: str, gpus: tuple[Device, ...], want: Want, engine: str) -> Deployment | None:
    """What fit picks; None where nothing meets the request, however near it comes."""
    from oomph.answers.bare_plan import run

    base, _ = base_of(model, gpus, engine)
    models, _ = models_of(base, False, ())
    spaces = Spaces(models, gpus, want, base)
    solver = Solver(base, models, run, spaces.default)
    pick = _pick(solver, spaces, _search(solver, spaces, want)[0])[1]
    return solver.deployment(pick.arm, pick.context, pick.users, pick.utilisation) if pick is not None else None


def _search(solver: Solver, spaces: Spaces, want: Want) -> tuple[list[Point], bool, bool]:
    """(front, met, close). What is too close to call is no answer: weights in host memory come first."""
    space = spaces.space(want.context, want.users)
    if space.contexts[0] > spaces.longest:
        return [], False, False
    grid = [c for c in context_grid(spaces.longest, want.context) if c >= space.contexts[0]]
    front = _front(solver, space, grid, want)
    if front:
        return front, True, False
    for gib_each in _OFFLOADS:  # as little as serves
        front = solver.front(replace(space, arms=spaces.offloaded(gib_each)))
        if front:
            return front, True, False
    solver.keep_margin(False)
    close = bool(solver.front(space))
    solver.keep_margin(True)
    return [], False, close


def _front(solver: Solver, space: Space, grid: Sequence[int], want: Want) -> list[Point]:
    """Of a small space the whole front. Of a large one first every checkpoint and layout without the flags that change
    little; then each of those flags for the pick and for what serves most users. Where nothing fits without them, the
    whole space again: there little is left of it."""
    if len(space.arms) <= _SMALL:
        return solver.front(space, grid=grid)
    contexts = space.contexts[:: 3 if len(space.contexts) > 5 else 2]
    plain = _plain_arms(solver, space)
    first = solver.front(replace(space, arms=plain, contexts=contexts), grid=grid) if plain else []
    if not first:
        return solver.front(space, grid=grid)
    if solver.stopped:
        return first
    pick = choose(first, want)
    assert pick is not None
    most = max(first, key=lambda point: (point.users, point.context))
    best = {(point.arm.model, point.arm.layout) for point in (pick, most)}
    opened = tuple(arm for arm in space.arms if (arm.model, arm.layout) in best and _small_flags(arm) == 1)
    return pareto([*first, *solver.front(replace(space, arms=opened, contexts=contexts), grid=grid)])


def _plain_arms(solver: Solver, space: Space) -> tuple[Arm, ...]:
    """Without the flags that change little, without pipeline stages where tensor parallelism splits the KV heads, and
    one of the checkpoints whose weights are alike."""
    alike: dict[tuple[str, int], str] = {}
    for name, model in solver.models.items():
        alike.setdefault((score.precision(model), round(50 * math.log(max(model.nbytes, 1)))), name)
    chosen = set(alike.values())
    out = []
    for arm in space.arms:
        heads = solver.models[arm.model].num_kv_heads
        if arm.layout.pp > 1 and heads >= arm.layout.gpus:
            continue
        if arm.model in chosen and not _small_flags(arm):
            out.append(arm)
    return tuple(out)


def _small_flags(arm: Arm) -> int:
    """Flags that change little where there is room: fewer or no graphs, drafts, no images, no prefix caching, fewer
    tokens in a step."""
    return sum((arm.eager, arm.few_graphs, arm.drafts > 0, arm.text_only, arm.prefix_off, arm.tokens > 0))


def _pick(solver: Solver, spaces: Spaces, front: list[Point]) -> tuple[list[Point], Point | None]:
    """The front's contexts are doublings: the pick gets the longest that its users allow."""
    pick = choose(front, spaces.want)
    if pick is None or pick.context == spaces.want.context:
        return front, pick
    space = spaces.space(spaces.want.context, spaces.want.users, [pick.arm])
    grid = [c for c in context_grid(spaces.longest) if c > pick.context]
    longest = solver.longest(pick.arm, pick.users, space, grid)
    longer = solver.point(pick.arm, longest, pick.users, space, (pick.quality, pick.speed)) if longest else None
    return (pareto([*front, longer]), longer) if longer is not None else (front, pick)


def _nearest(solver: Solver, spaces: Spaces, want: Want) -> list[Point]:
    """The longest context for the users asked, the most users of the context asked, and what one user gets."""
    points: list[Point] = []
    low = min(2048, spaces.longest)
    if want.users > 1 and want.context <= spaces.longest:
        points += solver.front(spaces.space(want.context, 0))
    if want.context:
        space = spaces.space(low, want.users)
        grid = [c for c in context_grid(spaces.longest, want.context) if c >= low]
        points += solver.front(replace(space, contexts=(low,)), grid=grid)
    if not points and (want.users > 1 or want.context):
        space = spaces.space(low, 0)
        grid = [c for c in context_grid(spaces.longest) if c >= low]
        points = solver.front(replace(space, contexts=(low,)), grid=grid)
    return pareto(points)


def choose(points: Sequence[Point], want: Want) -> Point | None:
    """The first goal within a tenth of the best, then the others in turn."""
    if not points:
        return None
    prefer = want.prefer or "quality"
    close = list(points)
    if prefer in ("context", "users"):
        best = max(getattr(p, prefer) for p in close)
        close = [p for p in close if getattr(p, prefer) >= _BAND * best]
    elif prefer == "speed":
        best = max(p.speed for p in close)
        close = [p for p in close if p.speed >= best - 1]
    return max(close, key=lambda p: _order(p, want))


def _order(point: Point, want: Want) -> tuple[float, ...]:
    """The checkpoint first; then what no number weighs; then speed, and what was not asked for. An 8-bit KV cache is
    too small a loss to give up CUDA graphs for, and large enough not to be taken where the context is long anyway."""
    first = (-int(2 * point.quality), not point.arm.text_only, not point.arm.prefix_off, point.speed)
    if want.context and want.users:
        rest: tuple[float, ...] = (-point.quality, point.context * point.users)
    elif want.context:
        rest = (point.users, point.context, -point.quality)
    else:
        rest = (point.context, point.users, -point.quality)
    return (*first, *rest, -point.arm.changes)


def _answers(solver: Solver, points: Sequence[Point], models: dict[str, Model]) -> list[Answer]:
    out = []
    for point in points:
        plan = solver.planner(
            solver.deployment(point.arm, point.context, point.users, point.utilisation), models[point.arm.model]
        )
        if judge(plan, margin=solver.margin).kind != "ok":
            continue
        out.append(
            Answer(
                point,
                plan,
                0.0,
                gives_up(point),
                score.precision(models[point.arm.model]),
                describe(point, solver.default),
            )
        )
    if not out:
        return out
    timed = [replace(answer, speed=_speed(answer, models[answer.point.arm.model])) for answer in out]
    seconds = [_request_seconds(answer, models[answer.point.arm.model]) for answer in timed]
    best = min(seconds)
    return [replace(a, relative_speed=round(best / s, 2)) for a, s in zip(timed, seconds, strict=True)]


def _speed(answer: Answer, model: Model) -> Speed | None:
    timing = engine_of(answer.plan.deployment).timing(answer.plan, model)
    return speed_of(timing, answer.point.users) if timing is not None else None


def _request_seconds(answer: Answer, model: Model) -> float:
    """Of the reference request, alone: by the time model of simulate, or the roofline where it has no answer."""
    if answer.speed is None:
        return score.request_seconds(model, answer.point.arm, answer.plan)
    return answer.speed.first_token_seconds + score.ANSWER / answer.speed.one_user


def gives_up(point: Point) -> tuple[str, ...]:
    arm = point.arm
    return tuple(
        all_that_hold(
            (arm.text_only, "no images, video or audio"),
            (arm.kv_dtype != "auto", "KV cache in 8 bits"),
            (arm.eager, "no CUDA graphs"),
            (arm.few_graphs, "CUDA graphs for small batches only"),
            (arm.prefix_off, "no prefix caching"),
            (arm.tokens, f"prompts in steps of {arm.tokens:,} tokens"),
            (arm.offload_gib, f"{arm.offload_gib} GiB of weights over PCIe in every step"),
        )
    )


def describe(point: Point, default: float) -> str:
    """What tells it from the engine's defaults, shortly."""
    arm = point.arm
    layout = all_that_hold(
        (arm.layout.gpus > 1, f"TP {arm.layout.tp}" + (f" PP {arm.layout.pp}" if arm.layout.pp > 1 else "")),
        (arm.layout.ep, "EP"),
        (arm.drafts, f"MTP {arm.drafts}"),
    )
    share = all_that_hold((point.utilisation != default, f"utilisation {point.utilisation}"))
    return ", ".join((*layout, *gives_up(point), *share))
