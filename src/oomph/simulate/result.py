"""What a run of the scheduler showed, in memory that does not grow with the number of requests."""

from math import exp, log

from msgspec import Struct
from msgspec.structs import replace

from oomph.simulate.config import Config, Record
from oomph.simulate.timing import SECOND

_STEP = log(1.01)


class Sketch:
    """A histogram in steps of 1 %: quantiles to within half a per cent, whatever the number of values."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.n = 0
        self.total = 0.0

    def add(self, value: float) -> None:
        key = round(log(max(value, 1e-9)) / _STEP)
        self.counts[key] = self.counts.get(key, 0) + 1
        self.n += 1
        self.total += value

    def quantile(self, share: float) -> float:
        if not self.n:
            return 0.0
        rank, seen = share * (self.n - 1), 0
        for key in sorted(self.counts):
            seen += self.counts[key]
            if seen > rank:
                value = exp(key * _STEP)
                return value if value > 1e-8 else 0.0
        return 0.0

    def count_above(self, limit: float) -> int:
        """Values whose step of the histogram is above a limit."""
        return sum(count for key, count in self.counts.items() if exp(key * _STEP) > limit)

    @property
    def mean(self) -> float:
        return self.total / self.n if self.n else 0.0


class Point(Struct, frozen=True):
    """The engine over one stretch of time."""

    seconds: float  # its end
    running: float  # mean
    waiting: float
    used: float  # mean share of the KV blocks
    preemptions: int = 0


class Spread(Struct, frozen=True):
    mean: float
    p50: float
    p95: float
    p99: float


class Result(Struct, frozen=True):
    requests: int
    done: int
    rejected: int  # too long for max_model_len: the server's answer is `rejection`
    never: int  # would wait for ever, with everything behind them
    seconds: float
    steps: int
    ttft: Spread  # seconds to the first token
    tpot: Spread  # seconds a token after it
    latency: Spread
    queue: Spread  # seconds until first scheduled
    output_tokens_per_second: float
    prompt_tokens_per_second: float
    preemptions: int
    preempted_requests: int
    max_running: int
    mean_running: float
    max_waiting: int
    kv_peak: float  # share of the blocks
    kv_mean: float
    cached_share: float  # of the prompt tokens
    binds: dict[str, float]  # share of the time that requests waited for each limit
    timeline: tuple[Point, ...] = ()
    rejection: str = ""
    is_sample: bool = False  # only the first requests of the load were played: its figures are theirs
    load_requests: int = 0  # of a sample: the requests of the whole load; 0 = not known (a trace)

    def times(self, factor: float) -> "Result":
        """The same of several data-parallel replicas: what adds up is multiplied, what one request sees is not."""

        def count(number: int) -> int:
            return round(number * factor)

        return replace(
            self,
            requests=count(self.requests), done=count(self.done), rejected=count(self.rejected),
            never=count(self.never), preemptions=count(self.preemptions),
            preempted_requests=count(self.preempted_requests), max_running=count(self.max_running),
            max_waiting=count(self.max_waiting), mean_running=self.mean_running * factor,
            output_tokens_per_second=self.output_tokens_per_second * factor,
            prompt_tokens_per_second=self.prompt_tokens_per_second * factor,
            load_requests=count(self.load_requests),
            timeline=tuple(
                replace(
                    point, running=point.running * factor, waiting=point.waiting * factor,
                    preemptions=count(point.preemptions),
                )
                for point in self.timeline
            ),
        )  # fmt: skip


class Collector:
    """Observes a scheduler. The timeline keeps at most 2 x `points`: when it is full, neighbours are merged."""

    def __init__(self, config: Config, points: int = 120) -> None:
        self.usable = max(1, config.usable)
        self.points = points
        self.ttft, self.tpot, self.latency, self.queue = Sketch(), Sketch(), Sketch(), Sketch()
        self.outcomes = {"done": 0, "rejected": 0, "never": 0}
        self.output = self.prompt = self.cached = self.preempted = self.preemptions = 0
        self.max_running = self.max_waiting = self.peak = 0
        self.busy = self.run_area = self.used_area = 0
        self.end = 0
        self.binds: dict[str, int] = {}
        self.first_rejected: Record | None = None
        # end, ticks, running x ticks, waiting x ticks, used x ticks, preemptions since the beginning
        self.slices: list[list[int]] = []
        self.width = 0

    def record(self, row: Record) -> None:
        self.outcomes[row.outcome] += 1
        self.preemptions += row.preemptions
        self.preempted += row.preemptions > 0
        if row.outcome == "rejected" and self.first_rejected is None:
            self.first_rejected = row
        if row.outcome != "done":
            return
        self.output += row.output
        self.prompt += row.job.prompt
        self.cached += row.cached
        self.ttft.add((row.first_token - row.job.at) / SECOND)
        self.latency.add((row.finished - row.job.at) / SECOND)
        self.queue.add((row.started - row.job.at) / SECOND)
        if row.output > 1:
            self.tpot.add((row.finished - row.first_token) / (row.output - 1) / SECOND)

    def step(self, now: int, ticks: int, running: int, waiting: int, used: int, binds: str, preemptions: int) -> None:
        if running > self.max_running:
            self.max_running = running
        if waiting > self.max_waiting:
            self.max_waiting = waiting
        if used > self.peak:
            self.peak = used
        self.end = now
        self.busy += ticks
        self.run_area += running * ticks
        self.used_area += used * ticks
        if binds:
            self.binds[binds] = self.binds.get(binds, 0) + ticks
        last = self.slices[-1] if self.slices else None
        if last is not None and last[1] + ticks <= self.width:
            last[0] = now
            last[1] += ticks
            last[2] += running * ticks
            last[3] += waiting * ticks
            last[4] += used * ticks
            last[5] = preemptions
            return
        self.slices.append([now, ticks, running * ticks, waiting * ticks, used * ticks, preemptions])
        if len(self.slices) >= 2 * self.points:
            self._merge()

    def _merge(self) -> None:
        self.width = max(2 * self.width, 2 * self.busy // self.points, 1)
        merged: list[list[int]] = []
        for piece in self.slices:
            if merged and merged[-1][1] + piece[1] <= self.width:
                last = merged[-1]
                last[0], last[5] = piece[0], piece[5]
                for i in range(1, 5):
                    last[i] += piece[i]
            else:
                merged.append(piece)
        self.slices = merged

    def result(self, steps: int, rejection: str = "") -> Result:
        busy, seconds = max(1, self.busy), self.end / SECOND
        waited = sum(self.binds.values())
        return Result(
            requests=sum(self.outcomes.values()),
            done=self.outcomes["done"],
            rejected=self.outcomes["rejected"],
            never=self.outcomes["never"],
            seconds=seconds,
            steps=steps,
            ttft=_spread(self.ttft),
            tpot=_spread(self.tpot),
            latency=_spread(self.latency),
            queue=_spread(self.queue),
            output_tokens_per_second=self.output / seconds if seconds else 0.0,
            prompt_tokens_per_second=self.prompt / seconds if seconds else 0.0,
            preemptions=self.preemptions,
            preempted_requests=self.preempted,
            max_running=self.max_running,
            mean_running=self.run_area / busy,
            max_waiting=self.max_waiting,
            kv_peak=self.peak / self.usable,
            kv_mean=self.used_area / busy / self.usable,
            cached_share=self.cached / self.prompt if self.prompt else 0.0,
            binds={k: v / busy for k, v in sorted(self.binds.items())} if waited else {},
            timeline=tuple(self._point(s, before[5]) for before, s in zip([[0] * 6, *self.slices], self.slices)),
            rejection=rejection,
        )

    def _point(self, piece: list[int], before: int) -> Point:
        """`before`: the preemptions until its beginning."""
        ticks = max(1, piece[1])
        return Point(
            piece[0] / SECOND, piece[2] / ticks, piece[3] / ticks, piece[4] / ticks / self.usable, piece[5] - before
        )


def _spread(sketch: Sketch) -> Spread:
    return Spread(sketch.mean, sketch.quantile(0.5), sketch.quantile(0.95), sketch.quantile(0.99))
