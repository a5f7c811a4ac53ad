"""vLLM's scheduler (v1/core/sched/scheduler.py): waiting and running queues, a token budget, a block pool.

The life of a request: it arrives -> waits -> the gate lets it in and it gets blocks for its first chunk -> chunks of
its prompt -> the last chunk samples the first token -> one token a step (and drafts) -> it finishes and gives its
blocks back; or it is preempted on the way, loses them all, and starts again at the head of the queue.

`running` is kept in two parts. `tail`: the youngest, treated one by one, exactly as the engine does. `steady`: those
before them that only decode; they are summed (steady.py), so that a step costs what changes in it. Whenever blocks get
short, as many as needed go back to the tail. When steps happen, and how many at once, is in loop.py.
"""

from collections import deque
from itertools import takewhile

from oomph.engines.vllm.scheduler.blocks import BlockPool
from oomph.engines.vllm.scheduler.live import Live
from oomph.engines.vllm.scheduler.pools import CountPool
from oomph.engines.vllm.scheduler.resting import Resting
from oomph.engines.vllm.scheduler.rules import PATIENCE, aligned_chunk
from oomph.engines.vllm.scheduler.runs import RunPool
from oomph.engines.vllm.scheduler.steady import Steady
from oomph.simulate.config import Config, Outcome


class Entry:
    """One request's part of a step."""

    __slots__ = ("drafts", "new", "req", "samples")

    def __init__(self, req: Live, new: int, drafts: int = 0) -> None:
        self.req, self.new, self.drafts, self.samples = req, new, drafts, False


def _pool(config: Config, shared: bool) -> CountPool | BlockPool:
    """The simplest that knows enough. A state that is no block of tokens keeps all of its model out of the cache."""
    kinds = [group.kind for group in config.expanded()]
    if not shared or not config.prefix_caching or "state" in kinds:
        return CountPool(config)
    return RunPool(config) if kinds == ["full"] else BlockPool(config)


class Scheduler:
    def __init__(self, config: Config, shared: bool) -> None:
        """`shared`: requests may have prefixes in common."""
        self.c = config
        self.pool = _pool(config, shared)
        blocks = isinstance(self.pool, BlockPool)
        self.steady = Resting(config) if blocks else Steady(config)
        if isinstance(self.pool, RunPool):
            self.steady = self.pool.steady
        self.summed = not blocks and config.regular
        self.rests = blocks and config.regular
        self.tail: list[Live] = []
        self.ending: list[Live] = []  # were steady; their last token is in flight
        self.waiting: deque[Live] = deque()
        self.pending: list[Entry] | None = None  # the step whose tokens are not known yet
        self.preempted: list[Live] = []  # in this step
        self.now = self.preemptions = self.orders = 0
        self.calls = 0  # of schedule()
        self.budget = self.room = self.threshold = 0  # left in this step: tokens, places in the batch
        self.binds = ""
        self.aligned, self.block = config.aligned, config.block

    def leave(self, req: Live, outcome: Outcome, at: int, output: int) -> None:
        """It is gone, and its user may ask again (loop.py)."""
        raise NotImplementedError

    # --- schedule()

    def schedule(self) -> list[Entry]:
        config = self.c
        self.pool.begin()
        self.calls += 1
        alone = config.alone_unthrottled and len(self.tail) + len(self.waiting) <= 1
        self.threshold = 0 if alone else config.long_prefill_threshold
        if self.steady.size:
            self._decode_steady()
        self.budget, self.room = config.budget - self.steady.size, config.max_num_batched_tokens - self.steady.size
        self.preempted = []
        batch = self._schedule_running()
        if not self.preempted:
            if self.waiting:
                self._admit(batch)
        else:
            self.binds = "blocks"
        if self.preempted and not self.tail and not self.steady.size and not self.ending:
            self._give_up(self.preempted[-1])
        for entry in batch:
            req = entry.req
            req.computed += entry.new
            req.in_flight += entry.new
            req.chunking = req.computed < req.tokens + req.placeholders
            if not req.chunking:
                entry.samples = True
                req.warm += 1
                if config.lag:
                    req.placeholders += 1 + entry.drafts
                    req.eligible = self.calls + config.decode_stagger
                req.drafts = config.spec_tokens
        return batch

    def _decode_steady(self) -> None:
        """The steady part of the running queue takes its blocks; so many of its youngest as are short leave it."""
        if isinstance(self.steady, Resting):
            self._wake(self.steady)
            return
        assert isinstance(self.pool, CountPool)
        back: list[Live] = []
        while self.steady.size and self.steady.taken(1) > self.pool.free:
            back.append(self.steady.leave_last())
        if back:
            self._unsettle(back[::-1])
        self.pool.free += self.steady.freed(1) - self.steady.taken(1)

    def _wake(self, resting: Resting) -> None:
        """Who is due; and everybody where blocks may run out in this step, so that the youngest can be found."""
        due = resting.wake(all_of_them=False)
        tail = [*due, *self.tail]
        tokens = sum(min(req.tokens + req.placeholders - req.computed, self.c.budget) for req in self.tail)
        smallest = min(group.block_size for group in self.pool.groups)
        if self.pool.free < len(self.pool.groups) * (tokens // smallest + 2 * len(tail)):
            due += resting.wake(all_of_them=True)
        if due:
            self._unsettle(due)

    def _schedule_running(self) -> list[Entry]:
        config, tail, slots, extend = self.c, self.tail, self.c.draft_slots, self.pool.extend
        threshold, last = self.threshold, config.max_model_len - 1
        batch: list[Entry] = []
        index = 0
        while index < len(tail) and self.budget > 0 and self.room > slots:
            req = tail[index]
            computed, placeholders = req.computed, req.placeholders
            if placeholders and computed + 2 - placeholders >= req.total and config.known_end:
                index += 1  # its last token is in flight
                continue
            if self.calls < req.eligible:
                index += 1
                continue
            new = req.tokens + req.drafts + placeholders - computed
            if 0 < threshold < new:
                new = threshold
            if new > 1:
                new = min(new, self.budget, self.room - slots)
            if new > last - computed:
                new = last - computed
            if self.aligned:
                junction = 0 if config.split == "common" else req.junction
                new = aligned_chunk(config, self.block, computed, new, req.job.prompt, req.tokens, junction)
            if new <= 0:
                index += 1
                continue
            fits = computed + new < req.quiet or extend(req, new)
            while not fits:
                victim, index = self._victim(batch, index)
                self._preempt(victim)
                if victim is req:
                    break
                fits = extend(req, new)
            if not fits:
                break
            drafts = max(0, min(new + computed - req.tokens - placeholders, req.drafts)) if req.drafts else 0
            req.drafts = 0
            batch.append(Entry(req, new, drafts))
            self.budget -= new
            self.room -= new + slots
            index += 1
        return batch

    def _victim(self, batch: list[Entry], index: int) -> tuple[Live, int]:
        """Who loses its blocks, taken out of `running`, and where the scan stands then."""
        if self.c.policy == "fcfs":
            return self.tail.pop(), index
        victim = max(self.tail, key=lambda r: (r.job.priority, r.job.at, r.job.id))
        place = self.tail.index(victim)
        del self.tail[place]
        moved = place < index if self.c.victim_by_place else False
        for entry in batch:
            if entry.req is victim:
                batch.remove(entry)
                self.budget += entry.new
                self.room += entry.new + self.c.draft_slots
                moved = True
                break
        return victim, index - moved

    def _preempt(self, req: Live) -> None:
        """Recompute: all blocks go back, and the request to the head of the queue."""
        self.preempted.append(req)
        self.pool.release(req)
        req.computed = 0
        if not self.c.drafts_stay:
            req.drafts = 0
        if self.c.stale_waits:
            req.stale, req.placeholders = req.in_flight, 0
        req.warm = -1
        req.preemptions += 1
        self.preemptions += 1
        req.waiting = True
        self.waiting.appendleft(req)
        self.sort()

    def _give_up(self, req: Live) -> None:
        """It had the whole pool and still did not fit. What the prefix cache kept may bring it further next time;
        else the engine would go on for ever."""
        req.lone = req.lone + 1 if req.reached == req.tokens else 1
        req.reached = req.tokens
        if req.lone > (PATIENCE if self.pool.caching else 0):
            self.waiting.remove(req)
            self.leave(req, "never", self.now, 0)

    def sort(self) -> None:
        if self.c.policy == "priority":
            self.waiting = deque(sorted(self.waiting, key=lambda r: (r.job.priority, r.job.at, r.job.id)))

    # --- waiting -> running

    def _admit(self, batch: list[Entry]) -> None:
        config, slots = self.c, self.c.draft_slots
        running = len(batch)
        skipped: list[Live] = []
        while self.waiting:
            if self.steady.size + len(self.ending) + len(self.tail) >= config.max_num_seqs:
                self.binds = "max_num_seqs"
                break
            if self.budget <= 0 or self.room <= slots:
                self.binds = "max_num_batched_tokens"
                break
            self.binds = "blocks"
            req = self.waiting[0]
            if req.stale:
                skipped.append(self.waiting.popleft())
                continue
            cached = self.pool.lookup(req)
            new, drafts = self._first_chunk(req, cached, batch[:running] if config.pad_drafts != "no" else batch)
            spare = config.watermark_blocks if self.tail or self.ending or self.steady.size else 0
            if not new or not self.pool.admit(req, cached, new, spare):
                break
            self.waiting.popleft()
            req.waiting = False
            if req.started < 0:
                req.started, req.cached = self.now, cached
            self.orders += 1
            req.order = self.orders
            self.tail.append(req)
            batch.append(Entry(req, new, drafts))
            req.computed = cached
            self.budget -= new
            self.room -= new + slots
        if skipped:
            self.waiting.extendleft(reversed(skipped))
            self.sort()

    def _first_chunk(self, req: Live, cached: int, running: list[Entry]) -> tuple[int, int]:
        """(tokens, drafts among them) of its first step; 0: it does not start now."""
        config = self.c
        new, drafts, room = req.tokens - cached, 0, min(self.budget, self.room - config.draft_slots)
        if new == 1 and config.spec_tokens and config.pad_drafts != "no" and self._pads(running, cached):
            padded, tight = 1 + config.spec_tokens, config.pad_drafts == "any"
            if not tight or cached + padded + 1 <= config.max_model_len:
                if padded > room or (not tight and cached + padded > config.max_model_len):
                    return 0, 0
                new, drafts = padded, config.spec_tokens
        if 0 < self.threshold < new:
            new = self.threshold
        new = min(new, room)
        if self.aligned:
            cut = aligned_chunk(config, self.block, cached, new, req.job.prompt, req.tokens, req.junction)
            if cut and cut != new and drafts and config.pad_drafts == "any":
                return 1, 0
            new = cut
        return new, drafts

    def _pads(self, running: list[Entry], cached: int) -> bool:
        """Whether who starts with one token is given drafts, so that the batch keeps one shape (scheduler.py:817,
        0.25.1; :1138, 0.32.0)."""
        if any(e.req.chunking for e in running):
            return False
        return bool(running) or (self.c.pad_drafts == "any" and cached > 0)

    # --- update_from_output()

    def process(self, finished: list[Live], batch: list[Entry], at: int) -> None:
        config, caching = self.c, self.pool.caching and self.c.lag
        for req in finished:
            self.pool.remember(req, req.computed)
            self._finish(req, at)
        for entry in batch:
            req = entry.req
            req.in_flight -= entry.new
            stale = req.stale > 0
            if stale:
                req.stale -= entry.new
            if not entry.samples or req.gone:
                continue
            accepted = self._accept(req, entry.drafts) if entry.drafts else 0
            if not stale:
                if req.computed:
                    req.computed -= entry.drafts - accepted
                if config.lag:
                    req.placeholders -= 1 + entry.drafts
            fresh = min(1 + accepted, req.total - req.tokens)
            req.tokens += fresh
            if req.first_token < 0:
                req.first_token = at
            if caching and not req.waiting and (req.tails or req.tokens >= req.next_key):
                unsure = req.placeholders + (0 if stale else 1 + accepted - fresh)
                self.pool.remember(req, min(req.computed - unsure, req.tokens))
            if req.tokens >= req.total:
                self._finish(req, at)

    def _accept(self, req: Live, drafts: int) -> int:
        """Drafts accepted, spread evenly: floor((n + 1) rate) - floor(n rate)."""
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
        self.leave(req, "done", at, req.output)

    # --- between the two parts of `running`

    def settle(self) -> None:
        """The oldest of the tail that decode regularly become steady."""
        gone = set()
        if isinstance(self.steady, Resting):
            for req in takewhile(
                lambda req: not req.chunking, self.tail
            ):  # a chunk may take all that is left of a step
                if self.steady.ready(req):
                    self.steady.join(req)
                    gone.add(req)
        else:
            for req in self.tail:
                left = req.total - (req.computed + 1)
                if req.warm < self.steady.warm_after or left <= 0 or req.computed + 1 != req.tokens + req.placeholders:
                    break
                if not self.steady.ready(req):
                    break
                if req.first_token < 0:  # known at the end of this step
                    req.first_token = self.now
                self.steady.join(req)
                gone.add(req)
        if not gone:
            return
        self.tail = [req for req in self.tail if req not in gone]
        if self.pending:
            self.pending = [e for e in self.pending if e.req not in gone]

    def _unsettle(self, back: list[Live]) -> None:
        """Back to the tail, as if each had been stepped one by one; whose last token is in flight keeps its place."""
        lag = self.c.lag
        ending = [r for r in self.ending if r.order > back[0].order]
        self.ending = [r for r in self.ending if r.order < back[0].order]
        for req in back:
            req.placeholders = req.in_flight = lag
            req.tokens = req.computed + 1 - lag
            if req.tokens == req.job.prompt:  # its first token is in flight
                req.first_token = -1
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
            self.pending.sort(key=lambda entry: entry.req.order)
