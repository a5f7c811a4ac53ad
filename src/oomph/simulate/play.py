"""One load played on one deployment."""

from collections import deque

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.scheduler.loop import FAR, Loop
from oomph.engines.vllm.scheduler.scheduler import Entry
from oomph.simulate.build import Engine, Setup
from oomph.simulate.clients import Observer, Workload
from oomph.simulate.config import Config
from oomph.simulate.result import Collector, Result
from oomph.simulate.timing import StepTime
from oomph.simulate.workloads import Arrivals, Drawn, Shape, Traced
from oomph.units import cdiv

PER_USER = 20  # requests of each user in a run, if nobody says how many; whole conversations, at least three
MANY = 500  # turns of all users from which on two conversations each are enough
OPEN_SECONDS = 120  # of an open load, if nobody says how many requests
# Decodes and chunks that are played one by one before a run is cut off and its first requests stand for all: 10 to 15 s
# of one core (3 us each with drafts, 4 us where every block is followed). Decodes that are summed do not count.
MOST_WORK = 3_000_000
_CHECK_EVERY = 500  # steps between two looks at the limits


class Load(Struct, frozen=True):
    shape: Shape
    arrivals: Arrivals
    requests: int = 0  # 0: by the number of users, or by the rate
    seed: int = 0
    trace: str = ""


def simulate(setup: Setup, load: Load, *, most_preemptions: int = -1, most_work: int = MOST_WORK) -> Result:
    """After more than `most_preemptions` (-1: any number), or more than `most_work`, it is not played to its end."""
    replicas = setup.replicas
    if replicas == 1:
        return _simulate_replica(setup, load, most_preemptions, most_work)
    share, times = _of_one_replica(load, replicas)
    return _simulate_replica(setup, share, most_preemptions, most_work).times(times)


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


def _simulate_replica(setup: Setup, load: Load, most_preemptions: int, most_work: int) -> Result:
    """Counting blocks is exact as long as nobody shares a prefix and nobody is preempted. Who was preempted finds its
    own blocks again, so that from then on every block has to be followed."""
    workload = _workload(load)
    if workload.shared:
        return _play(setup, workload, True, most_preemptions, most_work)
    follows = setup.built.config.prefix_caching and most_preemptions < 0
    result = _play(setup, workload, False, 0 if follows else most_preemptions, most_work)
    if follows and result.preemptions:
        return _play(setup, _workload(load), True, -1, most_work)
    return result


def _play(
    setup: Setup, workload: Drawn | Traced, follows_blocks: bool, most_preemptions: int, most_work: int
) -> Result:
    config = setup.built.config
    collector = Collector(config)
    loop: Engine
    if setup.built.loop is not None:
        loop = setup.built.loop(config, setup.built.time, workload, collector)
    else:
        kind = PipelineLoop if config.stages > 1 else Loop
        loop = kind(config, setup.built.time, workload, collector, follows_blocks)
    is_cut = False
    while loop.run(loop.steps + _CHECK_EVERY):
        if 0 <= most_preemptions < loop.preemptions:
            collector.preemptions = max(collector.preemptions, loop.preemptions)
            break
        if loop.work > most_work:
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


# The engine with a pipeline of stages: as many batches in flight as the engine's queue holds.
#
# EngineCore.step_with_batch_queue (v1/engine/core.py): a batch is scheduled while the queue has room; then the engine
# waits for the oldest one. A stage takes its share of a step, and starts when both the stage before it and its own last
# batch are done. Nothing is summed here: a request decodes only once every few steps, so that steps are not alike.


class PipelineLoop(Loop):
    def __init__(self, config: Config, time: StepTime, workload: Workload, observer: Observer, shared: bool) -> None:
        super().__init__(config, time, workload, observer, shared)
        self.summed = False
        self.in_flight: deque[tuple[list[Entry], int]] = deque()  # batches, and when their tokens are known
        self.stage_ends = [0] * config.stages

    def run(self, max_steps: int = FAR) -> bool:
        while self.steps < max_steps:
            self._receive(self.now)
            if self.tail or self.waiting:
                batch = self.schedule()
                if not batch and self._is_stuck():
                    self.leave(self.waiting.popleft(), "never", self.now, 0)
                    continue
                self.in_flight.append((batch, self._launch(batch) if batch else self.now))
                if self._schedules_again(bool(batch)):
                    continue
            elif not self.in_flight:
                if not self._idle():
                    return False
                continue
            batch, end = self.in_flight.popleft()
            self.now = max(self.now, end)
            self.process([], batch, self.now)
        return True

    def _schedules_again(self, executes: bool) -> bool:
        """Whether the engine schedules the next batch before it waits for the oldest one. An empty batch takes a place
        in the queue too; since 0.27 the engine goes on after one."""
        if len(self.in_flight) >= self.c.batches:
            return False
        if self.c.refills:
            return executes or bool(self.tail or self.waiting)
        return executes and self.in_flight[0][1] > self.now

    def _is_stuck(self) -> bool:
        """Nothing is in flight and nothing can start: the engine would try for ever."""
        in_flight = any(batch for batch, _ in self.in_flight)
        return not in_flight and not self.preempted and not self.tail and bool(self.waiting)

    def _launch(self, batch: list[Entry]) -> int:
        """When the last stage is done with a batch that is scheduled now."""
        ticks = self.duration(batch)
        end = self.now
        for stage in range(self.c.stages):
            end = max(end, self.stage_ends[stage]) + ticks // self.c.stages
            self.stage_ends[stage] = end
        self._count(ticks // self.c.stages, 1)
        return end
