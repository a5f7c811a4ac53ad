"""One load played on one deployment."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from oomph.simulate.build import Setup
from oomph.simulate.result import Collector, Result
from oomph.simulate.workloads import Arrivals, Drawn, Shape, Traced
from oomph.units import cdiv

PER_USER = 20  # requests of each user in a run, if nobody says how many; whole conversations, at least three
MANY = 500  # turns of all users from which on two conversations each are enough
OPEN_SECONDS = 120  # of an open load, if nobody says how many requests
# Decodes and chunks that are played one by one before a run is cut off and its first requests stand for all: 10 to 15 s
# of one core (3 us each with drafts, 4 us where every block is followed). Decodes that are summed do not count.
MOST_WORK = 3_000_000
_CHECK_EVERY = 200  # steps between two looks at the limits


class Load(Struct, frozen=True):
    shape: Shape
    arrivals: Arrivals
    requests: int = 0  # 0: by the number of users, or by the rate
    seed: int = 0
    trace: str = ""


# (what was seen so far, requests of the load) -> whether the rest can no longer change the judgement
IsDecided = Callable[[Collector, int], bool]


class Ends(Struct, frozen=True):
    """When a run is not played to its end."""

    preemptions: int = -1  # after more than these; -1: any number
    work: int = MOST_WORK  # after more than this
    is_decided: IsDecided | None = None


TO_THE_END = Ends()


def simulate(setup: Setup, load: Load, ends: Ends = TO_THE_END) -> Result:
    replicas = setup.replicas
    if replicas == 1:
        return _simulate_replica(setup, load, ends)
    share, times = _of_one_replica(load, replicas)
    return _simulate_replica(setup, share, ends).times(times)


def _of_one_replica(load: Load, replicas: int) -> tuple[Load, float]:
    """(the load of the fullest replica, how many times that is the whole). The front end sends each request to the
    replica with the fewest waiting and running requests (v1/engine/core_client.py, get_core_engine_for_request)."""
    arrivals = load.arrivals
    requests = cdiv(load.requests, replicas) if load.requests else 0
    if load.trace:
        return replace(load, arrivals=replace(arrivals, every=replicas)), replicas
    if arrivals.users:
        users = cdiv(arrivals.users, replicas)
        return replace(load, arrivals=replace(arrivals, users=users), requests=requests), arrivals.users / users
    return replace(load, arrivals=replace(arrivals, rate=arrivals.rate / replicas), requests=requests), replicas


def _simulate_replica(setup: Setup, load: Load, ends: Ends) -> Result:
    """Counting blocks is exact as long as nobody shares a prefix and nobody is preempted. Who was preempted finds its
    own blocks again, so that from then on every block has to be followed."""
    workload = _workload(load)
    if workload.shared:
        return _play(setup, workload, True, ends)
    follows = setup.built.config.prefix_caching and ends.preemptions < 0
    result = _play(setup, workload, False, replace(ends, preemptions=0) if follows else ends)
    if follows and result.preemptions:
        return _play(setup, _workload(load), True, ends)
    return result


def _play(setup: Setup, workload: Drawn | Traced, follows_blocks: bool, ends: Ends) -> Result:
    config = setup.built.config
    collector = Collector(config)
    loop = setup.built.loop(config, setup.built.time, workload, collector, follows_blocks)
    is_cut = False
    while loop.run(loop.steps + _CHECK_EVERY):
        if 0 <= ends.preemptions < loop.preemptions:
            collector.preemptions = max(collector.preemptions, loop.preemptions)
            break
        if loop.work > ends.work or (ends.is_decided is not None and ends.is_decided(collector, workload.requests)):
            is_cut = True
            break
    first = collector.first_rejected
    text = ""
    if first is not None:
        job = first.job
        text = setup.built.too_long.format(
            length=config.max_model_len, prompt=job.prompt, output=job.output, total=job.prompt + job.output
        )
    result = collector.result(loop.steps, text)
    return replace(result, load_requests=workload.requests, is_sample=True) if is_cut else result


def _workload(load: Load) -> Drawn | Traced:
    if load.trace:
        from oomph.simulate.traces import read_trace

        return read_trace(load.trace, load.arrivals.every)
    arrivals, requests = load.arrivals, load.requests
    if not requests:
        turns = load.shape.turns
        talks = 2 if turns > 1 and arrivals.users * turns > MANY else max(3, -(-PER_USER // turns))
        requests = arrivals.users * talks * turns if arrivals.users else max(200, round(arrivals.rate * OPEN_SECONDS))
    return Drawn(load.shape, arrivals, requests, load.seed)


def spread(setup: Setup, load: Load) -> Load:
    """Users that come in over the time of one answer, and no faster than their prompts are read, so that a run is not
    judged by its first instant. Users that come all at once (Arrivals.at_once) stay as they are."""
    return load if load.arrivals.at_once else spread_over(load, *times_alone(setup, load))


def times_alone(setup: Setup, load: Load) -> tuple[float, float]:
    """Seconds of one answer, and to its first token, with nobody else there."""
    result = simulate(setup, replace(load, arrivals=Arrivals(users=1), requests=3))
    return result.latency.mean, result.ttft.mean


def spread_over(load: Load, answer: float, first: float) -> Load:
    if load.arrivals.at_once:
        return replace(load, arrivals=replace(load.arrivals, spread=0.0))
    seconds = max(0.1, answer, load.arrivals.users * first)
    return replace(load, arrivals=replace(load.arrivals, spread=seconds))
