"""Who asks what, and when. Every workload is drawn from one seeded generator, request by request.

`fixed` has one length; `chat`, `long` and `agentic` draw log-normal lengths by median and spread. Nothing here is
copied from a dataset: chat has the means of ShareGPT as serving benchmarks sample it (about 220 tokens in, 200 out).
"""

import random
from collections.abc import Iterator
from math import log

from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import CommandError
from oomph.simulate.config import Job
from oomph.simulate.timing import SECOND

SYSTEM = 1  # segment id of the prefix that everybody shares


class Shape(Struct, frozen=True):
    """Lengths in tokens: medians, and the sigma of their logarithm (0 = always the median)."""

    prompt: int
    output: int
    prompt_sigma: float = 0.0
    output_sigma: float = 0.0
    shared: int = 0  # tokens of a prefix that all users have
    turns: int = 1  # requests of one conversation; each repeats everything before it
    turn_prompt: int = 0  # what a later turn adds
    turn_pause: float = 0.0  # seconds a tool or a reader takes between turns


SHAPES = {
    "fixed": Shape(1000, 250),
    "chat": Shape(110, 130, 1.2, 0.95),
    "long": Shape(16000, 400, 0.7, 0.6),
    "agentic": Shape(1500, 250, 0.6, 0.8, shared=2000, turns=8, turn_prompt=700, turn_pause=2.0),
}


class Arrivals(Struct, frozen=True):
    """`users` in a closed loop (each waits for its answer, then pauses), or an open `rate` a second."""

    users: int = 0
    rate: float = 0.0
    burst: int = 1  # open: so many arrive together
    pause: float = 0.0  # closed: seconds between an answer and the next question
    spread: float = 1.0  # closed: seconds over which the users come in
    at_once: bool = False  # closed: all users begin at the same instant, as benchmarks do
    every: int = 1  # trace: only every n-th request (one of n replicas)


class Drawn:
    """Requests of one shape. Conversations go on by themselves: a turn follows when the one before is answered."""

    def __init__(self, shape: Shape, arrivals: Arrivals, requests: int, seed: int = 0, longest: int = 1 << 40) -> None:
        if arrivals.users < 0 or arrivals.rate < 0 or arrivals.burst < 1 or requests < 1:
            raise CommandError("a workload needs users or a rate, and at least one request")
        self.shape, self.arrivals, self.requests = shape, arrivals, requests
        self.longest = longest
        self.random = random.Random(seed)
        self.count = 0
        self.segments = SYSTEM
        self.turns: dict[int, tuple[tuple[tuple[int, int], ...], int]] = {}  # by user: chain so far, turn

    @property
    def shared(self) -> bool:
        return self.shape.shared > 0 or self.shape.turns > 1

    def jobs(self) -> Iterator[Job]:
        if self.arrivals.users:
            for user in range(self.arrivals.users):
                if self.count < self.requests:
                    spread = 0.0 if self.arrivals.at_once else self.arrivals.spread
                    yield self._first(user, round(user * spread * SECOND / self.arrivals.users))
            return
        at, user = 0.0, 0
        while self.count < self.requests:
            at += self.random.expovariate(self.arrivals.rate / self.arrivals.burst)
            for _ in range(self.arrivals.burst):
                if self.count < self.requests:
                    yield self._first(user, round(at * SECOND))
                    user += 1

    def done(self, job: Job, at: int) -> Job | None:
        chain, turn = self.turns.pop(job.user, ((), 0))
        if turn + 1 < self.shape.turns and self.count < self.requests:
            return self._next(job, chain, turn + 1, at)
        if not self.arrivals.users or self.count >= self.requests:
            return None
        return self._first(job.user, at + max(1, round(self.arrivals.pause * SECOND)))

    def _draw(self, median: int, sigma: float) -> int:
        n = round(self.random.lognormvariate(log(max(1, median)), sigma)) if sigma else median
        return max(1, min(n, self.longest))

    def _first(self, user: int, at: int) -> Job:
        shape = self.shape
        own = self._draw(shape.prompt, shape.prompt_sigma)
        output = self._draw(shape.output, shape.output_sigma)
        chain: tuple[tuple[int, int], ...] = ()
        if self.shared:
            chain = ((SYSTEM, shape.shared),) if shape.shared else ()
            if shape.turns > 1:
                chain = (*chain, self._segment(own + output))
        return self._job(user, at, shape.shared + own, output, chain, 0)

    def _next(self, job: Job, chain: tuple[tuple[int, int], ...], turn: int, at: int) -> Job | None:
        shape = self.shape
        own = self._draw(shape.turn_prompt or shape.prompt, shape.prompt_sigma)
        output = self._draw(shape.output, shape.output_sigma)
        prompt = sum(n for _, n in chain) + own
        chain = (*chain, self._segment(own + output))
        return self._job(job.user, at + max(1, round(shape.turn_pause * SECOND)), prompt, output, chain, turn)

    def _segment(self, tokens: int) -> tuple[int, int]:
        """A question with its answer: nobody else has either."""
        self.segments += 1
        return self.segments, tokens

    def _job(self, user: int, at: int, prompt: int, output: int, chain: tuple[tuple[int, int], ...], turn: int) -> Job:
        self.count += 1
        if self.shape.turns > 1:
            self.turns[user] = (chain, turn)
        return Job(self.count, at, prompt, output, chain, 0, user=user)


class Traced:
    """Requests of a trace file, at its own times."""

    requests = 0  # nobody has counted them

    def __init__(self, jobs: Iterator[Job], shared: bool) -> None:
        self.iterator, self.shared = jobs, shared

    def jobs(self) -> Iterator[Job]:
        return self.iterator

    def done(self, job: Job, at: int) -> Job | None:
        return None


def shape(name: str, prompt: int | None, output: int | None) -> Shape:
    """A named shape. `prompt` and `output` set its medians; of `fixed`, the lengths themselves."""
    if name not in SHAPES:
        raise CommandError(f"workload {name!r}: there are {', '.join(SHAPES)}")
    named = SHAPES[name]
    if prompt is not None:
        named = replace(named, prompt=prompt)
    return replace(named, output=output) if output is not None else named
