"""vLLM's scheduler, literally: one step at a time, real blocks in a real free queue, no shortcut.

Written from v1/core/sched/scheduler.py, kv_cache_manager.py, single_type_kv_cache_manager.py and block_pool.py of
0.21.0 (later rules where the config asks for them). The fast simulator must agree with it on every request, to a tick.
"""

from __future__ import annotations

import heapq
from collections import deque
from math import lcm
from typing import Any

from oomph.simulate.config import Config, Group, Job, Record, block_keys
from oomph.simulate.timing import StepTime, query_pairs, tokens_read
from oomph.units import cdiv

Entry = list[Any]  # request, new tokens, drafts among them, whether the step samples


class Block:
    def __init__(self, number: int) -> None:
        self.number, self.ref, self.key = number, 0, None


class Pool:
    def __init__(self, num_blocks: int, uncached_first: bool) -> None:
        self.blocks = [Block(i) for i in range(num_blocks)]
        self.null = self.blocks[0]
        self.queue: dict[int, Block] = {b.number: b for b in self.blocks[1:]}  # ordered: first is evicted first
        self.cache: dict[Any, dict[int, Block]] = {}
        self.uncached_first = uncached_first

    @property
    def free(self) -> int:
        return len(self.queue)

    def take(self, n: int) -> list[Block]:
        assert n <= self.free, "a block was handed out twice"
        out = []
        for _ in range(n):
            number = next(iter(self.queue))
            block = self.queue.pop(number)
            assert block.ref == 0
            if block.key is not None:
                same = self.cache[block.key]
                del same[number]
                if not same:
                    del self.cache[block.key]
                block.key = None
            block.ref = 1
            out.append(block)
        return out

    def give(self, blocks: list[Block]) -> None:
        first, last = [], []
        for block in blocks:
            if block is self.null:
                continue
            block.ref -= 1
            assert block.ref >= 0
            if block.ref == 0:
                (first if self.uncached_first and block.key is None else last).append(block)
        for block in last:
            self.queue[block.number] = block
        if first:
            rest = self.queue
            self.queue = {b.number: b for b in first}
            self.queue.update(rest)

    def touch(self, blocks: list[Block]) -> None:
        for block in blocks:
            if block is not self.null:
                if block.ref == 0:
                    del self.queue[block.number]
                block.ref += 1


class Req:
    def __init__(self, job: Job, groups: tuple[Group, ...]) -> None:
        self.job = job
        self.output = job.output
        self.tokens = job.prompt  # prompt and known output
        self.computed = 0
        self.placeholders = 0
        self.in_flight = 0
        self.drafts = 0
        self.decodes = 0
        self.blocks: list[list[Block]] = [[] for _ in groups]
        self.started = self.first_token = self.finished = -1
        self.preemptions = 0
        self.cached = -1
        self.waiting = True
        self.gone = False
        self.keyed = [0 for _ in groups]


class Reference:
    def __init__(self, config: Config, time: StepTime, workload: Any, *, thorough: bool = True) -> None:
        self.thorough = thorough
        self.caching = config.prefix_caching
        self.c, self.time, self.workload = config, time, workload
        self.groups = config.expanded()
        self.pool = Pool(config.num_blocks, config.uncached_first)
        self.running: list[Req] = []
        self.waiting: deque[Req] = deque()
        self.records: list[Record] = []
        self.arrivals: list[tuple[int, int, Job]] = []
        self.steps = self.preemptions = self.peak = self.scheduled_tokens = 0
        self.now = 0
        self.alignment = lcm(*(g.block_size for g in self.groups if g.kind != "state"), 1)

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
                if self.waiting:
                    self.drop(self.waiting.popleft(), "never", self.now)
                    continue
                upcoming = [t[0] for t in self.arrivals[:1]]
                if self.source_next is not None:
                    upcoming.append(self.source_next.at)
                if not upcoming:
                    return self.records
                self.now = max(self.now, min(upcoming))
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

    def receive(self, source: Any, seen: int) -> None:
        while True:
            closed = self.arrivals[0] if self.arrivals else None
            opened = self.source_next
            if opened is not None and (closed is None or (opened.at, opened.id) < closed[:2]):
                if opened.at > seen:
                    return
                job, self.source_next = opened, next(source, None)
            elif closed is not None and closed[0] <= seen:
                job = heapq.heappop(self.arrivals)[2]
            else:
                return
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
        if self.c.policy == "priority":
            self.sort_waiting()

    def sort_waiting(self) -> None:
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
        tokens = sum(new for _, new, _, _ in batch)
        read = [sum(tokens_read(g, r.computed - new, new) for r, new, _, _ in batch) for g in self.c.groups]
        pairs = [sum(query_pairs(g, r.computed - new, new) for r, new, _, _ in batch) for g in self.c.groups]
        return self.time.step(tokens, read, pairs)

    # --- scheduler.py -------------------------------------------------------------------------------------------

    def schedule(self) -> list[Entry]:
        budget = self.c.max_num_batched_tokens
        alone = self.c.alone_unthrottled and len(self.running) + len(self.waiting) <= 1
        self.threshold = 0 if alone else self.c.long_prefill_threshold
        batch: list[Entry] = []
        preempted = []
        index = 0
        while index < len(self.running) and budget > 0:
            req = self.running[index]
            if req.placeholders and req.computed + 2 - req.placeholders >= req.job.prompt + req.output:
                index += 1
                continue
            new = req.tokens + req.drafts + req.placeholders - req.computed
            if 0 < self.threshold < new:
                new = self.threshold
            new = min(new, budget, self.c.max_model_len - 1 - req.computed)
            if new <= 0:
                index += 1
                continue
            ok = True
            while not self.allocate(req, new, self.c.lookahead):
                if self.c.policy == "priority":
                    victim = max(self.running, key=lambda r: (r.job.priority, r.job.at, r.job.id))
                    self.running.remove(victim)
                    for entry in batch:
                        if entry[0] is victim:
                            batch.remove(entry)
                            budget += entry[1]
                            index -= 1
                            break
                else:
                    victim = self.running.pop()
                self.preempt(victim)
                preempted.append(victim)
                if victim is req:
                    ok = False
                    break
            if not ok:
                break
            drafts = max(0, new + req.computed - req.tokens - req.placeholders)
            batch.append([req, new, min(drafts, req.drafts), False])
            budget -= new
            index += 1
        if not preempted:
            self.admit(batch, budget)
        elif not self.running:
            alone = preempted[-1]  # it had the whole pool and still did not fit: it would start over for ever
            self.waiting.remove(alone)
            self.drop(alone, "never", self.now)
        for entry in batch:
            req, new, drafts, _ = entry
            req.computed += new
            req.in_flight += new
            if req.computed >= req.tokens + req.placeholders:
                entry[3] = True  # this step samples
                if self.c.lag:
                    req.placeholders += 1 + drafts
                req.drafts = self.c.spec_tokens
        return batch

    def admit(self, batch: list[Entry], budget: int) -> None:
        while self.waiting and budget > 0 and len(self.running) < self.c.max_num_seqs:
            req = self.waiting[0]
            hits, cached = self.lookup(req)
            new = req.tokens - cached
            if 0 < self.threshold < new:
                new = self.threshold
            new = min(new, budget)
            watermark = self.c.watermark_blocks if batch else 0
            if self.c.gate != "chunk" and (self.gate_need(req, hits, cached, req.tokens) + watermark > self.pool.free):
                return
            if not self.start(req, hits, cached, new, watermark):
                return
            self.waiting.popleft()
            req.waiting = False
            if req.started < 0:
                req.started, req.cached = self.now, cached
            self.running.append(req)
            batch.append([req, new, 0, False])
            req.computed = cached
            budget -= new

    def preempt(self, req: Req) -> None:
        self.release(req)
        req.computed = req.drafts = 0
        req.preemptions += 1
        self.preemptions += 1
        req.waiting = True
        self.waiting.appendleft(req)
        if self.c.policy == "priority":
            self.sort_waiting()

    def process(self, batch: list[Entry], at: int) -> None:
        """update_from_output: `at` is when the step ended."""
        for req, new, drafts, sampled in batch:
            req.in_flight -= new
            if sampled and not req.gone:
                accepted = self.accept(req, drafts)
                rejected = drafts - accepted
                if req.computed:
                    req.computed -= rejected
                if self.c.lag:
                    req.placeholders -= 1 + drafts
                fresh = min(1 + accepted, req.output - (req.tokens - req.job.prompt))
                req.tokens += fresh
                if req.first_token < 0:
                    req.first_token = at
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
            self.release(req)
        self.records.append(
            Record(req.job, "done", req.started, req.first_token, at, req.preemptions, req.cached, req.output)
        )
        req.gone = True
        self.follow(req, at)

    # --- kv_cache_manager.py ------------------------------------------------------------------------------------

    def lookup(self, req: Req) -> tuple[list[list[Block]], int]:
        none: list[list[Block]] = [[] for _ in self.groups]
        if not self.caching or any(g.kind == "state" for g in self.groups):
            return none, 0
        length = req.tokens - 1
        kinds = sorted(dict.fromkeys(self.groups), key=lambda g: g.kind != "full")
        hits: dict[Group, list[list[Block]]] = {}
        while True:
            current = length
            for group in kinds:
                ids = [i for i, g in enumerate(self.groups) if g == group]
                if group.kind == "full" and group in hits:
                    current = current // group.block_size * group.block_size
                    continue
                hits[group] = self.longest(req, group, ids, current)
                current = len(hits[group][0]) * group.block_size
            if current >= length:
                break
            length = current
            if len(kinds) <= 2 and kinds[0].kind == "full":
                break
        out = []
        seen: dict[Group, int] = {}
        for group in self.groups:
            i = seen.get(group, 0)
            seen[group] = i + 1
            out.append(hits[group][i][: length // group.block_size])
        return out, length

    def longest(self, req: Req, group: Group, ids: list[int], length: int) -> list[list[Block]]:
        size = group.block_size
        count = length // size
        keys = block_keys(req.job, size, length)
        drop = self.c.drop_last_hit

        def cached(i: int) -> list[Block] | None:
            if i >= len(keys):
                return None
            found = [self.pool.cache.get((g, keys[i])) for g in ids]
            return None if any(f is None for f in found) else [next(iter(f.values())) for f in found]

        if group.kind == "full":
            out: list[list[Block]] = [[] for _ in ids]
            for i in range(count):
                row = cached(i)
                if row is None:
                    break
                for mine, block in zip(out, row, strict=True):
                    mine.append(block)
        elif group.kind == "chunk":
            begin = length // group.span * group.span // size
            out = [[self.pool.null] * begin for _ in ids]
            for i in range(begin, count):
                row = cached(i)
                if row is None:
                    break
                for mine, block in zip(out, row, strict=True):
                    mine.append(block)
        else:
            wanted = cdiv(group.span - 1, size) + drop
            out = [[self.pool.null] * count for _ in ids]
            run, found = 0, False
            for i in range(count - 1, -1, -1):
                row = cached(i)
                if row is None:
                    run = 0
                    continue
                if run == 0 and (i if drop else i + 1) * size % self.alignment:
                    continue
                for mine, block in zip(out, row, strict=True):
                    mine[i] = block
                run += 1
                if run >= wanted:
                    for mine in out:
                        del mine[i + run :]
                    found = True
                    break
            if not found:
                for mine in out:
                    del mine[run:]
        if drop and out[0]:
            for mine in out:
                mine.pop()
        while out[0] and len(out[0]) * size % self.alignment:
            for mine in out:
                mine.pop()
        return out

    def gate_need(self, req: Req, hits: list[list[Block]], cached: int, tokens: int) -> int:
        total = 0
        for group, hit in zip(self.groups, hits, strict=True):
            required = group.admission(tokens, self.c.gate == "capped")
            skipped = group.skipped(cached)
            total += max(required - max(skipped, len(hit)), 0)
            total += sum(b.ref == 0 and b is not self.pool.null for b in hit[skipped:])
        return total

    def start(self, req: Req, hits: list[list[Block]], cached: int, new: int, watermark: int) -> bool:
        need = 0
        for group, hit in zip(self.groups, hits, strict=True):
            required = group.first if group.kind == "state" else cdiv(cached + new, group.block_size)
            skipped = group.skipped(cached)
            need += max(required - max(skipped, len(hit)), 0)
            need += sum(b.ref == 0 and b is not self.pool.null for b in hit[skipped:])
        if need + watermark > self.pool.free:
            return False
        for i, (group, hit) in enumerate(zip(self.groups, hits, strict=True)):
            skipped = group.skipped(cached)
            kept = hit[skipped:]
            self.pool.touch(kept)
            req.blocks[i] = [self.pool.null] * skipped + kept
            req.keyed[i] = len(req.blocks[i])
        for i, group in enumerate(self.groups):
            required = group.first if group.kind == "state" else cdiv(cached + new, group.block_size)
            req.blocks[i] += self.pool.take(max(0, required - len(req.blocks[i])))
        self.remember(req, min(cached + new, req.tokens))
        return True

    def allocate(self, req: Req, new: int, lookahead: int) -> bool:
        slots = min(req.computed + new + lookahead, self.c.max_model_len)
        settled = max(0, req.computed - req.in_flight) if self.c.settled and self.c.lag else req.computed
        need = 0
        for i, group in enumerate(self.groups):
            self.skip(req, i, group, settled)
        for i, group in enumerate(self.groups):
            required = group.later if group.kind == "state" else cdiv(slots, group.block_size)
            need += max(0, required - len(req.blocks[i]))
        if need > self.pool.free:
            return False
        for i, group in enumerate(self.groups):
            required = group.later if group.kind == "state" else cdiv(slots, group.block_size)
            req.blocks[i] += self.pool.take(max(0, required - len(req.blocks[i])))
        self.remember(req, min(req.computed + new, req.tokens))
        return True

    def skip(self, req: Req, i: int, group: Group, computed: int) -> None:
        blocks = req.blocks[i]
        removed = []
        for j in range(min(group.skipped(computed), len(blocks)) - 1, -1, -1):
            if blocks[j] is self.pool.null:
                break
            removed.append(blocks[j])
            blocks[j] = self.pool.null
        self.pool.give(removed)

    def remember(self, req: Req, tokens: int) -> None:
        if not self.caching:
            return
        for i, group in enumerate(self.groups):
            if group.kind == "state":
                continue
            keys = block_keys(req.job, group.block_size, tokens)
            for j in range(req.keyed[i], len(keys)):
                block = req.blocks[i][j]
                if block is not self.pool.null:
                    block.key = (i, keys[j])
                    self.pool.cache.setdefault(block.key, {})[block.number] = block
            req.keyed[i] = max(req.keyed[i], len(keys))

    def release(self, req: Req) -> None:
        for i in range(len(self.groups)):
            self.pool.give(list(reversed(req.blocks[i])))
            req.blocks[i] = []
            req.keyed[i] = 0

    # --- what must always hold ----------------------------------------------------------------------------------

    def check(self, batch: list[Entry]) -> None:
        tokens = sum(new for _, new, _, _ in batch)
        assert 0 < tokens <= self.c.max_num_batched_tokens
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
