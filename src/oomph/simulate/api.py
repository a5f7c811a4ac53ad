"""simulate.run(): a serve command under a load; simulate.held(): the largest load that keeps a promise.

from oomph import simulate
simulate.run("vllm serve Qwen/Qwen3-8B", gpu="RTX 4090", users=32).result.ttft.p95
simulate.held("vllm serve Qwen/Qwen3-8B", gpu="RTX 4090").users
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import CommandError
from oomph.ir.deployment import Deployment
from oomph.ir.plan import Plan
from oomph.simulate.build import UNSURE, Built, Factors, build
from oomph.simulate.loop import Loop
from oomph.simulate.result import Collector, Result
from oomph.simulate.workloads import Arrivals, Drawn, Shape, Traced, shape

PER_USER = 20  # requests of each user in a run, if nobody says how many; whole conversations, at least three
MANY = 500  # turns of all users from which on two conversations each are enough
OPEN_SECONDS = 120  # of an open load, if nobody says how many requests
MOST_USERS = 4096
BLOCKS_UP_TO = 3_000_000  # tokens of a load without shared prefixes whose blocks are followed if it preempts


class Setup(Struct, frozen=True):
    """A deployment ready to be loaded, any number of times."""

    deployment: Deployment
    plan: Plan
    built: Built
    factors: Factors
    timed: bool = True
    calibrated: bool = False


class Load(Struct, frozen=True):
    shape: Shape
    arrivals: Arrivals
    requests: int = 0  # 0: by the number of users, or by the rate
    seed: int = 0
    trace: str = ""


class Target(Struct, frozen=True):
    """What "held" means."""

    ttft: float = 2.0  # seconds, 95th percentile
    tpot: float = 0.0  # seconds, 95th percentile; 0 = not asked
    preemptions: int = 0


class Simulation(Struct, frozen=True):
    setup: Setup
    load: Load
    result: Result
    target: Target | None = None  # what it is judged by, if anything


class Held(Struct, frozen=True):
    """The most users of a closed loop that keep the target, and what breaks it beyond them."""

    setup: Setup
    load: Load
    target: Target
    users: int
    result: Result | None  # at that number
    beyond: Result | None  # at the first number that fails
    breaks: str = ""  # what fails there
    runs: int = 0
    low: int = 0  # users, if every step takes UNSURE times longer; 0 = not asked
    high: int = 0  # ... or shorter


def prepare(
    command: str | Sequence[str] | Deployment,
    *,
    gpu: object = None,
    engine: str = "",
    given: Mapping[str, int | str] | None = None,
    factors: Factors | None = None,
    accepted: float = 0.6,
    timed: bool = True,
) -> Setup:
    from oomph.plan import load, plan

    made = plan(command, gpu=gpu, engine=engine, given=given)
    chosen = factors or Factors()
    _check(chosen, accepted)
    built = build(made.deployment, load(made.deployment.model), made, chosen, accepted=accepted, timed=timed)
    return Setup(made.deployment, made, built, chosen, timed)


def _check(f: Factors, accepted: float) -> None:
    for name in ("bandwidth", "compute", "link"):
        if not 0 < getattr(f, name) <= 1.5:
            raise CommandError(f"efficiency {name}={getattr(f, name):g}: a share of the peak, such as 0.75")
    if f.overhead_ms < 0 or f.scale <= 0 or not 0 <= accepted <= 1:
        raise CommandError("overhead must not be negative, and accepted is a share between 0 and 1")


def calibrated(setup: Setup, load: Load, tokens_per_second: float) -> Setup:
    """All times scaled so that `load` gives the measured output tokens/s; without pauses that is exact."""
    if tokens_per_second <= 0:
        raise CommandError(f"{tokens_per_second:g} tokens/s measured: it must be more than nothing")
    from oomph.plan import load as load_model

    for _ in range(3):  # pauses and ramps do not scale, so it is repeated
        got = simulate(setup, load).output_tokens_per_second
        factors = replace(setup.factors, scale=setup.factors.scale * got / tokens_per_second)
        model = load_model(setup.deployment.model)
        accepted = setup.built.config.accepted / 1000 / max(1, setup.built.config.spec_tokens)
        built = build(setup.deployment, model, setup.plan, factors, accepted=accepted)
        setup = replace(setup, built=built, factors=factors, calibrated=True)
    return setup


def simulate(setup: Setup, load: Load, *, most_preemptions: int = -1) -> Result:
    """One load on one deployment; after more than `most_preemptions` (-1: any number) it is not played to its end."""
    config = setup.built.config
    workload = _workload(load)
    result = _play(setup, workload, workload.shared, most_preemptions)
    small = result.requests * (load.shape.prompt + load.shape.output) <= BLOCKS_UP_TO
    if result.preemptions and config.prefix_caching and most_preemptions < 0 and not workload.shared and small:
        # who was preempted finds its own blocks again: then every block has to be followed
        return _play(setup, _workload(load), True, most_preemptions)
    return result


def _play(setup: Setup, workload: Drawn | Traced, shared: bool, most_preemptions: int) -> Result:
    config = setup.built.config
    collector = Collector(config)
    scheduler = Loop(config, setup.built.time, workload, collector, shared)
    while scheduler.run(scheduler.steps + 2000):
        if 0 <= most_preemptions < scheduler.preemptions:
            collector.preemptions = max(collector.preemptions, scheduler.preemptions)
            break
    first = collector.first_rejected
    text = ""
    if first is not None:
        job = first.job
        text = setup.built.resolved.facts.scheduler.too_long.format(
            length=config.max_model_len, prompt=job.prompt, output=job.output, total=job.prompt + job.output
        )
    return collector.result(scheduler.steps, text)


def _workload(load: Load) -> Drawn | Traced:
    if load.trace:
        from oomph.simulate.traces import read_trace

        return read_trace(load.trace)
    a, requests = load.arrivals, load.requests
    if not requests:
        turns = load.shape.turns
        talks = 2 if turns > 1 and a.users * turns > MANY else max(3, -(-PER_USER // turns))
        each = talks * turns
        requests = a.users * each if a.users else max(200, round(a.rate * OPEN_SECONDS))
    return Drawn(load.shape, a, requests, load.seed)


def spread(setup: Setup, load: Load) -> Load:
    """Users that come in over the time of one answer, and no faster than their prompts are read, so that a run is not
    judged by its first instant."""
    return _spread(load, *_alone(setup, load))


def _alone(setup: Setup, load: Load) -> tuple[float, float]:
    """Seconds of one answer, and to its first token, with nobody else there."""
    result = simulate(setup, replace(load, arrivals=Arrivals(users=1), requests=3))
    return result.latency.mean, result.ttft.mean


def _spread(load: Load, answer: float, first: float) -> Load:
    seconds = max(0.1, answer, load.arrivals.users * first)
    return replace(load, arrivals=replace(load.arrivals, spread=seconds))


def fails(result: Result, target: Target) -> str:
    """What of the target a result breaks, in a few words; "" = nothing."""
    if result.never:
        return "requests that never start"
    if result.rejected:
        return "requests longer than max_model_len"
    if result.preemptions > target.preemptions:
        times = "1 preemption" if result.preemptions == 1 else f"{result.preemptions:,} preemptions"
        return f"{times}: KV blocks run out while tokens are generated"
    if result.ttft.p95 > target.ttft:
        waits = max(result.binds, key=lambda k: result.binds[k]) if result.binds else ""
        behind = {
            "blocks": "waiting for KV blocks",
            "max_num_seqs": "waiting for one of max_num_seqs places",
            "max_num_batched_tokens": "waiting for room in the batch",
        }.get(waits, "the prompts alone take that long")
        return f"P95 time to first token {result.ttft.p95:.2f} s, {behind}"
    if target.tpot and result.tpot.p95 > target.tpot:
        return f"P95 time per token {result.tpot.p95 * 1000:.0f} ms"
    return ""


def search(setup: Setup, load: Load, target: Target) -> Held:
    """The most users that keep the target; and how many if steps take UNSURE times longer, or shorter."""
    held = _search(setup, load, target, MOST_USERS, within=0.02)
    if not setup.timed or setup.calibrated or not held.users:
        return held
    low = _search(slowed(setup, UNSURE), load, target, held.users, held.users, 0.05).users
    high = held.users
    if held.beyond is not None and held.beyond.preemptions <= target.preemptions:  # else memory is what ends it
        high = _search(slowed(setup, 1 / UNSURE), load, target, MOST_USERS, held.users, 0.05).users
    return replace(held, low=min(low, held.users), high=max(high, held.users))


def _search(setup: Setup, load: Load, target: Target, most: int, first: int = 1, within: float = 0.0) -> Held:
    """Doubling or halving from `first`, then bisection to `within` a share: more users make no answer quicker."""
    alone = _alone(setup, load)
    good, bad, runs = 0, 0, 0
    best: Result | None = None
    beyond: Result | None = None
    breaks = ""
    n = first
    while 1 <= n <= most and not (bad and bad - good <= max(1, int(within * bad))):
        at = _spread(replace(load, arrivals=replace(load.arrivals, users=n, rate=0.0)), *alone)
        result = simulate(setup, at, most_preemptions=target.preemptions)
        runs += 1
        why = fails(result, target)
        if why:
            bad, beyond, breaks = n, result, why
        else:
            good, best = n, result
        n = (good + bad) // 2 if bad else 2 * n
    return Held(setup, load, target, good, best, beyond, breaks, runs)


def slowed(setup: Setup, factor: float) -> Setup:
    """The same deployment with steps that take `factor` times as long."""
    return replace(setup, built=replace(setup.built, time=setup.built.time.scaled(factor)))


def run(
    command: str | Sequence[str] | Deployment | Setup,
    *,
    users: int = 0,
    rate: float = 0.0,
    trace: str = "",
    workload: str = "fixed",
    prompt: int | None = None,
    output: int | None = None,
    requests: int = 0,
    seed: int = 0,
    **options: Any,
) -> Simulation:
    """`options`: gpu, engine, given, factors, accepted, timed, as prepare() takes them."""
    setup = command if isinstance(command, Setup) else prepare(command, **options)
    if not users and not rate and not trace:
        raise CommandError("a load is needed: users, a rate or a trace")
    load = Load(shape(workload, prompt, output), Arrivals(users=users, rate=rate), requests, seed, trace)
    if users:
        load = spread(setup, load)
    return Simulation(setup, load, simulate(setup, load))


def held(
    command: str | Sequence[str] | Deployment | Setup,
    *,
    target: Target | None = None,
    workload: str = "fixed",
    prompt: int | None = None,
    output: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Held:
    setup = command if isinstance(command, Setup) else prepare(command, **options)
    load = Load(shape(workload, prompt, output), Arrivals(), 0, seed)
    return search(setup, load, target or Target())


def sweep(setup: Setup, load: Load, users: Sequence[int]) -> list[tuple[int, Result]]:
    alone = _alone(setup, load)
    loads = [_spread(replace(load, arrivals=replace(load.arrivals, users=n, rate=0.0)), *alone) for n in users]
    return [(n, simulate(setup, at)) for n, at in zip(users, loads)]


def parse_sweep(text: str) -> list[int]:
    """'users=1..256' doubles from 1 to 256; 'users=8..64:8' goes in steps of 8; 'users=1,4,16' is a list."""
    match = re.fullmatch(r"\s*users\s*=\s*(\d{1,6})\s*\.\.\s*(\d{1,6})(?:\s*:\s*(\d{1,6}))?\s*", text)
    if match:
        low, high, step = int(match[1]), int(match[2]), int(match[3] or 0)
        if 1 <= low <= high and (step or not match[3]):
            if step:
                out = list(range(low, high + 1, step))
            else:
                out = [low << i for i in range((high // low).bit_length())]
                out = [n for n in out if n < high] + [high]
            if len(out) <= 512 and high <= 100_000:
                return out
    elif re.fullmatch(r"\s*users\s*=\s*\d{1,6}(\s*,\s*\d{1,6})*\s*", text):
        out = sorted({int(n) for n in text.partition("=")[2].split(",")})
        if out[0] >= 1:
            return out
    raise CommandError(f"--sweep {text!r} is not users=1..256, users=8..64:8 or users=1,4,16")
