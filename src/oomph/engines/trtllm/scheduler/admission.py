"""Who runs in the next step: TensorRT-LLM's capacity schedulers, and the batch that they fill.

`cpp/tensorrt_llm/batch_manager/capacityScheduler.cpp` decides who may run, `microBatchScheduler.cpp` how many tokens of
each a step has. GUARANTEED_NO_EVICT starts a request only if its blocks up to max_tokens are left after all running
ones have theirs; MAX_UTILIZATION looks one step ahead and pauses the youngest when blocks run out. Where prompts are
reused, a request waits while another one computes the block that it needs next (beneficialToSkip).
"""

from oomph.engines.trtllm.kv.blocks import needed_for_start, needed_for_step, needed_to_finish
from oomph.engines.trtllm.scheduler.capacity import Capacity, Live
from oomph.engines.trtllm.scheduler.counted_pool import CountedPools
from oomph.engines.trtllm.scheduler.reused_pool import ReusedPool
from oomph.units import cdiv


class Admission:
    def __init__(self, capacity: Capacity, pools: CountedPools | ReusedPool) -> None:
        self.capacity, self.pools = capacity, pools
        self.windows = [window for window, _ in capacity.windows]
        self.free_tokens: dict[Live, int] = {}  # request -> tokens of its prompt that its step need not compute

    def choose(self, active: list[Live]) -> tuple[list[Live], list[Live], bool]:
        """(who may run, who is paused, whether somebody waits for blocks)."""
        self.free_tokens = {}
        if self.capacity.policy == "MAX_UTILIZATION":
            return self._most_utilised(active)
        fitting, waits = self._never_evicted(active)
        return fitting, [], waits

    def _never_evicted(self, active: list[Live]) -> tuple[list[Live], bool]:
        """Running requests keep what they need to finish; others start in order, up to the first that does not fit."""
        fitting: list[Live] = []
        pending: list[Live] = []
        for request in active:
            (fitting if request.computed >= request.prompt else pending).append(request)
        static = self.capacity.policy == "STATIC_BATCH"
        if not pending or (static and fitting):
            return fitting, False
        available = self._unpromised(fitting)
        contributed = self._contributed(pending)
        for request in pending:
            if not static and self._better_later(request, contributed):
                continue
            needs = self._needs_to_finish(request)
            if any(need > left for need, left in zip(needs, available)):
                return fitting, True
            available = [left - need for left, need in zip(available, needs)]
            fitting.append(request)
        return fitting, False

    def _unpromised(self, running: list[Live]) -> list[int]:
        """What running requests do not need."""
        available = list(self.pools.free)
        if not self.capacity.slides:
            block = self.windows[0].block
            blocks = sum(-r.tokens // block - -(r.prompt + r.max_new) // block for r in running)  # differences of cdiv
            return [available[0] - blocks * self.capacity.beams]
        for request in running:
            needs = self._needs_to_finish(request)
            available = [left - need for left, need in zip(available, needs)]
        return available

    def _needs_to_finish(self, request: Live) -> list[int]:
        if request.decodes and not self.capacity.slides:  # the only case with many requests: no more than this is left
            block = self.windows[0].block
            return [(cdiv(request.prompt + request.max_new, block) - cdiv(request.tokens, block)) * self.capacity.beams]
        shared = self._shared(request, with_free=True)
        return [needed_to_finish(request.as_seen_by(self.capacity, window, shared), window) for window in self.windows]

    def _most_utilised(self, active: list[Live]) -> tuple[list[Live], list[Live], bool]:
        """One step ahead, in order; where blocks are short the youngest that has started is paused."""
        fitting: list[Live] = []
        paused: list[Live] = []
        contributed = self._contributed(active)
        free = list(self.pools.free)
        scheduled = [0] * len(free)
        end, at, waits = len(active), 0, False
        while at < end:
            request = active[at]
            if self._better_later(request, contributed):
                at += 1
                continue
            needs = self._needs_for_one_step(request)
            if all(planned + need <= left for planned, need, left in zip(scheduled, needs, free)):
                scheduled = [planned + need for planned, need in zip(scheduled, needs)]
                fitting.append(request)
                at += 1
                continue
            waits = True
            last = next((index for index in range(end - 1, at - 1, -1) if active[index].has_started), -1)
            if last < 0:
                break
            paused.append(active[last])
            free = [left + freed for left, freed in zip(self.pools.free, self.pools.freed_by(paused))]
            end = last
        return fitting, paused, waits

    def _needs_for_one_step(self, request: Live) -> list[int]:
        if request.has_started and not request.decodes:
            return [0] * len(self.windows)
        if request.decodes:
            if not self.capacity.drafts and len(self.windows) == 1 and request.tokens % self.windows[0].block:
                return [0]  # the block of its last token has room
            return [needed_for_step(request.as_seen_by(self.capacity, window), window) for window in self.windows]
        shared = self._shared(request, with_free=False)
        slack = request.max_new if self.capacity.slack == "new tokens" else self.capacity.max_num_tokens
        return [
            needed_for_start(request.as_seen_by(self.capacity, window, shared), window, slack)
            for window in self.windows
        ]

    def _shared(self, request: Live, *, with_free: bool) -> int:
        """Blocks of a prompt that has not started and that others hold; what need not be computed is noted."""
        if request.has_started or not self.capacity.counts_shared:
            return 0
        shared = self.pools.shared_blocks(request)
        block = self.windows[0].block
        cached = self.pools.shared_blocks(request, with_free=True) if with_free else shared
        self.free_tokens[request] = min(cached, request.prompt // block) * block
        return shared

    # ---- waiting for a block that another request computes -----------------------------------------------------------

    def _contributed(self, requests: list[Live]) -> set[int]:
        """prefillWithChunkedContextsAlreadyExecuting."""
        if self.capacity.slides or self.capacity.policy == "STATIC_BATCH":
            return set()
        begun = (request for request in requests if request.has_started and not request.decodes)
        return {key for request in begun if (key := self.pools.new_block(request)) is not None}

    def _better_later(self, request: Live, contributed: set[int]) -> bool:
        if request.has_started or self.capacity.slides:
            return False
        key = self.pools.new_block(request)
        if key is None:
            return False
        if key in contributed:
            return True
        contributed.add(key)
        return False

    # ---- the batch ---------------------------------------------------------------------------------------------------

    def fill(self, fitting: list[Live]) -> list[tuple[Live, int]]:
        """(request, tokens): until max_num_tokens are full. A prompt that is cut ends with a whole block."""
        budget, step_tokens = self.capacity.max_num_tokens, self.capacity.step_tokens
        batch: list[tuple[Live, int]] = []
        prompts: list[Live] = []
        for request in fitting:
            if request.computed >= request.prompt:
                tokens = cost = step_tokens
            elif self.capacity.chunked:
                prompts.append(request)
                continue
            else:
                tokens = request.prompt
                cost = max(1, tokens - self._free_of(request))
            if cost > budget:
                break
            batch.append((request, tokens))
            budget -= cost
        return batch + self._chunks(prompts, budget)

    def _chunks(self, prompts: list[Live], budget: int) -> list[tuple[Live, int]]:
        """FIRST_COME_FIRST_SERVED: each takes what it can of the budget."""
        block = self.windows[0].block
        fits = sum(max(0, r.prompt - r.computed - self._free_of(r)) for r in prompts) <= budget
        batch = []
        for request in prompts:
            wanted = tokens = request.prompt - request.computed
            cost = wanted - min(wanted, self._free_of(request))
            if not fits:
                if cost > budget:
                    tokens = budget // block * block
                budget -= min(tokens, cost)
            if tokens > 0:
                batch.append((request, tokens))
        return batch

    def _free_of(self, request: Live) -> int:
        return 0 if request.has_started else self.free_tokens.get(request, 0)
