"""fit(): which checkpoint, layout and flags serve a model best on these GPUs."""

import math
from collections.abc import Sequence

from msgspec.structs import replace

from oomph.engines.protocol import fills
from oomph.engines.registry import FILES, engine_named, engine_of
from oomph.errors import CommandError, NoKernels, OomphError
from oomph.ir import Deployment, Device, Model
from oomph.ir.objective import PREFERENCES, Objective
from oomph.search import score
from oomph.search.best import Best, BestFirst, objective_of, plan_speed
from oomph.search.longer import Longer, longer_context
from oomph.search.neighbours import neighbours, why_not
from oomph.search.placed import fit_placed
from oomph.search.request import Arm, Space, Spaces, Want, base_of, context_grid, engine_name, models_of
from oomph.search.result import Configuration as Configuration, Fit as Fit
from oomph.search.screen import SCREEN, more_of_the_machine, with_screen
from oomph.search.solve import Planner, Point, Progress, Solver, pareto
from oomph.sources import place
from oomph.text.tables import all_that_hold
from oomph.units import gib

_NODE = 8
_SMALL = 48  # arms of a space that is searched whole


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
    headless: bool = False,
    planner: Planner | None = None,
    progress: Progress | None = None,
) -> Fit:
    """`gpu` (or `gpus`): as --gpu takes them, or Devices. `want`, or its parts. `only`: this checkpoint and no other of
    the same model; `also`: further checkpoints, from catalogue, hub or folder. `headless`: no card drives a screen.
    `progress` is told what is tried; with it, Ctrl-C ends the search with the best so far."""
    from oomph.answers.bare_plan import run
    from oomph.sources.gpu import parse_gpus

    gpus = gpus or gpu
    headless = headless or gpus == "auto"  # what is in use was read off the machine
    gpus = parse_gpus(gpus) if isinstance(gpus, str) else tuple(gpus)
    want = want or Want(context, users, prefer)
    if want.prefer and want.prefer not in PREFERENCES:
        raise CommandError(f"--prefer {want.prefer!r}: it is one of {', '.join(PREFERENCES)}")
    if not gpus:
        raise CommandError("no GPU to fit on", hint='--gpu "2x RTX 5070 Ti"')
    engine = engine or (FILES if place.is_gguf_file(model) else "")
    if not fills(engine_named(engine_name(engine)), "fit_knobs"):
        return fit_placed(model, gpus, want, engine, planner or run, headless=headless, progress=progress)
    try:
        base, notes = base_of(model, gpus, engine)
    except NoKernels as refusal:
        if engine or want != Want(want.context, want.users):
            raise
        return _with_files(refusal, model, gpus, want, planner or run, headless=headless, progress=progress)
    models, refused = models_of(base, only, also)
    solver, spaces = _prepared(base, models, gpus, want, planner or run, headless=headless)
    solver.progress = progress
    objective = objective_of(spaces)
    best = BestFirst(solver, spaces, objective).best()
    nearest = [] if best is not None else _nearest(solver, spaces)
    close = best is None and _is_close(solver, spaces, objective)
    shown = _rows(solver, spaces, best) if best is not None else pareto([one.point for one in nearest])
    pick = best or _nearer(nearest, want)
    notes = (*notes, *_notes(solver, pick, gpus, only=only))
    if pick is not None and len({device.node for device in gpus}) > 1:
        notes = (*notes, *_replicas(model, gpus, want, engine, only, also, planner))
    shown = [_limited(point) for point in shown]
    points = [pick.point, *(p for p in shown if not _same(p, pick.point))] if pick is not None else shown
    answers = _answers(solver, points, models, want.users or 1)
    answer = next((a for a in answers if pick is not None and a.point == pick.point), None)
    answers.sort(key=lambda a: tuple(-goal for goal in a.point.goals))
    refused += [] if solver.stopped else why_not(solver, spaces, points)
    met = best is not None
    return Fit(
        model=next(iter(models)),
        gpus=gpus,
        want=want,
        engine=engine_of(base).title,
        met=met,
        close=close,
        pick=answer,
        front=tuple(answers) if met else (),
        nearest=tuple(answers) if not met else (),
        neighbours=tuple(neighbours(solver, answer.point, spaces)) if answer is not None and explain else (),
        refused=tuple(refused),
        refusal=solver.refusal,
        plans=solver.plans,
        notes=notes,
        objective=objective.line,
        measure=objective.short,
        longest=spaces.longest,
        longer=_longer(solver, spaces, pick),
    )


def _with_files(
    refusal: NoKernels, model: str, gpus: tuple[Device, ...], want: Want, planner: Planner, *, headless: bool,
    progress: Progress | None,
) -> Fit:  # fmt: skip
    """Where nobody names an engine and the usual one has no kernels for these cards: with files, as people do there."""
    try:
        answer = fit_placed(model, gpus, want, FILES, planner, headless=headless, progress=progress)
    except OomphError:
        raise refusal from None
    if answer.pick is None:
        raise refusal
    return replace(answer, notes=(f"{refusal.message}: {answer.engine} was asked", *answer.notes))


def pick_for(
    model: str, gpus: tuple[Device, ...], want: Want, engine: str, *, offload: bool = True, headless: bool = False
) -> Best | None:
    """What fit picks; None where nothing meets the request, however near it comes."""
    from oomph.answers.bare_plan import run

    base, _ = base_of(model, gpus, engine)
    models, _ = models_of(base, False, ())
    solver, spaces = _prepared(base, models, gpus, want, run, headless=headless)
    return BestFirst(solver, spaces, objective_of(spaces)).best(offload=offload)


def pick_or_nearest(
    model: str, gpus: tuple[Device, ...], want: Want, engine: str, *, headless: bool
) -> tuple[Best | None, Best | None]:
    """What fit picks; where nothing meets the request, None and what it prints instead."""
    from oomph.answers.bare_plan import run

    base, _ = base_of(model, gpus, engine)
    models, _ = models_of(base, False, ())
    solver, spaces = _prepared(base, models, gpus, want, run, headless=headless)
    best = BestFirst(solver, spaces, objective_of(spaces)).best()
    return best, None if best is not None else _nearer(_nearest(solver, spaces), want)


def _prepared(
    base: Deployment,
    models: dict[str, Model],
    gpus: tuple[Device, ...],
    want: Want,
    planner: Planner,
    *,
    headless: bool,
) -> tuple[Solver, Spaces]:
    cards = with_screen(gpus, headless=headless)
    base = replace(base, gpus=cards)
    spaces = Spaces(models, cards, want, base)
    solver = Solver(base, models, planner, spaces.default)
    solver.empty_gpus = gpus
    return solver, spaces


def _longer(solver: Solver, spaces: Spaces, pick: Best | None) -> Longer | None:
    if pick is None or spaces.want.context <= spaces.longest:
        return None
    return longer_context(
        pick.plan.deployment, spaces.models[pick.point.arm.model], spaces.want.context, solver.planner
    )


def _is_close(solver: Solver, spaces: Spaces, objective: Objective) -> bool:
    """Whether what is asked for fits where every uncertain term is as expected."""
    solver.keep_margin(False)
    close = BestFirst(solver, spaces, objective).best(offload=False)
    solver.keep_margin(True)
    return close is not None


def _notes(solver: Solver, pick: Best | None, gpus: tuple[Device, ...], *, only: bool) -> tuple[str, ...]:
    notes = all_that_hold(
        (solver.refusal, "oomph plan of the command names what mends a refusal, where something does"),
        (solver.stopped, "stopped before every checkpoint and layout was tried: this is the best so far"),
        (pick is not None and pick.point.arm.layout.gpus > _NODE, "more GPUs than one node has: --emit lws"),
        (
            not only
            and _is_short(solver, pick)
            and not any("4" in score.precision(model) for model in solver.models.values()),
            "the catalogue knows no checkpoint of it in 4 bits: --also CHECKPOINT searches one of the hub, or a folder",
        ),
        (_is_short(solver, pick) and more_of_the_machine(gpus), more_of_the_machine(gpus)),
        (
            _is_short(solver, pick),
            "engines that place layers compute on the CPU what the GPUs do not hold, instead of reading it over the "
            "link in every step: oomph compare has their files and speeds",
        ),
        (
            pick is not None and pick.point.arm.empty,
            f"the card must be empty: {gib(SCREEN)} for a screen on it are not left",
        ),
        (
            pick is not None and not pick.point.arm.empty and solver.base.gpus != gpus,
            f"{gib(SCREEN)} of the first card are kept free for a screen; --headless uses them",
        ),
    )
    return tuple(notes)


def _is_short(solver: Solver, pick: Best | None) -> bool:
    """Whether the GPUs are too small for what was asked."""
    return bool(pick.point.arm.offload_gib) if pick is not None else not solver.refusal


def _same(first: Point, second: Point) -> bool:
    """The same but for a limit of requests that nobody needs."""
    one, two = (replace(point.arm, unlimited=False, limit=0, empty=False) for point in (first, second))
    return one == two and first.context == second.context


def _limited(point: Point) -> Point:
    """With the limit of requests that its command sets, in its words: a row of the front has no more than its users."""
    is_set = not point.arm.unlimited and not point.limit
    return replace(point, limit=max(point.users, point.arm.limit)) if is_set else point


def _rows(solver: Solver, spaces: Spaces, best: Best) -> list[Point]:
    """What stands beside the pick: nothing is better in every respect."""
    want = spaces.want
    if best.point.arm.offload_gib or solver.stopped:
        return []
    space = spaces.space(want.context, want.users)
    grid = [c for c in context_grid(spaces.longest, want.context) if c >= space.contexts[0]]
    return _front(solver, space, grid, best.point)


def _front(solver: Solver, space: Space, grid: Sequence[int], pick: Point) -> list[Point]:
    """Of a small space the whole front. Of a large one first every checkpoint and layout without the flags that change
    little, at the shortest context, one between and the longest; then each of those flags for the pick. Where nothing
    fits without them, the whole space again: there little is left of it."""
    if len(space.arms) <= _SMALL:
        return solver.front(space, grid=grid)
    contexts = tuple(dict.fromkeys(space.contexts[place] for place in (0, len(space.contexts) // 2, -1)))
    plain = _plain_arms(solver, space)
    first = solver.front(replace(space, arms=plain, contexts=contexts), grid=grid) if plain else []
    if not first:
        return solver.front(space, grid=grid)
    if solver.stopped:
        return first
    opened = tuple(arm for arm in space.arms if _place(arm) == _place(pick.arm) and _small_flags(arm) == 1)
    return pareto([*first, *solver.front(replace(space, arms=opened, contexts=contexts), grid=grid)])


def _plain_arms(solver: Solver, space: Space) -> tuple[Arm, ...]:
    """Over most GPUs, without the flags that change little, without pipeline stages where tensor parallelism splits the
    KV heads, and one of the checkpoints whose weights are alike."""
    alike: dict[tuple[str, int], str] = {}
    for name, model in solver.models.items():
        alike.setdefault((score.precision(model), round(50 * math.log(max(model.nbytes, 1)))), name)
    arms, most = set(alike.values()), max(arm.layout.gpus for arm in space.arms)
    out = []
    for arm in space.arms:
        heads = solver.models[arm.model].num_kv_heads
        if arm.layout.gpus < most or (arm.layout.pp > 1 and heads >= arm.layout.gpus):
            continue
        if arm.model in arms and not _small_flags(arm):
            out.append(arm)
    return tuple(out)


def _place(arm: Arm) -> tuple[str, int, int]:
    return arm.model, arm.layout.tp, arm.layout.pp


def _small_flags(arm: Arm) -> int:
    """Flags that change little where there is room: expert parallelism (the experts are divided either way), fewer or
    no graphs, drafts, no images, no prefix caching, fewer tokens in a step."""
    flags = (arm.layout.ep, arm.eager, arm.few_graphs, arm.drafts > 0, arm.text_only, arm.prefix_off, arm.tokens > 0)
    return sum(flags)


def _nearest(solver: Solver, spaces: Spaces) -> list[Best]:
    """The longest context for the users asked, the most users of the context asked, and what one user gets. What was
    asked for is what is compared: a checkpoint that comes nearer is the better one."""
    want = spaces.want
    own = replace(want, context=min(want.context, spaces.longest), prefer="")
    tries = [own] if want.context > spaces.longest else []
    tries += [replace(own, users=0, prefer="users")] if want.users > 1 else []
    tries += [replace(own, context=0, prefer="context")] if want.context else []
    tries += [replace(own, context=0, users=0, prefer="context")]
    out: list[Best] = []
    for wish in tries:
        if out and not (wish.context or wish.users):
            break  # what one user gets at all is asked only where nothing else is there
        near = replace_want(spaces, wish)
        best = BestFirst(solver, near, objective_of(near, named=False)).best(offload=False)
        if best is not None:
            out.append(best)
            if wish == own:
                break
    return out


def replace_want(spaces: Spaces, want: Want) -> Spaces:
    return Spaces(spaces.models, spaces.gpus, want, spaces.base, least=2048)


def _nearer(nearest: Sequence[Best], want: Want) -> Best | None:
    """By how much of what was asked for is there: of the context, and of the users."""

    def part(best: Best) -> float:
        point = best.point
        context = min(1.0, point.context / want.context) if want.context else 1.0
        return context * (min(1.0, point.users / want.users) if want.users else 1.0)

    return max(nearest, key=part, default=None)


def _answers(solver: Solver, points: Sequence[Point], models: dict[str, Model], users: int) -> list[Configuration]:
    """`users`: whose speed is told."""
    out = []
    for point in points:
        outcome = solver.outcome(point.arm, point.context, point.limit or point.users, point.utilisation)
        if outcome.kind != "ok" or outcome.plan is None:
            continue
        out.append(
            Configuration(
                point,
                outcome.plan,
                0.0,
                gives_up(point),
                score.precision(models[point.arm.model]),
                describe(point, solver.default),
            )
        )
    if not out:
        return out
    timed = [replace(answer, speed=plan_speed(answer.plan, models[answer.point.arm.model], users)) for answer in out]
    seconds = [_request_seconds(answer, models[answer.point.arm.model]) for answer in timed]
    best = min(seconds)
    return [replace(a, relative_speed=round(best / s, 2)) for a, s in zip(timed, seconds, strict=True)]


def _request_seconds(answer: Configuration, model: Model) -> float:
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
            (arm.online, f"weights in {arm.online.upper()}, quantised while they load"),
            (arm.offload_gib, f"{arm.offload_gib} GiB of weights in host memory, read in every step"),
            (point.limit, f"at most {point.limit} request{'s' * (point.limit > 1)} at once"),
            (arm.empty, "no screen on the card"),
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
