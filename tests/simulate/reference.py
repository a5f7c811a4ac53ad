"""vLLM's scheduler, literally: one step at a time, no shortcut. Its blocks are in reference_blocks.py.

Written from v1/core/sched/scheduler.py and async_scheduler.py, 0.11.0 to 0.32.0; what changed in between is asked of
the config. The fast simulator must agree with it on every request, to a tick.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from reference_blocks import Blocks, Req

from oomph.engines.vllm.scheduler.rules import PATIENCE, aligned_chunk
from oomph.simulate.config import Config, Job, Record
from oomph.simulate.timing import StepTime, query_pairs, tokens_read, touched_share

Entry = list[Any]  # request, new tokens, drafts among them, whether the step samples


class Reference:
    def __init__(self, config: Config, time: StepTime, workload: Any, *, thorough: bool = True) -> None:
        self.thorough = thorough
        self.c, self.time, self.workload = config, time, workload
        self.groups = config.expanded()
        self.kv = Blocks(config)
        self.pool = self.kv.pool
        self.running: list[Req] = []
        self.waiting: deque[Req] = deque()
        self.records: list[Record] = []
        self.received = 0
        self.arrivals: list[tuple[int, int, Job]] = []
        self.steps = self.preemptions = self.peak = self.scheduled_tokens = 0
        self.now = self.server_end = 0
        self.preempted: list[Req] = []

    # --- the loop -----------------------------------------------------------------------------------------------

    def run(self) -> list[Record]:
        source = iter(self.workload.jobs())
        self.source_next = next(source, None)
        pending: list[Entry] | None = None
        pending_start = 0
        while True:
            seen = self.now if pending is None else pending_start
            self.receive(source, seen)
            batch = self.schedule()
            if not batch:
                if pending is not None:
                    self.process(pending, self.now)
                    pending = None
                    continue
                if self.preempted:  # an empty step: the engine schedules again
                    continue
                if self.waiting:
                    self.drop(self.waiting.popleft(), "never", self.now)
                    continue
                upcoming = self.arrival()
                if upcoming is None:
                    return self.records
                self.now = max(self.now, upcoming[0])
                continue
            start = self.now
            self.now += self.duration(batch)
            self.steps += 1
            self.check(batch)
            if self.c.lag:
                if pending is not None:
                    self.process(pending, start)
                pending, pending_start = batch, start
            else:
                self.process(batch, self.now)

    def arrival(self) -> tuple[int, Job] | None:
        """When the engine sees the next request: the server reads them one after the other."""
        jobs = [(job.at, job.id, job) for job in [self.source_next] if job is not None] + self.arrivals[:1]
        if not jobs:
            return None
        job = min(jobs)[2]
        time = self.time
        reading = time.request + time.prompt_token * job.prompt + time.stream * (self.received - len(self.records))
        return max(self.server_end, job.at) + reading, job

    def receive(self, source: Any, seen: int) -> None:
        while (arrival := self.arrival()) is not None and arrival[0] <= seen:
            self.server_end, job = arrival
            if job is self.source_next:
                self.source_next = next(source, None)
            else:
                heapq.heappop(self.arrivals)
            self.received += 1
            self.enqueue(job)

    def enqueue(self, job: Job) -> None:
        req = Req(job, self.groups)
        if job.prompt >= self.c.max_model_len or job.prompt < 1:
            self.drop(req, "rejected", job.at)
            return
        req.output = max(1, min(job.output, self.c.max_model_len - job.prompt))
        if not job.chain and self.c.gate != "chunk" and self.c.need(job.prompt) > self.c.usable:
            self.drop(req, "never", job.at)
            return
        self.waiting.append(req)
        self.sort_waiting()

    def sort_waiting(self) -> None:
        if self.c.policy == "priority":
            self.waiting = deque(sorted(self.waiting, key=lambda r: (r.job.priority, r.job.at, r.job.id)))

    def drop(self, req: Req, outcome: Any, at: int) -> None:
        req.gone = True
        self.records.append(
            Record(req.job, outcome, req.started, req.first_token, at, req.preemptions, max(0, req.cached), 0)
        )
        self.follow(req, at)

    def follow(self, req: Req, at: int) -> None:
        after = self.workload.done(req.job, at)
        if after is not None:
            heapq.heappush(self.arrivals, (after.at, after.id, after))

    def duration(self, batch: list[Entry]) -> int:
        t, tokens = self.time, sum(new for _, new, _, _ in batch)
        total = t.base + t.sequence * len(batch) + t.token * tokens + max(t.weights, t.linear * tokens)
        total += max(t.head, t.head_linear * len(batch))
        total += sum(t.reduce if i < t.large else t.reduce_large for i in range(tokens))
        if t.experts:
            share = touched_share(t.num_experts, t.top_k, tokens)
            total += max(t.experts * share // 10**6, t.expert_linear * tokens)
        total = max(total, t.output * len(batch))
        for req, new, _, _ in batch:
            for i, g in enumerate(self.c.groups):
                read = tokens_read(g, req.computed - new, new)
                total += max(t.kv[i] * read, t.attention[i] * query_pairs(g, req.computed - new, new))
        return total

    # --- scheduler.py: schedule() -------------------------------------------------------------------------------

    def schedule(self) -> list[Entry]:
        self.kv.this_step.clear()
        self.budget, self.room = self.c.budget, self.c.max_num_batched_tokens
        alone = self.c.alone_unthrottled and len(self.running) + len(self.waiting) <= 1
        self.threshold = 0 if alone else self.c.long_prefill_threshold
        self.preempted = []
        batch = self.schedule_running()
        if not self.preempted:
            self.admit(batch)
        elif not self.running:
            alone = self.preempted[-1]  # it had the whole pool and still did not fit
            alone.lone = alone.lone + 1 if alone.reached == alone.tokens else 1
            alone.reached = alone.tokens
            if alone.lone > (PATIENCE if self.kv.caching else 0):  # the engine would go on for ever
                self.waiting.remove(alone)
                self.drop(alone, "never", self.now)
        for entry in batch:
            req, new, drafts, _ = entry
            req.computed += new
            req.in_flight += new
            req.chunking = req.computed < req.tokens + req.placeholders
            if not req.chunking:
                entry[3] = True  # this step samples
                if self.c.lag:
                    req.placeholders += 1 + drafts
                req.drafts = self.c.spec_tokens
        return batch

    def schedule_running(self) -> list[Entry]:
        batch: list[Entry] = []
        slots, index = self.c.draft_slots, 0
        while index < len(self.running) and self.budget > 0 and self.room > slots:
            req = self.running[index]
            ends = req.computed + 2 - req.placeholders >= req.job.prompt + req.output
            if self.c.known_end and req.placeholders and ends:
                index += 1
                continue
            new = req.tokens + req.drafts + req.placeholders - req.computed
            if 0 < self.threshold < new:
                new = self.threshold
            new = min(new, self.budget, self.room - slots, self.c.max_model_len - 1 - req.computed)
            if self.c.aligned:
                junction = req.junction if self.c.split != "common" else 0
                new = aligned_chunk(self.c, self.c.block, req.computed, new, req.job.prompt, req.tokens, junction)
            if new <= 0:
                index += 1
                continue
            fits = True
            while not self.kv.extend(req, new, self.c.lookahead):
                victim, index = self.choose(batch, index)
                self.preempt(victim)
                self.preempted.append(victim)
                if victim is req:
                    fits = False
                    break
            if not fits:
                break
            drafts = max(0, new + req.computed - req.tokens - req.placeholders)
            batch.append([req, new, min(drafts, req.drafts), False])
            req.drafts = 0
            self.budget -= new
            self.room -= new + slots
            index += 1
        return batch

    def choose(self, batch: list[Entry], index: int) -> tuple[Req, int]:
        """The victim of a shortage, taken out of `running`, and where the scan stands then."""
        if self.c.policy == "fcfs":
            return self.running.pop(), index
        victim = max(self.running, key=lambda r: (r.job.priority, r.job.at, r.job.id))
        place = self.running.index(victim)
        del self.running[place]
        scheduled = [e for e in batch if e[0] is victim]
        for entry in scheduled:
            batch.remove(entry)
            self.budget += entry[1]
            self.room += entry[1] + self.c.draft_slots
        if place < index if self.c.victim_by_place else scheduled:
            index -= 1
        return victim, index

    def admit(self, batch: list[Entry]) -> None:
        slots = self.c.draft_slots
        skipped = []
        running = list(batch)
        while self.waiting and self.budget > 0 and self.room > slots and len(self.running) < self.c.max_num_seqs:
            req = self.waiting[0]
            if self.c.stale_waits and req.stale:
                skipped.append(self.waiting.popleft())
                continue
            hits, cached = self.kv.lookup(req)
            new, drafts = req.tokens - cached, 0
            room = min(self.budget, self.room - slots)
            if self.pads(running, new, cached):
                drafts, new = self.c.spec_tokens, 1 + self.c.spec_tokens
                over = cached + new > self.c.max_model_len
                if self.c.pad_drafts == "any" and cached + new + 1 > self.c.max_model_len:
                    drafts, new = 0, 1
                elif new > room or (self.c.pad_drafts == "running" and over):
                    break
            if 0 < self.threshold < new:
                new = self.threshold
            new = min(new, room)
            if self.c.aligned:
                padded = new
                new = aligned_chunk(self.c, self.c.block, cached, new, req.job.prompt, req.tokens, req.junction)
                if not new:
                    break
                if drafts and new != padded and self.c.pad_drafts == "any":
                    new, drafts = 1, 0
            watermark = self.c.watermark_blocks if self.running else 0
            lookahead = self.c.lookahead if self.c.lookahead_first else 0
            if not self.kv.admit(req, hits, cached, new, lookahead, watermark):
                break
            self.waiting.popleft()
            req.waiting = False
            if req.started < 0:
                req.started, req.cached = self.now, cached
            self.running.append(req)
            batch.append([req, new, drafts, False])
            req.computed = cached
            self.budget -= new
            self.room -= new + slots
        self.waiting.extendleft(reversed(skipped))
        self.sort_waiting()

    def pads(self, running: list[Entry], new: int, cached: int) -> bool:
        """Whether a request that starts with one token is given drafts, so that the batch keeps one shape."""
        if self.c.pad_drafts == "no" or not self.c.spec_tokens or new != 1 or any(e[0].chunking for e in running):
            return False
        return bool(running) or (self.c.pad_drafts == "any" and cached > 0)

    def preempt(self, req: Req) -> None:
        self.kv.release(req)
        req.computed = 0
        if not self.c.drafts_stay:
            req.drafts = 0
        if self.c.stale_waits:
            req.stale, req.placeholders = req.in_flight, 0
        req.preemptions += 1
        self.preemptions += 1
        req.waiting = True
        self.waiting.appendleft(req)
        self.sort_waiting()

    # --- scheduler.py: update_from_output() ---------------------------------------------------------------------

    def process(self, batch: list[Entry], at: int) -> None:
        """`at` is when the step ended."""
        for req, new, drafts, sampled in batch:
            req.in_flight -= new
            stale = req.stale > 0
            if stale:
                req.stale -= new
            if not sampled or req.gone:
                continue
            accepted = self.accept(req, drafts)
            if not stale:
                if req.computed:
                    req.computed -= drafts - accepted
                if self.c.lag:
                    req.placeholders -= 1 + drafts
            fresh = min(1 + accepted, req.output - (req.tokens - req.job.prompt))
            req.tokens += fresh
            if req.first_token < 0:
                req.first_token = at
            if self.c.lag and not req.waiting:  # AsyncScheduler._update_request_with_output
                unsure = req.placeholders + (1 + accepted - fresh if not stale else 0)
                self.kv.remember(req, min(req.computed - unsure, req.tokens))
            if req.tokens - req.job.prompt >= req.output:
                self.finish(req, at)

    def accept(self, req: Req, drafts: int) -> int:
        if not drafts:
            return 0
        rate, done = self.c.accepted, req.decodes
        req.decodes += 1
        return min(drafts, (done + 1) * rate // 1000 - done * rate // 1000)

    def finish(self, req: Req, at: int) -> None:
        if req.waiting:
            self.waiting.remove(req)
        else:
            self.running.remove(req)
            self.kv.release(req)
        seen, at = req.first_token + self.time.response, at + self.time.response
        self.records.append(Record(req.job, "done", req.started, seen, at, req.preemptions, req.cached, req.output))
        req.gone = True
        self.follow(req, at)

    # --- what must always hold ----------------------------------------------------------------------------------

    def check(self, batch: list[Entry]) -> None:
        tokens = sum(new for _, new, _, _ in batch)
        assert 0 < tokens <= self.c.budget
        assert len(self.running) <= self.c.max_num_seqs
        self.scheduled_tokens += tokens
        if not self.thorough:
            return
        held: dict[int, int] = {}
        for req in self.running:
            for mine in req.blocks:
                for block in mine:
                    if block is not self.pool.null:
                        held[block.number] = held.get(block.number, 0) + 1
        for number, count in held.items():
            assert self.pool.blocks[number].ref == count
            assert number not in self.pool.queue
        assert len(held) + self.pool.free == self.c.usable, "a block was lost"
        self.peak = max(self.peak, len(held))
