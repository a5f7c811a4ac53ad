"""vLLM's scheduler (v1/core/sched/scheduler.py): waiting and running queues, a token budget, a block pool.

The life of a request: it arrives -> waits -> the gate lets it in and it gets blocks for its first chunk -> chunks of
its prompt -> the last chunk samples the first token -> one token a step -> it finishes and gives its blocks back; or
it is preempted on the way, loses them all, and starts again at the head of the queue.

`running` is kept in two parts. `tail`: the youngest, treated one by one, exactly as the engine does. `steady`: those
before them that only decode; they are summed (steady.py), so that a step costs what changes in it, and many steps in
which nothing else happens are taken at once. Whenever blocks get short, all of them go back to the tail.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from oomph.simulate.config import Config, Job, Record
from oomph.simulate.pools import BlockPool, CountPool, Live
from oomph.simulate.steady import Steady
from oomph.simulate.timing import StepTime, query_pairs, tokens_read

FAR = 1 << 120  # ticks are femtoseconds: an hour is more than 64 bits hold


class Workload(Protocol):
    def jobs(self) -> Iterator[Job]:
        """In the order of arrival."""

    def done(self, job: Job, at: int) -> Job | None:
        """What the same user asks next (closed loops)."""


class Observer(Protocol):
    def record(self, record: Record) -> None: ...

    def step(self, now: int, ticks: int, running: int, waiting: int, used: int, binds: str) -> None: ...


class Entry:
    """One request's part of a step."""

    __slots__ = ("drafts", "new", "req", "samples")

    def __init__(self, req: Live, new: int, drafts: int = 0) -> None:
        self.req, self.new, self.drafts, self.samples = req, new, drafts, False


class Scheduler:
    def __init__(self, config: Config, time: StepTime, workload: Workload, observer: Observer, shared: bool) -> None:
        """`shared`: requests may have prefixes in common."""
        self.c, self.time, self.workload, self.observer = config, time, workload, observer
        blocks = shared and config.prefix_caching
        self.pool: CountPool | BlockPool = BlockPool(config) if blocks else CountPool(config)
        self.steady = Steady(config)
        self.summed = not blocks and config.regular
        # decode steps after which frees and growth are regular; a window that waits for known tokens needs one more
        self.warm_after = 1 + (self.steady.late if self.steady.has_frees else 0)
        self.tail: list[Live] = []
        self.ending: list[Live] = []  # were steady; their last token is in flight
        self.waiting: deque[Live] = deque()
        self.source = iter(workload.jobs())
        self.upcoming = next(self.source, None)
        self.replies: list[tuple[int, int, Job]] = []
        self.now = self.steps = self.preemptions = self.orders = self.tokens = 0
        self.pending: list[Entry] | None = None  # the step whose tokens are not known yet
        self.pending_start = 0
        self.binds = ""
        self.threshold = 0

    # --- time

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

    def _take_step(self) -> bool:
        """One step, or what happens instead of one; False: nothing is left to do."""
        batch = self._schedule()
        if not batch and not self.steady.size:
            return self._idle()
        start = self.now
        ticks = self._duration(batch)
        self.now += ticks
        self._count(ticks, 1)
        finished = self.steady.advance(1)
        if not self.c.lag:
            self._process(finished, batch, self.now)
        else:
            if self.pending is not None:
                self._process(self.ending, self.pending, start)
            self.pending, self.pending_start, self.ending = batch, start, finished
        if self.summed and self.tail:
            self._settle()
        return True

    def _take_steps(self, n: int) -> None:
        start = self.now
        freed, taken = self.steady.freed(n), self.steady.taken(n)
        assert isinstance(self.pool, CountPool)
        self.pool.free += freed - taken
        ticks, last = self.steady.duration(self.time, n)
        self.now += ticks
        self._count(ticks, n)
        finished = self.steady.advance(n)
        if self.c.lag:
            self.pending, self.pending_start, self.ending = [], start + ticks - last, finished
        else:
            self._process(finished, [], self.now)

    def _idle(self) -> bool:
        if self.pending is not None:
            pending, ending = self.pending, self.ending
            self.pending, self.ending = None, []
            self._process(ending, pending, self.now)
            return True
        if self.waiting:  # the engine is empty and still does not let it in
            self._drop(self.waiting.popleft(), "never", self.now)
            return True
        times = [t[0] for t in self.replies[:1]] + ([self.upcoming.at] if self.upcoming is not None else [])
        if not times:
            return False
        self.now = max(self.now, min(times))
        return True

    def _duration(self, batch: list[Entry]) -> int:
        tokens = self.steady.size
        read = self.steady.read()
        pairs = list(read)
        for e in batch:
            tokens += e.new
            computed = e.req.computed - e.new
            for i, g in enumerate(self.c.groups):
                read[i] += tokens_read(g, computed, e.new)
                pairs[i] += query_pairs(g, computed, e.new)
        self.tokens += tokens - self.steady.size
        return self.time.step(tokens, read, pairs)

    def _count(self, ticks: int, n: int) -> None:
        self.steps += n
        self.tokens += n * self.steady.size
        running = self.steady.size + len(self.ending) + len(self.tail)
        used = self.c.usable - self.pool.free
        self.observer.step(self.now, ticks, running, len(self.waiting), used, self.binds if self.waiting else "")

    def _leap(self) -> int:
        """Steps until something other than decoding may happen: a finish, an arrival that can start, a shortage."""
        if self.ending or self.pending:
            return 1
        n = self.steady.horizon()
        room = self.c.max_num_batched_tokens - self.steady.size
        open_ = self.steady.size < self.c.max_num_seqs and room > 0
        assert isinstance(self.pool, CountPool)
        while n > 1 and self.steady.taken(n) > self.pool.free:
            n //= 2
        if open_ and self.waiting:
            need = self._head_need(room)
            while n > 1 and need <= self.pool.free + self.steady.freed(n):
                n //= 2
        elif open_:
            arrival = self.replies[0][0] if self.replies else FAR
            if self.upcoming is not None and self.upcoming.at < arrival:
                arrival = self.upcoming.at
            if arrival < FAR:
                n = self._steps_before(arrival, n)
        return n

    def _head_need(self, room: int) -> int:
        """Blocks that must be free before the first waiting request starts."""
        req = self.waiting[0]
        chunk = min(req.tokens, room)
        need = sum(g.count * (g.first if g.kind == "state" else -(-chunk // g.block_size)) for g in self.c.groups)
        if self.c.gate != "chunk":
            need = max(need, self.pool.gate(req, req.tokens))
        return need + self.c.watermark_blocks

    def _steps_before(self, arrival: int, n: int) -> int:
        """The most steps, up to n, of which none is scheduled at or after `arrival`."""
        lag = self.c.lag
        if arrival <= self.now:
            return 1
        if arrival > self.now + self.steady.duration(self.time, n)[0]:
            return n
        low, high = 1, n
        while low < high:
            mid = (low + high + 1) // 2
            at = mid - 1 - lag
            begun = self.now + (self.steady.duration(self.time, at)[0] if at > 0 else 0)
            if at < 0 or arrival > begun:
                low = mid
            else:
                high = mid - 1
        return low

    # --- arrivals

    def _receive(self, seen: int) -> None:
        while True:
            job, reply = self.upcoming, self.replies[0] if self.replies else None
            if job is not None and (reply is None or (job.at, job.id) < reply[:2]):
                if job.at > seen:
                    return
                self.upcoming = next(self.source, None)
            elif reply is not None and reply[0] <= seen:
                job = heapq.heappop(self.replies)[2]
            else:
                return
            self._enqueue(job)

    def _enqueue(self, job: Job) -> None:
        length = self.c.max_model_len
        req = Live(job, max(1, min(job.output, length - job.prompt)))
        if not 1 <= job.prompt < length:
            self._drop(req, "rejected", job.at)
        elif not job.chain and self.c.gate != "chunk" and self.c.need(job.prompt) > self.c.usable:
            self._drop(req, "never", job.at)
        else:
            self.waiting.append(req)
            self._sort()

    def _sort(self) -> None:
        if self.c.policy == "priority":
            self.waiting = deque(sorted(self.waiting, key=lambda r: (r.job.priority, r.job.at, r.job.id)))

    def _drop(self, req: Live, outcome: str, at: int) -> None:
        self._leave(req, outcome, at, 0)

    def _leave(self, req: Live, outcome: str, at: int, output: int) -> None:
        req.gone = True
        self.observer.record(
            Record(req.job, outcome, req.started, req.first_token, at, req.preemptions, req.cached, output)  # type: ignore[arg-type]
        )
        reply = self.workload.done(req.job, at)
        if reply is not None:
            heapq.heappush(self.replies, (reply.at, reply.id, reply))

    # --- schedule()

    def _schedule(self) -> list[Entry]:
        alone = self.c.alone_unthrottled and len(self.tail) + len(self.waiting) <= 1
        self.threshold = 0 if alone else self.c.long_prefill_threshold
        if self.steady.size:
            self._decode_steady()
        budget = self.c.max_num_batched_tokens - self.steady.size
        batch, budget, preempted = self._schedule_running(budget)
        if not preempted:
            self._admit(batch, budget)
        elif not self.tail and not self.steady.size and not self.ending:
            hopeless = preempted[-1]  # it had the whole pool and still did not fit: it would start over for ever
            self.waiting.remove(hopeless)
            self._drop(hopeless, "never", self.now)
        for e in batch:
            req = e.req
            req.computed += e.new
            req.in_flight += e.new
            if req.computed >= req.tokens + req.placeholders:
                e.samples = True
                req.warm += 1
                if self.c.lag:
                    req.placeholders += 1 + e.drafts
                req.drafts = self.c.spec_tokens
        return batch

    def _decode_steady(self) -> None:
        """The steady part of the running queue takes its blocks; so many of its youngest as are short leave it."""
        assert isinstance(self.pool, CountPool)
        back: list[Live] = []
        while self.steady.size and self.steady.taken(1) > self.pool.free:
            back.append(self.steady.leave_last())
        if back:
            self._unsettle(back[::-1])
        self.pool.free += self.steady.freed(1) - self.steady.taken(1)

    def _schedule_running(self, budget: int) -> tuple[list[Entry], int, list[Live]]:
        c, tail = self.c, self.tail
        batch: list[Entry] = []
        preempted: list[Live] = []
        index = 0
        while index < len(tail) and budget > 0:
            req = tail[index]
            if req.placeholders and req.computed + 2 - req.placeholders >= req.job.prompt + req.output:
                index += 1  # its last token is in flight
                continue
            new = req.tokens + req.drafts + req.placeholders - req.computed
            if 0 < self.threshold < new:
                new = self.threshold
            new = min(new, budget, c.max_model_len - 1 - req.computed)
            if new <= 0:
                index += 1
                continue
            slots = min(req.computed + new + c.lookahead, c.max_model_len)
            settled = max(0, req.computed - req.in_flight) if c.settled and c.lag else req.computed
            known = min(req.computed + new, req.tokens)
            fits = True
            while not self.pool.extend(req, slots, settled, known):
                victim = self._victim()
                for e in batch if c.policy == "priority" else ():
                    if e.req is victim:
                        batch.remove(e)
                        budget += e.new
                        index -= 1
                        break
                self._preempt(victim)
                preempted.append(victim)
                if victim is req:
                    fits = False
                    break
            if not fits:
                break
            drafts = max(0, min(new + req.computed - req.tokens - req.placeholders, req.drafts))
            batch.append(Entry(req, new, drafts))
            budget -= new
            index += 1
        return batch, budget, preempted

    def _victim(self) -> Live:
        if self.c.policy == "priority":
            victim = max(self.tail, key=lambda r: (r.job.priority, r.job.at, r.job.id))
            self.tail.remove(victim)
            return victim
        return self.tail.pop()

    def _preempt(self, req: Live) -> None:
        """Recompute: all blocks go back, and the request to the head of the queue."""
        self.pool.release(req)
        req.computed = req.drafts = 0
        req.warm = -1
        req.preemptions += 1
        self.preemptions += 1
        req.waiting = True
        self.waiting.appendleft(req)
        self._sort()

    def _admit(self, batch: list[Entry], budget: int) -> None:
        c = self.c
        while self.waiting:
            if self.steady.size + len(self.ending) + len(self.tail) >= c.max_num_seqs:
                self.binds = "max_num_seqs"
                return
            if budget <= 0:
                self.binds = "max_num_batched_tokens"
                return
            self.binds = "blocks"
            req = self.waiting[0]
            cached = self.pool.lookup(req)
            new = req.tokens - cached
            if 0 < self.threshold < new:
                new = self.threshold
            new = min(new, budget)
            spare = c.watermark_blocks if batch or self.steady.size else 0
            if c.gate != "chunk" and self.pool.gate(req, req.tokens) + spare > self.pool.free:
                return
            if not self.pool.start(req, cached, new, spare):
                return
            self.waiting.popleft()
            req.waiting = False
            if req.started < 0:
                req.started, req.cached = self.now, cached
            self.orders += 1
            req.order = self.orders
            self.tail.append(req)
            batch.append(Entry(req, new))
            req.computed = cached
            budget -= new

    # --- update_from_output()

    def _process(self, finished: list[Live], batch: list[Entry], at: int) -> None:
        for req in finished:
            self._finish(req, at)
        for e in batch:
            req = e.req
            req.in_flight -= e.new
            if not e.samples or req.gone:
                continue
            accepted = self._accept(req, e.drafts)
            if req.computed:
                req.computed -= e.drafts - accepted
            if self.c.lag:
                req.placeholders -= 1 + e.drafts
            req.tokens += min(1 + accepted, req.output - (req.tokens - req.job.prompt))
            if req.first_token < 0:
                req.first_token = at
            if req.tokens - req.job.prompt >= req.output:
                self._finish(req, at)

    def _accept(self, req: Live, drafts: int) -> int:
        """Drafts accepted, spread evenly: floor((n + 1) rate) - floor(n rate)."""
        if not drafts:
            return 0
        rate, done = self.c.accepted, req.decodes
        req.decodes += 1
        return min(drafts, (done + 1) * rate // 1000 - done * rate // 1000)

    def _finish(self, req: Live, at: int) -> None:
        if req.waiting:
            self.waiting.remove(req)
        else:
            if req in self.tail:
                self.tail.remove(req)
            self.pool.release(req)
        self._leave(req, "done", at, req.output)

    # --- between the two parts of `running`

    def _settle(self) -> None:
        """The oldest of the tail that decode regularly become steady."""
        ready = 0
        for req in self.tail:
            left = req.job.prompt + req.output - (req.computed + 1)
            if req.warm < self.warm_after or left <= 0 or req.computed + 1 != req.tokens + req.placeholders:
                break
            ready += 1
        if not ready:
            return
        moved, self.tail = self.tail[:ready], self.tail[ready:]
        for req in moved:
            self.steady.join(req)
        if self.pending:
            gone = set(moved)
            self.pending = [e for e in self.pending if e.req not in gone]

    def _unsettle(self, back: list[Live]) -> None:
        """Back to the tail, as if each had been stepped one by one; whose last token is in flight keeps its place."""
        lag = self.c.lag
        ending = [r for r in self.ending if r.order > back[0].order]
        self.ending = [r for r in self.ending if r.order < back[0].order]
        for req in back:
            req.placeholders = req.in_flight = lag
            req.tokens = req.computed + 1 - lag
        for req in ending:
            req.placeholders = req.in_flight = lag
            req.tokens = req.job.prompt + req.output - lag
        back = [*back, *ending]
        self.tail = sorted([*back, *self.tail], key=lambda r: r.order)
        if self.pending is not None:
            for req in back:
                entry = Entry(req, 1)
                entry.samples = True
                self.pending.append(entry)
            self.pending.sort(key=lambda e: e.req.order)
