"""TensorRT-LLM's schedulers under a load: GUARANTEED_NO_EVICT and MAX_UTILIZATION over time.

`cpp/tensorrt_llm/batch_manager/capacityScheduler.cpp` decides who may run, `microBatchScheduler.cpp` how many tokens a
step has. A request holds blocks for its whole prompt from its first chunk on, and one more whenever its tokens fill
one. GUARANTEED_NO_EVICT starts a request only if its blocks up to max_tokens are left after all running ones have
theirs; MAX_UTILIZATION looks one step ahead and pauses the youngest when blocks run out.

`CapacityLoop` takes steps in which nobody starts, ends or is paused many at once; the literal one, in the tests, takes
them one by one on real blocks.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from oomph.engines.trtllm.blocks import CacheRequest, Window, needed_for_start, needed_for_step, needed_to_finish
from oomph.simulate.config import Config, Job, Record
from oomph.simulate.timing import StepTime
from oomph.units import cdiv

if TYPE_CHECKING:
    from oomph.simulate.loop import Observer, Workload

_FAR = 1 << 120
Policy = Literal["GUARANTEED_NO_EVICT", "MAX_UTILIZATION", "STATIC_BATCH"]


class Capacity(Struct, frozen=True):
    """What the schedulers work with."""

    policy: Policy
    windows: tuple[tuple[Window, int], ...]  # pool, its blocks
    max_batch_size: int
    max_num_tokens: int
    max_seq_len: int
    chunked: bool = False
    max_tokens: int = 0  # what every request asks for; 0 = as many as it gets
    slack: str = "new tokens"  # what a window admits beyond itself when a request starts


class Live:
    """A request inside the engine."""

    __slots__ = (
        "blocks",
        "computed",
        "first_token",
        "job",
        "made_before",
        "max_new",
        "new",
        "pauses",
        "prompt",
        "started",
        "tokens",
        "total",
    )

    def __init__(self, job: Job, total: int, max_new: int) -> None:
        self.job, self.prompt, self.total, self.max_new = job, job.prompt, total, max_new
        self.new = 0  # tokens of its answer since it last started
        self.made_before = 0  # ... before it was paused
        self.computed = 0  # tokens of its prompt that are in the cache
        self.tokens = 0  # tokens that have a slot: the whole prompt from its first chunk on
        self.blocks: list[int] = []  # in each pool
        self.started = self.first_token = -1
        self.pauses = 0

    @property
    def decodes(self) -> bool:
        return self.tokens > 0 and self.computed >= self.prompt

    @property
    def has_started(self) -> bool:
        return self.tokens > 0

    def seen_by(self, pool: int) -> CacheRequest:
        blocks = self.blocks[pool] if self.blocks else 0
        return CacheRequest(self.prompt, self.max_new, tokens=self.tokens, blocks=blocks)


class CapacityLoop:
    """One engine. The interface is that of simulate/loop.py."""

    def __init__(
        self, capacity: Capacity, config: Config, time: StepTime, workload: Workload, observer: Observer
    ) -> None:
        self.capacity, self.config, self.time = capacity, config, time
        self.workload, self.observer = workload, observer
        self.source: Iterator[Job] = iter(workload.jobs())
        self.upcoming = next(self.source, None)
        self.replies: list[tuple[int, int, Job]] = []
        self.waiting: deque[Live] = deque()
        self.active: list[Live] = []  # in the order in which they were fetched
        self.free = [blocks for _, blocks in capacity.windows]
        self.now = self.steps = self.tokens = self.work = self.preemptions = self.server_end = 0
        self.binds = ""
        self.rates = time.decoding()
        self.promised = 0  # blocks that all decoding requests need from their first to their last
        self.slides = len(capacity.windows) > 1 or capacity.windows[0][0].size < capacity.max_seq_len
        self.plain = all(group.kind == "full" for group in config.groups)

    def run(self, max_steps: int = _FAR) -> bool:
        """True: `max_steps` are reached and there is more to do."""
        while self.steps < max_steps:
            self._receive()
            self._fetch()
            batch = self._schedule()
            if not batch:
                if not self._idle():
                    return False
                continue
            leap = self._leap(batch)
            if leap > 1:
                self._take_steps(batch, leap)
            else:
                self._take_step(batch)
        return True

    # ---- who runs ----------------------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        while self.waiting and len(self.active) < self.capacity.max_batch_size:
            self.active.append(self.waiting.popleft())

    def _schedule(self) -> list[tuple[Live, int]]:
        """(request, tokens) of the next step."""
        self.binds = "max_batch_size" if self.waiting else ""
        if self.capacity.policy == "MAX_UTILIZATION":
            fitting = self._most_utilised()
        else:
            fitting = self._never_evicted()
        return self._micro_batch(fitting)

    def _never_evicted(self) -> list[Live]:
        """Running requests keep what they need to finish; others start in order, up to the first that does not fit."""
        fitting = [request for request in self.active if request.decodes]
        if len(fitting) == len(self.active):
            return fitting
        available = self._unpromised(fitting)
        if fitting and self.capacity.policy == "STATIC_BATCH":
            return fitting
        for request in self.active:
            if request.decodes:
                continue
            needs = [
                needed_to_finish(request.seen_by(i), window) for i, (window, _) in enumerate(self.capacity.windows)
            ]
            if any(need > left for need, left in zip(needs, available)):
                self.binds = "blocks"
                break
            available = [left - need for left, need in zip(available, needs)]
            fitting.append(request)
        return fitting

    def _unpromised(self, running: list[Live]) -> list[int]:
        """What running requests do not need. As long as no window slides, what a request holds and what it still needs
        are together what it needed at first."""
        if not self.slides:
            begun = sum(r.blocks[0] for r in self.active if r.has_started and not r.decodes)
            return [self.capacity.windows[0][1] - self.promised - begun]
        available = list(self.free)
        for request in running:
            for pool, (window, _) in enumerate(self.capacity.windows):
                available[pool] -= needed_to_finish(request.seen_by(pool), window)
        return available

    def _most_utilised(self) -> list[Live]:
        """One step ahead, in order; where blocks are short the youngest that has started is paused."""
        fitting: list[Live] = []
        scheduled = [0] * len(self.free)
        end, at = len(self.active), 0
        while at < end:
            request = self.active[at]
            needs = [self._one_step(request, pool) for pool in range(len(self.free))]
            if all(planned + need <= free for planned, need, free in zip(scheduled, needs, self.free)):
                scheduled = [planned + need for planned, need in zip(scheduled, needs)]
                fitting.append(request)
                at += 1
                continue
            self.binds = "blocks"
            last = next((i for i in range(end - 1, at - 1, -1) if self.active[i].has_started), -1)
            if last < 0:
                break
            self._pause(self.active[last])
            end = last
        return fitting

    def _one_step(self, request: Live, pool: int) -> int:
        window = self.capacity.windows[pool][0]
        if not request.has_started:
            slack = request.max_new if self.capacity.slack == "new tokens" else self.capacity.max_num_tokens
            return needed_for_start(request.seen_by(pool), window, slack)
        return needed_for_step(request.seen_by(pool), window) if request.decodes else 0

    def _pause(self, request: Live) -> None:
        """llmRequest.h pause: what it has made joins its prompt, and all its blocks are given back."""
        if request.decodes:
            self.promised -= self._promise(request)
        self._release(request)
        request.prompt += request.new
        request.max_new -= request.new
        request.made_before += request.new
        request.new = request.computed = request.tokens = 0
        request.pauses += 1
        self.preemptions += 1

    def _micro_batch(self, fitting: list[Live]) -> list[tuple[Live, int]]:
        """In the order of the requests until max_num_tokens are full; a chunk of a prompt is whole blocks."""
        budget = self.capacity.max_num_tokens
        batch: list[tuple[Live, int]] = []
        for request in fitting:
            tokens = 1 if request.decodes else request.prompt - request.computed
            if tokens > budget:
                if request.decodes or not self.capacity.chunked:
                    break
                block = self.capacity.windows[0][0].block
                tokens = budget // block * block
            if tokens <= 0:
                break
            batch.append((request, tokens))
            budget -= tokens
        return batch

    # ---- steps -------------------------------------------------------------------------------------------------------

    def _take_step(self, batch: list[tuple[Live, int]]) -> None:
        groups, ticks = self.config.groups, 0
        for request, tokens in batch:
            if request.decodes:
                self._grow(request, 1)
                ticks += self._decode_ticks(request.tokens)
            else:
                self._start(request)
                ticks += self.time.chunk(groups, request.computed, tokens)
        total = sum(tokens for _, tokens in batch)
        ticks += self.time.fixed(total, len(batch))
        self.now += ticks
        self.work += len(batch)
        self._count(ticks, 1, total, len(batch))
        for request, tokens in batch:
            self._add_token(request, tokens)

    def _take_steps(self, batch: list[tuple[Live, int]], n: int) -> None:
        """n steps in which the same requests decode: their attention is an arithmetic series."""
        ticks = n * self.time.fixed(len(batch), len(batch))
        for request, _ in batch:
            ticks += self._decode_series(request.tokens, n)
            self._grow(request, n)
        self.now += ticks
        self.work += 1
        self._count(ticks, n, n * len(batch), len(batch))
        for request, _ in batch:
            request.new += n
            if request.made_before + request.new >= request.total:
                self._finish(request)

    def _leap(self, batch: list[tuple[Live, int]]) -> int:
        """Steps until somebody may start, end, be paused or arrive."""
        requests = [request for request, _ in batch]
        if not all(request.decodes for request in requests):
            return 1
        n = min(request.total - request.made_before - request.new for request in requests)
        idle = len(self.active) > len(batch)
        if self.capacity.policy == "MAX_UTILIZATION":
            if idle:  # somebody waits for blocks, and may take them from somebody else
                return 1
            while n > 1 and not self._has_room(requests, n):
                n //= 2
        elif idle and not all(request.decodes for request in self.active) and self.binds != "blocks":
            return 1  # the token budget keeps it out
        if len(self.active) < self.capacity.max_batch_size:
            n = self._steps_before_arrival(requests, n)
        return max(1, n)

    def _has_room(self, requests: list[Live], n: int) -> bool:
        """Whether n steps of all find their blocks: then each single one does."""
        for pool, (window, _) in enumerate(self.capacity.windows):
            grown = sum(cdiv(r.tokens + n, window.block) - cdiv(r.tokens, window.block) for r in requests)
            if grown > self.free[pool]:
                return False
        return True

    def _steps_before_arrival(self, requests: list[Live], n: int) -> int:
        arrival = self._next_arrival()
        if arrival is None or n <= 1:
            return n

        def begins(step: int) -> int:
            """When the step behind so many is scheduled."""
            ticks = step * self.time.fixed(len(requests), len(requests))
            return self.now + ticks + sum(self._decode_series(r.tokens, step) for r in requests)

        if begins(n - 1) < arrival[0]:
            return n
        low, high = 1, n
        while low < high:
            middle = (low + high + 1) // 2
            if begins(middle - 1) < arrival[0]:
                low = middle
            else:
                high = middle - 1
        return low

    # ---- blocks ------------------------------------------------------------------------------------------------------

    def _start(self, request: Live) -> None:
        if request.has_started:
            return
        request.started = self.now if request.started < 0 else request.started
        request.tokens = request.prompt
        request.blocks = [cdiv(min(request.prompt, w.size + w.spare), w.block) for w, _ in self.capacity.windows]
        self.free = [free - blocks for free, blocks in zip(self.free, request.blocks)]

    def _grow(self, request: Live, n: int) -> None:
        """n further tokens have a slot. A window that slides gives its oldest block back when it has taken the next."""
        request.tokens += n
        for pool, (window, _) in enumerate(self.capacity.windows):
            blocks = _blocks_of(request.tokens, window)
            self.free[pool] -= blocks - request.blocks[pool]
            request.blocks[pool] = blocks

    def _release(self, request: Live) -> None:
        self.free = [free + blocks for free, blocks in zip(self.free, request.blocks)]
        request.blocks = []

    def _add_token(self, request: Live, tokens: int) -> None:
        if not request.decodes:
            request.computed += tokens
            if request.computed < request.prompt:
                return
            self.promised += self._promise(request)
        request.new += 1
        if request.first_token < 0:
            request.first_token = self.now
        if request.made_before + request.new >= request.total:
            self._finish(request)

    def _promise(self, request: Live) -> int:
        return cdiv(request.prompt + request.max_new, self.capacity.windows[-1][0].block)

    def _finish(self, request: Live) -> None:
        self.promised -= self._promise(request)
        self._release(request)
        self.active.remove(request)
        self._leave(request, "done", self.now, request.total)

    # ---- time --------------------------------------------------------------------------------------------------------

    def _decode_ticks(self, tokens: int) -> int:
        if self.plain:
            return sum(self.rates) * tokens
        spans = ((group.span if group.kind == "window" else tokens) for group in self.config.groups)
        return sum(rate * min(tokens, span) for rate, span in zip(self.rates, spans))

    def _decode_series(self, tokens: int, n: int) -> int:
        """Of n steps, the first of which has tokens + 1 in its cache."""
        ticks = 0
        for rate, group in zip(self.rates, self.config.groups):
            span = group.span if group.kind == "window" else _FAR
            growing = max(0, min(n, span - tokens))
            ticks += rate * (growing * tokens + growing * (growing + 1) // 2 + (n - growing) * min(span, tokens + n))
        return ticks

    def _count(self, ticks: int, steps: int, tokens: int, running: int) -> None:
        self.steps += steps
        self.tokens += tokens
        used = self.capacity.windows[-1][1] - self.free[-1]
        waiting = len(self.waiting) + len(self.active) - running
        binds = self.binds if waiting else ""
        self.observer.step(self.now, ticks, running, waiting, used, binds, self.preemptions)

    # ---- arrivals and departures -------------------------------------------------------------------------------------

    def _next_arrival(self) -> tuple[int, Job] | None:
        job, reply = self.upcoming, self.replies[0] if self.replies else None
        if reply is not None and (job is None or reply[:2] < (job.at, job.id)):
            job = reply[2]
        if job is None:
            return None
        return max(self.server_end, job.at) + self.time.request + self.time.prompt_token * job.prompt, job

    def _receive(self) -> None:
        while (arrival := self._next_arrival()) is not None and arrival[0] <= self.now:
            self.server_end, job = arrival
            if job is self.upcoming:
                self.upcoming = next(self.source, None)
            else:
                heapq.heappop(self.replies)
            self._enqueue(job)

    def _enqueue(self, job: Job) -> None:
        capacity = self.capacity
        room = capacity.max_seq_len - job.prompt
        total = max(1, min(job.output, room))
        request = Live(job, total, max(total, min(capacity.max_tokens, room)))
        too_long = job.prompt < 1 or room < 1 or (job.prompt > capacity.max_num_tokens and not capacity.chunked)
        if too_long:
            self._leave(request, "rejected", job.at, 0)
        elif self._fits_alone(request):
            self.waiting.append(request)
        else:
            self._leave(request, "never", job.at, 0)

    def _fits_alone(self, request: Live) -> bool:
        for pool, (window, blocks) in enumerate(self.capacity.windows):
            if needed_to_finish(request.seen_by(pool), window) > blocks:
                return False
        return True

    def _idle(self) -> bool:
        arrival = self._next_arrival()
        if arrival is None:
            return False
        self.now = max(self.now, arrival[0])
        return True

    def _leave(self, request: Live, outcome: str, at: int, output: int) -> None:
        response = self.time.response if outcome == "done" else 0
        first = request.first_token + response if request.first_token >= 0 else -1
        self.observer.record(
            Record(request.job, outcome, request.started, first, at + response, request.pauses, 0, output)  # type: ignore[arg-type]
        )
        reply = self.workload.done(request.job, at + response)
        if reply is not None:
            heapq.heappush(self.replies, (reply.at, reply.id, reply))


def _blocks_of(tokens: int, window: Window) -> int:
    """Blocks of a sequence that has a slot for every token: behind the window whole blocks are detached."""
    limit = window.size + window.spare
    detached = max(0, tokens - limit) // window.block
    return cdiv(tokens, window.block) - detached
