"""The other side of the engine: requests that arrive through its server one by one, and what became of them."""

import heapq
from collections.abc import Iterator
from typing import Protocol

from oomph.simulate.config import Job, Outcome, Record
from oomph.simulate.timing import StepTime


class Workload(Protocol):
    def jobs(self) -> Iterator[Job]:
        """In the order of arrival."""

    def done(self, job: Job, at: int) -> Job | None:
        """What the same user asks next (closed loops)."""


class Observer(Protocol):
    def record(self, record: Record) -> None: ...

    def step(self, now: int, ticks: int, running: int, waiting: int, used: int, binds: str, preemptions: int) -> None:
        """`preemptions`: since the beginning."""


class Served(Protocol):
    """A request as a scheduler keeps it; times are ticks, -1 where it has none yet."""

    job: Job
    started: int
    first_token: int
    preemptions: int
    cached: int


class Clients:
    def __init__(self, workload: Workload, time: StepTime, observer: Observer) -> None:
        self.workload, self.time, self.observer = workload, time, observer
        self.source = iter(workload.jobs())
        self.upcoming = next(self.source, None)
        self.replies: list[tuple[int, int, Job]] = []
        self.in_flight = 0  # requests that the engine has and has not answered
        self.server_end = 0  # when the server is done with the requests that it has read
        self.arrival = self._arrival()

    def _arrival(self) -> tuple[int, Job] | None:
        """When the engine sees the next request, and which it is."""
        job, reply = self.upcoming, self.replies[0] if self.replies else None
        if reply is not None and (job is None or reply[:2] < (job.at, job.id)):
            job = reply[2]
        if job is None:
            return None
        time = self.time
        reading = time.request + time.prompt_token * job.prompt + time.stream * self.in_flight
        return max(self.server_end, job.at) + reading, job

    def arrivals(self, seen: int) -> Iterator[Job]:
        """Those that the engine has seen by then."""
        while self.arrival is not None and self.arrival[0] <= seen:
            self.server_end, job = self.arrival
            if job is self.upcoming:
                self.upcoming = next(self.source, None)
            else:
                heapq.heappop(self.replies)
            self.in_flight += 1
            self.arrival = self._arrival()
            yield job

    def answer(self, request: Served, outcome: Outcome, at: int, output: int) -> None:
        """A request leaves the engine; its user may ask the next."""
        self.in_flight -= 1
        response = self.time.response if outcome == "done" else 0
        first, end = request.first_token + response if request.first_token >= 0 else -1, at + response
        cached = max(0, request.cached)
        self.observer.record(
            Record(
                request.job,
                outcome=outcome,
                started=request.started,
                first_token=first,
                finished=end,
                preemptions=request.preemptions,
                cached=cached,
                output=output,
            )
        )
        reply = self.workload.done(request.job, end)
        if reply is not None:
            heapq.heappush(self.replies, (reply.at, reply.id, reply))
        if reply is not None or self.time.stream:
            self.arrival = self._arrival()
