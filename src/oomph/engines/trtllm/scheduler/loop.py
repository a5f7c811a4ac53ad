"""TensorRT-LLM under a load over time: requests arrive, a step is scheduled (admission.py) and takes as long as the
time model says, its tokens are known at its end.

Steps in which nobody starts, ends or is paused are taken many at once; the literal loop of the tests takes them one by
one on real blocks.
"""

from collections import deque

from oomph.engines.trtllm.kv.blocks import needed_to_finish
from oomph.engines.trtllm.scheduler.admission import Admission
from oomph.engines.trtllm.scheduler.capacity import Capacity, Live
from oomph.engines.trtllm.scheduler.counted_pool import CountedPools
from oomph.engines.trtllm.scheduler.decode_time import DecodeTime
from oomph.engines.trtllm.scheduler.reused_pool import ReusedPool
from oomph.simulate.clients import Clients, Observer, Workload
from oomph.simulate.config import Config, Job
from oomph.simulate.timing import StepTime
from oomph.units import cdiv

_FAR = 1 << 120


class CapacityLoop:
    """One engine. The interface is that of engines/vllm/scheduler/loop.py."""

    def __init__(
        self, capacity: Capacity, config: Config, time: StepTime, workload: Workload, observer: Observer
    ) -> None:
        self.capacity, self.time = capacity, time
        self.observer = observer
        self.pools = _pools(capacity, workload)
        self.finds = isinstance(self.pools, ReusedPool)
        self.admission = Admission(capacity, self.pools)
        self.decode_time = DecodeTime(time, config.groups, capacity.beams)
        self.clients = Clients(workload, time, observer)
        self.waiting: deque[Live] = deque()
        self.active: list[Live] = []  # in the order in which they were fetched
        self.now = self.steps = self.tokens = self.work = self.preemptions = 0
        self.binds = ""

    @property
    def free(self) -> list[int]:
        return self.pools.free

    def run(self, max_steps: int = _FAR) -> bool:
        """True: `max_steps` are reached and there is more to do."""
        while self.steps < max_steps:
            for job in self.clients.arrivals(self.now):
                self._enqueue(job)
            while self.waiting and len(self.active) < self.capacity.max_batch_size:
                self.active.append(self.waiting.popleft())
            batch = self._schedule()
            if not batch:
                if not self._idle():
                    return False
                continue
            leap = self._leap(batch)
            if leap > 1:
                self._take_steps([request for request, _ in batch], leap)
            else:
                self._take_step(batch)
        return True

    def _schedule(self) -> list[tuple[Live, int]]:
        """(request, tokens) of the next step."""
        self.binds = "max_batch_size" if self.waiting else ""
        fitting, paused, waits = self.admission.choose(self.active)
        if waits:
            self.binds = "blocks"
        for request in paused:
            self._pause(request)
        return self.admission.fill(fitting)

    def _pause(self, request: Live) -> None:
        """llmRequest.h pause: what it has answered joins its prompt, and all its blocks are given back."""
        self.pools.release(request)
        request.prompt += request.new
        request.max_new -= request.new
        request.earlier += request.new
        request.new = request.computed = request.tokens = 0
        request.preemptions += 1
        self.preemptions += 1

    # ---- steps -------------------------------------------------------------------------------------------------------

    def _take_step(self, batch: list[tuple[Live, int]]) -> None:
        rows = len(batch) * self.capacity.beams
        decoding, others = self._told_apart(batch)
        total = len(decoding) * self.capacity.step_tokens
        ticks = self.decode_time.steps(decoding)
        self.pools.grow(decoding)
        chunks = [self._begin(request, tokens) for request, tokens in others]
        for (request, _), tokens in zip(others, chunks):
            total += tokens
            ticks += self.decode_time.step(request, tokens, drafts=self.capacity.drafts)
        ticks += self.time.fixed(total, rows)
        self.now += ticks
        self.work += len(batch)
        self._count(ticks, 1, total, len(batch))
        prompts = iter(chunks)
        for request, _ in batch:
            if not decoding or request.computed < request.prompt:
                self._end(request, next(prompts))
                continue
            request.new += 1
            if request.new + request.earlier >= request.total:
                self._finish(request)

    def _told_apart(self, batch: list[tuple[Live, int]]) -> tuple[list[Live], list[tuple[Live, int]]]:
        """Requests that take one token and one slot, whatever the others do, and the others with their tokens."""
        if self.capacity.drafts or self.capacity.slides:
            return [], batch
        decoding: list[Live] = []
        others: list[tuple[Live, int]] = []
        for row in batch:
            request = row[0]
            if request.computed < request.prompt:
                others.append(row)
            elif others and self.finds:  # who takes the first block takes it from what is kept
                return [], batch
            else:
                decoding.append(request)
        return decoding, others

    def _begin(self, request: Live, tokens: int) -> int:
        """Slots for its tokens; how many of them are computed."""
        if request.decodes:
            slots = request.max_new - (request.tokens - request.prompt)
            self.pools.resize(request, request.tokens + min(1 + self.capacity.drafts, slots))
            return tokens
        if not request.has_started:
            self.pools.start(request)
            if request.started < 0:
                request.started, request.cached = self.now, request.computed
        return self._chunk(request, tokens)

    def _chunk(self, request: Live, tokens: int) -> int:
        """llmRequest.h setPrepopulatedPromptLen: a chunk that does not end the prompt ends with a whole block."""
        left = request.prompt - request.computed
        if tokens >= left:
            return left
        block = self.capacity.windows[0][0].block
        return (request.computed + tokens) // block * block - request.computed

    def _end(self, request: Live, tokens: int) -> None:
        if not request.decodes:
            request.computed += tokens
            if request.computed < request.prompt:
                return
            self.pools.store_prompt(request)
            request.new += 1
            if request.first_token < 0:
                request.first_token = self.now
        else:
            request.new += min(1 + self._accepted(request), request.left)
        if not request.left:
            self._finish(request)
        elif self.capacity.drafts and request.tokens >= request.prompt + request.new:
            self.pools.resize(request, request.prompt + request.new - 1)  # the last token has no slot yet

    def _accepted(self, request: Live) -> int:
        """Drafts accepted, spread evenly over the steps."""
        rate = self.capacity.accepted
        request.steps += 1
        return min(self.capacity.drafts, request.steps * rate // 1000 - (request.steps - 1) * rate // 1000)

    def _finish(self, request: Live) -> None:
        self.pools.release(request)
        self.active.remove(request)
        self.clients.answer(request, "done", self.now, request.total)

    def _take_steps(self, requests: list[Live], count: int) -> None:
        """So many steps in which the same requests decode: their attention is an arithmetic series."""
        rows = len(requests) * self.capacity.beams
        ticks = count * self.time.fixed(rows, rows)
        ticks += self.decode_time.all_series([request.tokens for request in requests], count)
        for request in requests:
            self.pools.resize(request, request.tokens + count)
        self.now += ticks
        self.work += 1
        self._count(ticks, count, count * rows, len(requests))
        for request in requests:
            request.new += count
            if not request.left:
                self._finish(request)

    def _leap(self, batch: list[tuple[Live, int]]) -> int:
        """Steps until somebody may start, end, be paused or arrive."""
        requests = [request for request, _ in batch]
        if self.capacity.drafts or not all(request.decodes for request in reversed(requests)):  # prompts stand last
            return 1
        count = min(request.left for request in requests)
        if len(self.active) > len(batch):
            # somebody waits: for blocks, which MAX_UTILIZATION may take from somebody else and which a window that
            # slides gives back on the way, or for its share of the tokens
            patient = self.capacity.policy != "MAX_UTILIZATION" and not self.capacity.slides
            if not patient or self.binds != "blocks":
                return 1
        while count > 1 and not self._has_room(requests, count):
            count //= 2
        if len(self.active) < self.capacity.max_batch_size:
            count = self._steps_before_arrival(requests, count)
        return max(1, count)

    def _has_room(self, requests: list[Live], count: int) -> bool:
        """Whether so many steps of all find their blocks: then each single one does."""
        for (window, _), free in zip(self.capacity.windows, self.pools.free):
            block, room = window.block, free // self.capacity.beams
            if len(requests) * cdiv(count, block) <= room:
                continue  # none takes more than that
            if (
                sum(-r.tokens // block - -(r.tokens + count) // block for r in requests) > room
            ):  # the difference of cdiv
                return False
        return True

    def _steps_before_arrival(self, requests: list[Live], count: int) -> int:
        arrival = self.clients.arrival
        if arrival is None or count <= 1:
            return count
        rows = len(requests) * self.capacity.beams
        contexts = [request.tokens for request in requests]

        def begins(step: int) -> int:
            """When the step behind so many is scheduled."""
            ticks = step * self.time.fixed(rows, rows)
            return self.now + ticks + self.decode_time.all_series(contexts, step)

        if begins(count - 1) < arrival[0]:
            return count
        low, high = 1, count
        while low < high:
            middle = (low + high + 1) // 2
            if begins(middle - 1) < arrival[0]:
                low = middle
            else:
                high = middle - 1
        return low

    def _count(self, ticks: int, steps: int, tokens: int, running: int) -> None:
        self.steps += steps
        self.tokens += tokens
        used = self.capacity.windows[-1][1] - self.pools.free[-1]
        waiting = len(self.waiting) + len(self.active) - running
        binds = self.binds if waiting else ""
        self.observer.step(self.now, ticks, running, waiting, used, binds, self.preemptions)

    # ---- arrivals and departures -------------------------------------------------------------------------------------

    def _enqueue(self, job: Job) -> None:
        capacity = self.capacity
        room = capacity.max_seq_len - job.prompt
        total = max(1, min(job.output, room))
        request = Live(job, total, max(total, min(capacity.max_tokens, room)))
        too_long = job.prompt < 1 or room < 1 or (job.prompt > capacity.max_num_tokens and not capacity.chunked)
        if too_long:
            self.clients.answer(request, "rejected", job.at, 0)
        elif self._fits_alone(request):
            self.waiting.append(request)
        else:
            self.clients.answer(request, "never", job.at, 0)

    def _fits_alone(self, request: Live) -> bool:
        return all(
            needed_to_finish(request.as_seen_by(self.capacity, window), window) <= blocks
            for window, blocks in self.capacity.windows
        )

    def _idle(self) -> bool:
        arrival = self.clients.arrival
        if arrival is None:
            return False
        self.now = max(self.now, arrival[0])
        return True


def _pools(capacity: Capacity, workload: Workload) -> CountedPools | ReusedPool:
    """Counts are exact where nobody can find a block again: prompts of their own, of requests that are never paused."""
    finds = getattr(workload, "shared", True) or capacity.policy == "MAX_UTILIZATION"
    return ReusedPool(capacity) if capacity.reuses and finds and not capacity.slides else CountedPools(capacity)
