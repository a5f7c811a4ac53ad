"""The functions of the Python API that put parts together: what_if, diff, gpus, pack, learn, simulate.

The others (plan, explain, inspect, fit, compare) are where their work is done. A command of the same name prints what
the function returns.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from msgspec.structs import replace

from oomph.answers.plan import parse, plan, try_changes, with_gpus
from oomph.errors import CannotPlan, CommandError
from oomph.ir import Deployment, Device, GpuList

if TYPE_CHECKING:
    from oomph.advice.what_if import WhatIf
    from oomph.answers.diff import Change, Diff
    from oomph.machine.learn.start import Start
    from oomph.pack.fill import Progress
    from oomph.pack.pack import Packed
    from oomph.search.cards import Cards
    from oomph.simulate.build import Setup
    from oomph.simulate.search import Answer, Target

Command = str | Sequence[str] | Deployment


def what_if(command: Command, *, gpu: object = None, engine: str = "") -> "WhatIf":
    """What each flag would do to a command, alone, planned.

    `gpu`: as --gpu takes it; None is the GPUs of this machine. `engine`: a release such as "vllm==0.21.0".
    """
    table = try_changes(plan(command, gpu=gpu, engine=engine, advise=False))
    if not table.rows:
        raise CannotPlan(
            "there is nothing to try: the engine refuses this command before it reads any memory flag",
            hint="oomph plan says why",
        )
    return table


def diff(
    command: Command,
    *,
    gpu: object = None,
    before: str = "",
    after: str = "",
    to_gpu: object = None,
    flags: str | Sequence[str] = (),
    to_model: str = "",
    users: str = "",
) -> "Diff":
    """What changes between two releases, flag sets, GPUs or models.

    `before`, `after`: releases such as "vllm==0.21.0". `flags`: those to add or change on the second side. `users`:
    "PROMPT,OUTPUT" also simulates how many users each side holds.
    """
    from oomph.answers.diff import diff as compare_plans
    from oomph.commands.call import choose_release
    from oomph.engines.registry import engine_of

    first = with_gpus(command if isinstance(command, Deployment) else parse(command, before), gpu)
    second = with_gpus(_with_flags(first, flags), to_gpu or gpu)
    lost: tuple[str, ...] = ()
    if after:
        engine = engine_of(second)
        second, lost = engine.at_release(second, choose_release(engine, after)[0].version)
    if to_model:
        second = replace(second, model=to_model)
    difference = compare_plans(first, second, lost)
    if users:
        difference = replace(difference, changes=(*difference.changes, *_users_held(first, second, users)))
    return difference


def _with_flags(first: Deployment, flags: str | Sequence[str]) -> Deployment:
    """The same command with further flags behind it, wherever it was read from."""
    from oomph.commands import parse_command, to_command
    from oomph.text.nesting import shell_words

    try:
        more = shell_words(flags) if isinstance(flags, str) else list(flags)
    except ValueError as bad:
        raise CommandError(f"--with {flags!r}: {bad}") from None
    if not more:
        return first
    if first.usage == "llm":
        raise CommandError("--with adds flags to a command line; this one is Python", hint="change the call itself")
    second = parse_command([*to_command(first), *more], engine=first.engine)
    return replace(second, gpus=first.gpus, gpu_count=first.gpu_count, notes=(*first.notes, *second.notes))


def _users_held(first: Deployment, second: Deployment, load: str) -> "tuple[Change, ...]":
    """How many users each side holds (P95 of the first token within 2 s, no preemption)."""
    from oomph.answers.diff import Change
    from oomph.simulate import api
    from oomph.simulate.workloads import Arrivals, Shape
    from oomph.units import parse_count

    prompt, _, output = load.partition(",")
    shape = Shape(parse_count(prompt, what="--users"), parse_count(output or "250", what="--users"))

    def held(deployment: Deployment) -> int:
        return api.search(api.prepare(deployment), api.Load(shape, Arrivals()), api.Target()).users

    return (Change("users_held", held(first), held(second)),)


@overload
def gpus() -> GpuList: ...


@overload
def gpus(
    model: str,
    *,
    context: int = 0,
    users: int = 0,
    engine: str = "",
    only: bool = False,
    text_only: bool = False,
    prices: Mapping[str, float] | None = None,
    cards: Sequence[str] = (),
    most: int = 12,
    sort: str = "",
    everything: bool = False,
) -> "Cards": ...


def gpus(
    model: str = "",
    *,
    context: int = 0,
    users: int = 0,
    engine: str = "",
    only: bool = False,
    text_only: bool = False,
    prices: Mapping[str, float] | None = None,
    cards: Sequence[str] = (),
    most: int = 12,
    sort: str = "",
    everything: bool = False,
) -> "Cards | GpuList":
    """Which cards, and how many, a model needs; without a model, the GPUs that oomph knows.

    `context`, `users`: what must fit (8192 tokens and 1 user where nothing is said). `only`: this checkpoint and no
    other of the same model. `text_only`: images may be given up. `prices`: of one card by name. `cards`: these only.
    `most`: how many rows, 0 for all. `sort`: price, speed or memory. `everything`: legacy and modified cards too.
    """
    if not model:
        from oomph.facts.gpus import rows

        return GpuList(tuple(row.device() for row in rows()))
    from oomph.search.cards import cards as search_cards
    from oomph.search.request import Options, Want

    want = Want(context, users, "", Options(text_only=(False, True) if text_only else (False,)))
    return search_cards(
        model, want, engine=engine, only=only, prices=prices, names=cards, most=most, sort=sort, everything=everything
    )


def pack(
    services: str | Sequence[str] | Mapping[str, Deployment],
    *,
    gpu: str | Sequence[Device] = "auto",
    engine: str = "",
    ram: int | str = 0,
    asleep: Sequence[str] = (),
    solver: str = "",
    progress: "Progress | None" = None,
) -> "Packed":
    """Several services on one machine: together, on which card, in which order, with which share.

    `services`: files (compose, llama-swap), serve commands, or deployments by name. `ram`: host memory, "128GB"; 0: not
    said. `asleep`: those that sleep while the others run. `solver`: "cp-sat" or "plain"; the best there is by default.
    `progress` is told what is tried; with it, Ctrl-C ends the search with the best so far.
    """
    from oomph.pack.pack import pack as place
    from oomph.pack.read import read_services
    from oomph.pack.swap import pack_each
    from oomph.sources.gpu import parse_gpus
    from oomph.units import parse_ram

    notes: tuple[str, ...] = ()
    sets: tuple[tuple[str, ...], ...] = ()
    if not isinstance(services, Mapping):
        requests = read_services([services] if isinstance(services, str) else list(services), engine)
        services, notes, sets = requests.deployments, requests.notes, requests.sets
    unknown = [name for name in asleep if name not in services]
    if unknown:
        raise CommandError(f"--asleep {unknown[0][:60]!r} is none of the services: {', '.join(services)}")
    cards = parse_gpus(gpu) if isinstance(gpu, str) else tuple(gpu)
    memory = parse_ram(ram) if isinstance(ram, str) and ram else int(ram or 0)
    memory = memory or next((card.host_bytes for card in cards), 0)
    if sets:
        packed = pack_each(services, sets, cards, ram=memory, asleep=asleep, solver=solver, progress=progress)
    else:
        packed = place(services, cards, ram=memory, asleep=asleep, solver=solver, progress=progress)
    return replace(packed, notes=(*notes, *packed.notes))


def learn(log: str, *, gpu: str = "auto", engine: str = "", command: str = "", remember: bool = True) -> "Start":
    """What a start that worked measured; `remember` lets later plans of its kind on this machine count it.

    `log`: the path of its log, of vLLM's startup plan or of its /metrics. `command`: what was started, if that does not
    say.
    """
    from oomph.commands import files
    from oomph.machine.learn import place, store
    from oomph.machine.learn.start import read_metrics, read_start
    from oomph.sources.gpu import parse_gpus

    text = files.read(log)
    cards = parse_gpus(gpu)
    deployment = parse(command, engine) if command else None
    start = read_metrics(text, deployment, cards, log) if deployment is not None else None
    start = start or read_start(text, cards, deployment, log)
    if remember and not store.remember(start):
        raise CommandError(f"{place.path()} cannot be written")
    return start


def simulate(
    command: Command,
    *,
    users: int = 0,
    rate: float = 0.0,
    trace: str = "",
    sweep: str | Sequence[int] = (),
    workload: str = "fixed",
    prompt: int | None = None,
    output: int | None = None,
    requests: int = 0,
    burst: int = 1,
    think: float = 0.0,
    at_once: bool = False,
    seed: int = 0,
    ttft: float = 2.0,
    tpot: float = 0.05,
    measured: float = 0.0,
    **options: Any,
) -> "Answer":
    """What a load of requests does: `users`, or a `rate` per second, or a `trace`; several numbers with `sweep`.
    Without a load, the most users that keep the target (`ttft` and `tpot`: 95th percentiles, in seconds).

    `measured`: output tokens per second that were measured at `users`; all times are scaled to them. `options`: gpu,
    engine, given, factors, accepted, timed, as oomph.simulate.api.prepare() takes them.
    """
    from oomph.simulate import api
    from oomph.simulate.workloads import Arrivals, shape

    setup = api.prepare(command, **options)
    arrivals = Arrivals(users, rate, burst, think, at_once=at_once)
    load = api.Load(shape(workload, prompt, output), arrivals, requests, seed, trace)
    if measured:
        setup = api.calibrated(setup, load, measured)
    return answer_load(setup, load, api.Target(ttft, tpot), sweep)


def answer_load(setup: "Setup", load: Any, target: "Target", sweep: str | Sequence[int]) -> "Answer":
    """One load played and judged, several of them, or the most users that are held."""
    from oomph.simulate import api

    if sweep:
        return api.sweep(setup, load, target, api.parse_sweep(sweep) if isinstance(sweep, str) else list(sweep))
    if load.arrivals.users or load.arrivals.rate or load.trace:
        return api.judge(setup, api.spread(setup, load) if load.arrivals.users else load, target)
    return api.search(setup, load, target)


__all__ = ["Device", "GpuList", "diff", "gpus", "learn", "pack", "simulate", "what_if"]
