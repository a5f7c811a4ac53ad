"""The engine over time: requests arrive, a step is scheduled and takes as long as timing.py says, its tokens become
known at its end (or one step later, with asynchronous scheduling). Steps in which nothing but decoding happens are
taken many at once."""

from functools import lru_cache

from oomph.engines.vllm.scheduler.live import Live
from oomph.engines.vllm.scheduler.pools import CountPool
from oomph.engines.vllm.scheduler.scheduler import Entry, Scheduler
from oomph.simulate.clients import Clients, Observer, Workload
from oomph.simulate.config import Config, Job, Outcome
from oomph.simulate.timing import RECURRENT, StepTime

FAR = 1 << 120  # ticks are femtoseconds: an hour is more than 64 bits hold


class Loop(Scheduler):
    def __init__(self, config: Config, time: StepTime, workload: Workload, observer: Observer, shared: bool) -> None:
        super().__init__(config, shared)
        self.time, self.observer = time, observer
        self.clients = Clients(workload, time, observer)
        self.steps = self.tokens = 0
        self.work = 0  # decodes and chunks that were played one by one
        self.pending_start = 0
        self.decoding = rates = time.decoding()
        self.fixed = lru_cache(1 << 16)(time.fixed)
        kinds = [("once" if g.kind in RECURRENT else g.kind, rate, g.span) for g, rate in zip(config.groups, rates)]
        self.whole_rate = sum(
            rate for kind, rate, _ in kinds if kind == "full"
        )  # of a decode: for each token before it
        self.once_rate = sum(rate for kind, rate, _ in kinds if kind == "once")  # ... whatever came before it
        self.spans = [(span, rate) for kind, rate, span in kinds if kind not in ("full", "once")]

    def run(self, max_steps: int = FAR) -> bool:
        """True: `max_steps` are reached and there is more to do."""
        while self.steps < max_steps:
            self._receive(self.now if self.pending is None else self.pending_start)
            self.steady.activate()
            leap = self._leap() if self.summed and not self.tail and self.steady.size else 0
            if leap > 1:
                self._take_steps(leap)
            elif not self._take_step():
                return False
        return True

    # --- steps

    def _take_step(self) -> bool:
        """One step, or what happens instead of one; False: nothing is left to do."""
        batch = self.schedule()
        if not batch and not self.steady.size:
            return self._idle()
        start = self.now
        ticks = self.duration(batch)
        self.now += ticks
        self._count(ticks, 1)
        finished = self.steady.advance(1)
        if not self.c.lag:
            self.process(finished, batch, self.now)
        else:
            if self.pending is not None:
                self.process(self.ending, self.pending, start)
            self.pending, self.pending_start, self.ending = batch, start, finished
        if (self.summed or self.rests) and self.tail:
            self.settle()
        return True

    def _take_steps(self, n: int) -> None:
        start = self.now
        freed, taken = self.steady.freed(n), self.steady.taken(n)
        assert isinstance(self.pool, CountPool)
        self.pool.free += freed - taken
        ticks, last = self._steady_ticks(n)
        self.now += ticks
        self._count(ticks, n)
        finished = self.steady.advance(n)
        if self.c.lag:
            self.pending, self.pending_start, self.ending = [], start + ticks - last, finished
        else:
            self._receive(start + ticks - last)  # the server reads faster once somebody has left
            self.process(finished, [], self.now)

    def _idle(self) -> bool:
        if self.pending is not None:
            pending, ending = self.pending, self.ending
            self.pending, self.ending = None, []
            self.process(ending, pending, self.now)
            return True
        if self.preempted:  # an empty step: the engine schedules again
            return True
        if self.waiting:  # the engine is empty and still does not let it in
            self.leave(self.waiting.popleft(), "never", self.now, 0)
            return True
        arrival = self.clients.arrival
        if arrival is None:
            return False
        self.now = max(self.now, arrival[0])
        return True

    def duration(self, batch: list[Entry]) -> int:
        steady = self.steady.size
        tokens, sequences = steady, steady + len(batch)
        ticks = sum(rate * read for rate, read in zip(self.decoding, self.steady.read())) if steady else 0
        decodes = before = 0
        for entry in batch:
            new, total = entry.new, entry.req.computed
            tokens += new
            if new != 1:
                ticks += self.time.chunk(self.c.groups, total - new, new)
                continue
            decodes += 1
            before += total
            for span, rate in self.spans:
                ticks += rate * min(total, span)
        ticks += self.whole_rate * before + self.once_rate * decodes
        self.tokens += tokens - steady
        self.work += len(batch) + steady * self.rests
        return ticks + self.fixed(tokens, sequences)

    def _steady_ticks(self, n: int) -> tuple[int, int]:
        """Of the next n steps of all that are steady, and of the last of them."""
        size = self.steady.size
        return self.steady.duration(self.fixed(size, size), self.decoding, n)

    def _count(self, ticks: int, n: int) -> None:
        self.steps += n
        self.tokens += n * self.steady.size
        running = self.steady.size + len(self.ending) + len(self.tail)
        used = self.c.usable - self.pool.free
        binds = self.binds if self.waiting else ""
        self.observer.step(self.now, ticks, running, len(self.waiting), used, binds, self.preemptions)

    # --- many steps at once

    def _leap(self) -> int:
        """Steps until something other than decoding may happen: a finish, an arrival that can start, a shortage."""
        if self.ending or self.pending:
            return 1
        n = self.steady.horizon()
        room = self.c.budget - self.steady.size
        open_ = self.steady.size < self.c.max_num_seqs and room > 0
        assert isinstance(self.pool, CountPool)
        while n > 1 and self.steady.taken(n) > self.pool.free:
            n //= 2
        if open_ and self.waiting:
            need = self._head_need(room)
            while n > 1 and need <= self.pool.free + self.steady.freed(n):
                n //= 2
        elif open_:
            arrival = self.clients.arrival
            if arrival is not None:
                n = self._steps_before(arrival[0], n)
        return n

    def _head_need(self, room: int) -> int:
        assert isinstance(self.pool, CountPool)
        need = 0 if self.waiting[0].stale else self.pool.head_need(self.waiting[0], room)
        return need + self.c.watermark_blocks if need else 0

    def _steps_before(self, arrival: int, n: int) -> int:
        """The most steps, up to n, of which none is scheduled at or after `arrival`."""
        lag = self.c.lag
        if arrival <= self.now:
            return 1
        if arrival > self.now + self._steady_ticks(n)[0]:
            return n
        low, high = 1, n
        while low < high:
            mid = (low + high + 1) // 2
            at = mid - 1 - lag
            begun = self.now + (self._steady_ticks(at)[0] if at > 0 else 0)
            if at < 0 or arrival > begun:
                low = mid
            else:
                high = mid - 1
        return low

    # --- arrivals and departures

    def _receive(self, seen: int) -> None:
        for job in self.clients.arrivals(seen):
            self._enqueue(job)

    def _enqueue(self, job: Job) -> None:
        length = self.c.max_model_len
        req = Live(job, max(1, min(job.output, length - job.prompt)))
        if not 1 <= job.prompt < length:
            self.leave(req, "rejected", job.at, 0)
        elif not job.chain and self.c.gate != "chunk" and self.c.need(job.prompt) > self.c.usable:
            self.leave(req, "never", job.at, 0)
        else:
            self.waiting.append(req)
            self.sort()

    def leave(self, req: Live, outcome: Outcome, at: int, output: int) -> None:
        req.gone = True
        self.clients.answer(req, outcome, at, output)
