"""TensorRT-LLM's schedulers once more, one step at a time and on real blocks (`literal_cache.py`).

Slow, and nothing is shared with `engines/trtllm/scheduler` but the workload's types and the keys of a prompt's blocks.
The needs of a request are those of `literal_blocks.py`."""

from __future__ import annotations

import heapq
from typing import Any

from literal_blocks import KVCacheManager, LlmRequest
from literal_cache import WindowBlockManager

from oomph.simulate.config import Config, Job, Record, block_keys
from oomph.simulate.timing import StepTime


class Sequence:
    def __init__(self, job: Job, output: int, max_new: int) -> None:
        self.job, self.output, self.max_new = job, output, max_new
        self.prompt = job.prompt
        self.generated = 0  # since the last start
        self.earlier = 0
        self.position = 0  # of the context
        self.decoded = 0  # steps
        self.started = self.first = self.cached = -1
        self.pauses = 0
        self.added = False  # it is in mSequences
        self.state = "context"
        self.estimated_reusable_tokens = 0

    @property
    def first_chunk(self) -> bool:
        return self.state == "context" and not self.added


class LiteralEngine:
    def __init__(self, capacity: Any, config: Config, time: StepTime, workload: Any, observer: Any) -> None:
        self.c, self.config, self.time, self.workload, self.observer = capacity, config, time, workload, observer
        variable = len(capacity.windows) > 1
        slides = variable or capacity.windows[0][0].size < capacity.max_seq_len
        self.reuse = capacity.reuses and not slides
        self.managers = [
            KVCacheManager(w.block, w.size, w.spare, w.longest, 0, self.reuse and capacity.counts_shared, variable)
            for w, _ in capacity.windows
        ]
        self.pools = [
            WindowBlockManager(w.size, w.block, blocks, w.size < capacity.max_seq_len, self.reuse)
            for w, blocks in capacity.windows
        ]
        self.jobs: list[tuple[int, int, Job]] = [(job.at, job.id, job) for job in workload.jobs()]
        heapq.heapify(self.jobs)
        self.queue: list[Sequence] = []
        self.active: list[Sequence] = []
        self.now = self.read_until = self.steps = 0

    def literal(self, sequence: Sequence, pool: int) -> LlmRequest:
        generating = sequence.state == "generation"
        window = self.pools[pool]
        tokens = window.num_tokens[sequence] if sequence.added else 0
        blocks = len(window.allocated[sequence]) if sequence.added else 0
        reusable = 0
        if self.managers[pool].enable_block_reuse and sequence.first_chunk:
            reusable = window.count_reusable_blocks(self.keys(sequence, sequence.prompt), True)
        return LlmRequest(
            sequence.prompt, sequence.max_new, self.c.beams, self.c.drafts if generating else 0, not generating,
            sequence.first_chunk, generating, sequence.prompt + sequence.generated, tokens, blocks, reusable,
        )  # fmt: skip

    def keys(self, sequence: Sequence, tokens: int) -> list[int]:
        return block_keys(sequence.job, self.c.windows[0][0].block, tokens) if self.reuse else []

    def run(self) -> None:
        while True:
            self.arrive()
            while self.queue and len(self.active) < self.c.max_batch_size:
                self.active.append(self.queue.pop(0))
            chosen = self.max_utilization() if self.c.policy == "MAX_UTILIZATION" else self.no_evict()
            batch = self.micro_batch(chosen)
            if batch:
                self.step(batch)
            elif self.jobs:
                at, _, job = self.jobs[0]
                self.now = max(
                    self.now, max(self.read_until, at) + self.time.request + self.time.prompt_token * job.prompt
                )
            else:
                return

    def arrive(self) -> None:
        while self.jobs:
            at, _, job = self.jobs[0]
            seen = max(self.read_until, at) + self.time.request + self.time.prompt_token * job.prompt
            if seen > self.now:
                return
            heapq.heappop(self.jobs)
            self.read_until = seen
            room = self.c.max_seq_len - job.prompt
            output = max(1, min(job.output, room))
            sequence = Sequence(job, output, max(output, min(self.c.max_tokens, room)))
            if room < 1 or (job.prompt > self.c.max_num_tokens and not self.c.chunked):
                self.record(sequence, "rejected", job.at, 0)
            elif any(self.alone(sequence, i) > blocks for i, (_, blocks) in enumerate(self.c.windows)):
                self.record(sequence, "never", job.at, 0)
            else:
                self.queue.append(sequence)

    def alone(self, sequence: Sequence, pool: int) -> int:
        request = self.literal(sequence, pool)
        request.reusable_allocated_blocks = 0
        return self.managers[pool].get_remaining_blocks_to_completion(request)

    def beneficial_to_skip(self, sequence: Sequence, contributed: set[int]) -> bool:
        if not (self.reuse and sequence.first_chunk):
            return False
        new = self.pools[0].find_new_context_block(self.keys(sequence, sequence.prompt))
        if new is not None:
            if new in contributed:
                return True
            contributed.add(new)
        return False

    def already_executing(self) -> set[int]:
        contributed = set()
        for sequence in self.active:
            if self.reuse and sequence.state == "context" and not sequence.first_chunk:
                new = self.pools[0].find_new_context_block(self.keys(sequence, sequence.prompt))
                if new is not None:
                    contributed.add(new)
        return contributed

    def estimate(self, sequence: Sequence, only_allocated: bool) -> None:
        """setEstimatedReusableTokens, for the token budget."""
        sequence.estimated_reusable_tokens = 0
        if self.managers[0].enable_block_reuse and sequence.first_chunk:
            block = self.c.windows[0][0].block
            count = self.pools[0].count_reusable_blocks(self.keys(sequence, sequence.prompt), only_allocated)
            sequence.estimated_reusable_tokens = min(count, sequence.prompt // block) * block

    def no_evict(self) -> list[Sequence]:
        reserved = [len(pool.free_queue) for pool in self.pools]
        contributed = self.already_executing()
        scheduled, pending = [], []
        for sequence in self.active:
            if sequence.state == "generation":
                scheduled.append(sequence)
                for i, manager in enumerate(self.managers):
                    reserved[i] -= manager.get_remaining_blocks_to_completion(self.literal(sequence, i))
            else:
                pending.append(sequence)
        if self.c.policy == "STATIC_BATCH" and scheduled:
            return scheduled
        for sequence in pending:
            if self.c.policy != "STATIC_BATCH" and self.beneficial_to_skip(sequence, contributed):
                continue
            needs = [
                m.get_remaining_blocks_to_completion(self.literal(sequence, i)) for i, m in enumerate(self.managers)
            ]
            self.estimate(sequence, False)
            if any(need > left for need, left in zip(needs, reserved, strict=True)):
                break
            scheduled.append(sequence)
            reserved = [left - need for left, need in zip(reserved, needs, strict=True)]
        return scheduled

    def max_utilization(self) -> list[Sequence]:
        scheduled: list[Sequence] = []
        paused: list[Sequence] = []
        contributed = self.already_executing()
        numbers = [0] * len(self.pools)
        end, i = len(self.active), 0
        while i < end:
            sequence = self.active[i]
            if self.beneficial_to_skip(sequence, contributed):
                i += 1
                continue
            needs = []
            for pool, manager in enumerate(self.managers):
                manager.chunk_size = sequence.max_new if self.c.slack == "new tokens" else self.c.max_num_tokens
                needs.append(manager.get_needed_blocks_one_step(self.literal(sequence, pool), False))
            self.estimate(sequence, True)
            free = [pool.scheduling_free(paused) for pool in self.pools]
            if all(n + need <= left for n, need, left in zip(numbers, needs, free, strict=True)):
                numbers = [n + need for n, need in zip(numbers, needs, strict=True)]
                scheduled.append(sequence)
                i += 1
                continue
            last = None
            for j in range(end - 1, i - 1, -1):
                if self.active[j].added:
                    last = j
                    break
            if last is None:
                break
            paused.append(self.active[last])
            end = last
        for sequence in paused:
            self.pause(sequence)
        return scheduled

    def pause(self, sequence: Sequence) -> None:
        self.free(sequence)
        sequence.prompt += sequence.generated
        sequence.max_new -= sequence.generated
        sequence.earlier += sequence.generated
        sequence.generated = sequence.position = 0
        sequence.state = "context"
        sequence.pauses += 1

    def micro_batch(self, chosen: list[Sequence]) -> list[tuple[Sequence, int]]:
        """microBatchScheduler.cpp: who decodes first, then what is left for prompts."""
        batch_num_tokens, batch, to_be_chunked = 0, [], []
        num_chunked = 0
        for sequence in chosen:
            reusable = sequence.estimated_reusable_tokens if sequence.first_chunk else 0
            if sequence.state == "generation":
                tokens = self.c.beams + self.c.drafts
                if batch_num_tokens + tokens > self.c.max_num_tokens:
                    break
                batch.append((sequence, tokens))
                batch_num_tokens += tokens
            elif not self.c.chunked:
                compute = max(1, sequence.prompt - reusable)
                if batch_num_tokens + compute > self.c.max_num_tokens:
                    break
                batch.append((sequence, sequence.prompt))
                batch_num_tokens += compute
            else:
                to_be_chunked.append(sequence)
                num_chunked += max(0, sequence.prompt - sequence.position - reusable)
        capacity = self.c.max_num_tokens - batch_num_tokens
        all_fit = num_chunked <= capacity
        unit = self.c.windows[0][0].block
        for sequence in to_be_chunked:
            suggested = sequence.prompt - sequence.position
            size = suggested
            if not all_fit:
                reusable = min(sequence.estimated_reusable_tokens, suggested) if sequence.first_chunk else 0
                if suggested - reusable > capacity:
                    size = capacity
                if size != suggested:
                    size = size // unit * unit
                capacity -= min(size, max(0, suggested - reusable))
            if size > 0:
                batch.append((sequence, size))
        return batch

    def step(self, batch: list[tuple[Sequence, int]]) -> None:
        ticks = total = 0
        chunks = {}
        for sequence, tokens in batch:
            if sequence.state == "generation":
                slots = min(1 + self.c.drafts, sequence.max_new - sequence.generated + 1)
                for _ in range(slots):
                    for pool in self.pools:
                        pool.add_token(sequence, self.c.beams)
            else:
                if not sequence.added:
                    self.add_sequence(sequence)
                left = sequence.prompt - sequence.position
                if tokens < left:
                    unit = self.c.windows[0][0].block
                    tokens = (sequence.position + tokens) // unit * unit - sequence.position
                tokens = min(tokens, left)
            chunks[id(sequence)] = tokens
            total += tokens
        for sequence, _ in batch:
            tokens = chunks[id(sequence)]
            if sequence.state == "context":
                ticks += self.time.chunk(self.config.groups, sequence.position, tokens)
            elif self.c.drafts:
                cached = sequence.prompt + sequence.generated - 1
                ticks += self.time.chunk(self.config.groups, cached, 1 + self.c.drafts)
            else:
                tokens = self.pools[0].num_tokens[sequence]
                for rate, group in zip(self.time.decoding(), self.config.groups, strict=True):
                    ticks += self.c.beams * rate * (min(tokens, group.span) if group.kind == "window" else tokens)
        ticks += self.time.fixed(total, len(batch) * self.c.beams)
        self.now += ticks
        self.steps += 1
        for sequence, _ in batch:
            self.update(sequence, chunks[id(sequence)])

    def update(self, sequence: Sequence, tokens: int) -> None:
        fresh = 1
        if sequence.state == "context":
            sequence.position += tokens
            if sequence.position < sequence.prompt:
                return
            sequence.state = "generation"
            for pool in self.pools:
                pool.store_blocks(sequence, self.keys(sequence, sequence.prompt))
        else:
            sequence.decoded += 1
            rate = self.c.accepted
            accepted = min(self.c.drafts, sequence.decoded * rate // 1000 - (sequence.decoded - 1) * rate // 1000)
            fresh = min(1 + accepted, sequence.output - sequence.earlier - sequence.generated)
        sequence.generated += fresh
        if sequence.first < 0:
            sequence.first = self.now
        if sequence.earlier + sequence.generated >= sequence.output:
            self.free(sequence)
            self.active.remove(sequence)
            self.record(sequence, "done", self.now, sequence.output)
            return
        for pool in self.pools:
            while pool.num_tokens[sequence] > sequence.prompt + sequence.generated - 1:  # rewindKVCache
                pool.remove_token(sequence)

    def add_sequence(self, sequence: Sequence) -> None:
        found = [
            pool.add_sequence(sequence, sequence.prompt, self.c.beams, self.keys(sequence, sequence.prompt - 1))
            for pool in self.pools
        ]
        sequence.added, sequence.position = True, min(found)
        if sequence.started < 0:
            sequence.started, sequence.cached = self.now, sequence.position

    def free(self, sequence: Sequence) -> None:
        done = sequence.position if sequence.state == "context" else sequence.prompt + sequence.generated - 1
        for pool in self.pools:
            if self.c.beams == 1:
                pool.store_blocks(sequence, self.keys(sequence, done))
            pool.release_blocks(sequence)
        sequence.added = False

    def record(self, sequence: Sequence, outcome: str, at: int, output: int) -> None:
        response = self.time.response if outcome == "done" else 0
        first = sequence.first + response if sequence.first >= 0 else -1
        cached = max(0, sequence.cached)
        self.observer.record(
            Record(sequence.job, outcome, sequence.started, first, at + response, sequence.pauses, cached, output)  # type: ignore[arg-type]
        )
        again = self.workload.done(sequence.job, at + response)
        if again is not None:
            heapq.heappush(self.jobs, (again.at, again.id, again))
