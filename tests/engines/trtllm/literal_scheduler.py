"""TensorRT-LLM's schedulers once more, one step at a time and on real blocks.

Every sequence has a list of block numbers, every pool a list of free ones. Slow, and nothing is shared with
`engines/trtllm/capacity_loop.py` but the workload's types. The needs of a request are those of `literal_blocks.py`."""

from __future__ import annotations

import heapq
from typing import Any

from literal_blocks import KVCacheManager, LlmRequest, ceil_div

from oomph.simulate.config import Config, Job, Record
from oomph.simulate.timing import StepTime


class Sequence:
    def __init__(self, job: Job, output: int, max_new: int) -> None:
        self.job, self.output, self.max_new = job, output, max_new
        self.prompt = job.prompt
        self.generated = 0  # since the last start
        self.earlier = 0
        self.position = 0  # of the context
        self.tokens = 0
        self.ids: list[list[int]] = []
        self.started = self.first = -1
        self.pauses = 0
        self.state = "context"

    def literal(self, pool: int) -> LlmRequest:
        return LlmRequest(
            self.prompt, self.max_new, 1, 0, self.state == "context", self.state == "context" and not self.tokens,
            self.state == "generation", self.prompt + self.generated, self.tokens,
            len(self.ids[pool]) if self.ids else 0, 0,
        )  # fmt: skip


class LiteralEngine:
    def __init__(self, capacity: Any, config: Config, time: StepTime, workload: Any, observer: Any) -> None:
        self.c, self.config, self.time, self.workload, self.observer = capacity, config, time, workload, observer
        self.managers = [
            KVCacheManager(w.block, w.size, w.spare, w.longest, 0, False, len(capacity.windows) > 1)
            for w, _ in capacity.windows
        ]
        self.pools = [list(range(blocks)) for _, blocks in capacity.windows]
        self.jobs: list[tuple[int, int, Job]] = [(job.at, job.id, job) for job in workload.jobs()]
        heapq.heapify(self.jobs)
        self.queue: list[Sequence] = []
        self.active: list[Sequence] = []
        self.now = self.read_until = self.steps = 0

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
            elif any(
                manager.get_remaining_blocks_to_completion(sequence.literal(i)) > self.c.windows[i][1]
                for i, manager in enumerate(self.managers)
            ):
                self.record(sequence, "never", job.at, 0)
            else:
                self.queue.append(sequence)

    def no_evict(self) -> list[Sequence]:
        reserved = [len(pool) for pool in self.pools]
        scheduled, pending = [], []
        for sequence in self.active:
            if sequence.state == "generation":
                scheduled.append(sequence)
                for i, manager in enumerate(self.managers):
                    reserved[i] -= manager.get_remaining_blocks_to_completion(sequence.literal(i))
            else:
                pending.append(sequence)
        for sequence in pending:
            needs = [m.get_remaining_blocks_to_completion(sequence.literal(i)) for i, m in enumerate(self.managers)]
            if any(need > left for need, left in zip(needs, reserved, strict=True)):
                break
            scheduled.append(sequence)
            reserved = [left - need for left, need in zip(reserved, needs, strict=True)]
        return scheduled

    def max_utilization(self) -> list[Sequence]:
        scheduled: list[Sequence] = []
        numbers = [0] * len(self.pools)
        end, i = len(self.active), 0
        while i < end:
            sequence = self.active[i]
            needs = []
            for pool, manager in enumerate(self.managers):
                manager.chunk_size = sequence.max_new if self.c.slack == "new tokens" else self.c.max_num_tokens
                needs.append(manager.get_needed_blocks_one_step(sequence.literal(pool), False))
            if all(n + need <= len(pool) for n, need, pool in zip(numbers, needs, self.pools, strict=True)):
                numbers = [n + need for n, need in zip(numbers, needs, strict=True)]
                scheduled.append(sequence)
                i += 1
                continue
            last = None
            for j in range(end - 1, i - 1, -1):
                if self.active[j].tokens:
                    last = j
                    break
            if last is None:
                break
            self.pause(self.active[last])
            end = last
        return scheduled

    def pause(self, sequence: Sequence) -> None:
        self.free(sequence)
        sequence.prompt += sequence.generated
        sequence.max_new -= sequence.generated
        sequence.earlier += sequence.generated
        sequence.generated = sequence.position = sequence.tokens = 0
        sequence.state = "context"
        sequence.pauses += 1

    def micro_batch(self, chosen: list[Sequence]) -> list[tuple[Sequence, int]]:
        left, batch = self.c.max_num_tokens, []
        for sequence in chosen:
            tokens = 1 if sequence.state == "generation" else sequence.prompt - sequence.position
            if tokens > left:
                if sequence.state == "generation" or not self.c.chunked:
                    break
                tokens = left // self.c.windows[0][0].block * self.c.windows[0][0].block
            if tokens <= 0:
                break
            batch.append((sequence, tokens))
            left -= tokens
        return batch

    def step(self, batch: list[tuple[Sequence, int]]) -> None:
        ticks = 0
        for sequence, tokens in batch:
            if sequence.state == "generation":
                self.add_token(sequence)
                for rate, group in zip(self.time.decoding(), self.config.groups, strict=True):
                    ticks += rate * (min(sequence.tokens, group.span) if group.kind == "window" else sequence.tokens)
            else:
                if not sequence.tokens:
                    self.add_sequence(sequence)
                ticks += self.time.chunk(self.config.groups, sequence.position, tokens)
        ticks += self.time.fixed(sum(tokens for _, tokens in batch), len(batch))
        self.now += ticks
        self.steps += 1
        for sequence, tokens in batch:
            if sequence.state == "context":
                sequence.position += tokens
                if sequence.position < sequence.prompt:
                    continue
                sequence.state = "generation"
            sequence.generated += 1
            if sequence.first < 0:
                sequence.first = self.now
            if sequence.earlier + sequence.generated >= sequence.output:
                self.free(sequence)
                self.active.remove(sequence)
                self.record(sequence, "done", self.now, sequence.output)

    def add_sequence(self, sequence: Sequence) -> None:
        if sequence.started < 0:
            sequence.started = self.now
        sequence.tokens = sequence.prompt
        for pool, (window, _) in zip(self.pools, self.c.windows, strict=True):
            count = ceil_div(min(sequence.prompt, window.size + window.spare), window.block)
            assert count <= len(pool), "the scheduler let in more than there is"
            sequence.ids.append([pool.pop() for _ in range(count)])

    def add_token(self, sequence: Sequence) -> None:
        sequence.tokens += 1
        for pool, ids, (window, _) in zip(self.pools, sequence.ids, self.c.windows, strict=True):
            removed = max(0, sequence.tokens - window.size - window.spare) // window.block
            wanted = ceil_div(sequence.tokens, window.block) - removed
            while len(ids) < wanted:
                assert pool, "the scheduler ran out of blocks"
                ids.append(pool.pop())
            while len(ids) > wanted:
                pool.append(ids.pop(0))

    def free(self, sequence: Sequence) -> None:
        for pool, ids in zip(self.pools, sequence.ids, strict=False):
            pool += ids
        sequence.ids = []

    def record(self, sequence: Sequence, outcome: str, at: int, output: int) -> None:
        response = self.time.response if outcome == "done" else 0
        first = sequence.first + response if sequence.first >= 0 else -1
        self.observer.record(
            Record(sequence.job, outcome, sequence.started, first, at + response, sequence.pauses, 0, output)  # type: ignore[arg-type]
        )
        again = self.workload.done(sequence.job, at + response)
        if again is not None:
            heapq.heappush(self.jobs, (again.at, again.id, again))
