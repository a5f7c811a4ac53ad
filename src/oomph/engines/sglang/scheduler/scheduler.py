"""One step of SGLang's scheduler (managers/scheduler.py): prefill before decode, and retraction when tokens run out."""

from typing import Literal

from msgspec import Struct

from oomph.engines.sglang.scheduler.admission import PrefillAdder
from oomph.engines.sglang.scheduler.live import Live
from oomph.engines.sglang.scheduler.policy import QueueOrder
from oomph.engines.sglang.scheduler.radix import RadixTree
from oomph.engines.sglang.scheduler.settings import RETRACT_DECODE_STEPS, Settings
from oomph.errors import OomphError
from oomph.units import cdiv

Kind = Literal["extend", "mixed", "decode"]


class Batch(Struct):
    """Prompts with the tokens that the step computes of each and those before them, then those that decode one."""

    kind: Kind
    prompts: list[tuple[Live, int, int]]
    decoding: list[Live]
    chunked: Live | None = None

    @property
    def requests(self) -> list[Live]:
        return [*(request for request, _, _ in self.prompts), *self.decoding]


class Scheduler:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.page = settings.page_size
        self.tree = RadixTree(settings.page_size, settings.eviction, settings.rules.unified)
        self.order = QueueOrder(settings, self.tree)
        self.free_pages = settings.pages
        self.rows = settings.max_running_requests
        self.waiting: list[Live] = []
        self.running: list[Live] = []
        self.is_full = False  # running_batch.batch_is_full
        self.chunked: Live | None = None
        self.last: Batch | None = None
        self.in_flight: Batch | None = None  # its tokens are not known yet
        self.ratio = settings.first_ratio
        self.least_ratio, self.decay = settings.least_ratio, settings.decay
        self.entries = self.processed = self.preemptions = 0
        self.some_ended = False  # since the running batch was last looked through
        self.aborted: list[Live] = []  # nothing was left for the last one: the server gives it up
        self.binds = ""

    @property
    def free(self) -> int:
        return self.free_pages * self.page

    @property
    def reachable(self) -> int:
        """Tokens that are free or would be if what nobody reads left the tree."""
        return self.free_pages * self.page + self.tree.evictable

    def enqueue(self, request: Live) -> None:
        self.entries += 1
        request.entry = self.entries
        request.arrived_at = self.processed
        self.waiting.append(request)

    # --- a step

    def next_batch(self) -> Batch | None:
        """get_next_batch_to_run."""
        rules = self.settings.rules
        excluded = {self.chunked} if self.chunked is not None else set()
        if self.chunked is not None and self.chunked.extend_end > self.chunked.prefix:
            self._checkpoint(self.chunked, self.chunked.extend_end, is_chunk=True)
            self.chunked.prefix = self.chunked.extend_end
        last = self.last
        if last is not None and last.kind != "decode":
            if last.chunked is not None:
                excluded.add(last.chunked)
            requests = last.requests
            joining = [request for request in requests if not request.finished and request not in excluded]
            if len(joining) < len(requests):
                self.is_full = False
            # an empty batch is replaced by the one that joins, with its flag (scheduler.py: running_batch = last_batch)
            if joining and not self.running:
                self.is_full = False
            self.running = [*self.running, *joining]
        if rules.filters_first and self.some_ended:
            self._filter_running()
        batch = self._new_prefill()
        return batch if batch is not None else self._decode()

    def _filter_running(self) -> None:
        left = [request for request in self.running if not request.finished]
        if len(left) < len(self.running):
            self.is_full = False
        self.running = left
        self.some_ended = False

    def _places(self, own_rows: int = 0) -> int:
        """get_num_allocatable_reqs."""
        return min(self.settings.max_running_requests - len(self.running), self.rows + own_rows)

    def _new_prefill(self) -> Batch | None:
        """_get_new_batch_prefill_raw."""
        settings, rules = self.settings, self.settings.rules
        if settings.preemption or (rules.full_if_served and not self.running):
            self.is_full = False
        if (self.is_full or not self.waiting) and self.chunked is None:
            return None
        if self._places() <= 0 and self.chunked is None and not settings.preemption:
            self.is_full, self.binds = True, "max_running_requests"
            return None
        self.order.sort(self.waiting, self.processed)
        adder = PrefillAdder(self, self.running)
        if self.chunked is not None:
            self.chunked.filled = self.chunked.length
            self.chunked = adder.add_chunk(self.chunked)
        self._admit(adder)
        if not adder.admitted:
            for request in adder.preempted if rules.requeues else ():
                self.enqueue(request)
            return None
        joined = set(adder.admitted)
        self.waiting = [request for request in self.waiting if request not in joined]
        for request in adder.preempted:
            self.enqueue(request)
        if adder.new_chunked is not None:
            self.chunked = adder.new_chunked
        if self.chunked is not None:
            self.chunked.in_flight_chunks += 1
        return self._extend(adder.admitted)

    def _admit(self, adder: PrefillAdder) -> None:
        settings, rules = self.settings, self.settings.rules
        for request in self.waiting:
            if rules.looks_at_budget and adder.state() == "other":
                self.binds = "chunked_prefill_size"
                return
            own_rows = sum(other.holds for other in adder.admitted) if rules.counts_held else 0
            if len(adder.admitted) >= self._places(own_rows):
                self.is_full, self.binds = True, "max_running_requests"
            if self.is_full and not (settings.preemption and adder.preempt_for(request)):
                return
            self._match(request)
            verdict = adder.add(request)
            if verdict != "continue":
                self.binds = "tokens" if verdict == "no_token" else "chunked_prefill_size"
                if verdict == "no_token":
                    self.is_full = not rules.full_if_served or bool(adder.admitted or self.running)
                return

    def _match(self, request: Live) -> None:
        """init_next_round_input: the last token is always computed."""
        request.filled = request.length
        if not self.settings.radix:
            request.node, request.prefix = self.tree.root, 0
            return
        node = self.tree.match(request.sequence, request.length - 1)
        request.node, request.prefix, request.protected = node, node.end, node.end
        request.matched = node.end

    def _extend(self, requests: list[Live]) -> Batch:
        """prepare_for_extend, and mix_with_running where decodes ride along."""
        entries = [(request, request.extend_end - request.prefix, request.prefix) for request in requests]
        tokens = sum(new for _, new, _ in entries)
        self._evict(tokens + (len(entries) * self.page if self.page > 1 else 0))
        for request, _, prefix in entries:
            if not request.holds:
                self.rows -= 1
                request.holds = True
            request.retracted = False
            self.free_pages -= cdiv(request.extend_end, self.page) - cdiv(prefix, self.page)
            request.allocated = request.extend_end
            if request.cached < 0:
                request.cached = prefix
        self._refuse_overdraft("Prefill")
        self.processed += tokens
        batch = Batch("extend", entries, [], self.chunked)
        if self.settings.mixed and self.settings.chunk and self.running:
            self._mix(batch)
        return batch

    def _mix(self, batch: Batch) -> None:
        rules = self.settings.rules
        ending = self._ending()
        left = [request for request in self.running if not request.finished and request not in ending]
        if ending:
            self.is_full = False
        self.running = left
        if left and rules.checks_mixed and not self._fits(left):
            return
        if left:
            self._grow(left)
            batch.kind = "mixed"
            batch.decoding = left
            for request in left:
                request.filled = request.length
        self.running = []

    # --- decode

    def _ending(self) -> set[Live]:
        """_reqs_finishing_inflight: those whose last token is on its way."""
        if not self.settings.rules.known_end or self.in_flight is None:
            return set()
        flight = self.in_flight
        ending = {request for request in flight.decoding if request.new + 1 >= request.max_new}
        return ending | {request for request, _, _ in flight.prompts if request.new + 1 >= request.max_new}

    def _decode(self) -> Batch | None:
        """update_running_batch."""
        if not self.running:
            return None
        before = len(self.running)
        ending = self._ending()
        if ending or self.some_ended:
            self.running = [request for request in self.running if not request.finished and request not in ending]
            self.some_ended = False
        if not self.running:
            self.is_full = False
            return None
        fits = self._fits(self.running)
        if not fits and ending:
            self.is_full = False
            return None
        if fits:
            self.ratio = max(self.ratio - self.decay, self.least_ratio)
        else:
            self._retract()
        if len(self.running) < before:
            self.is_full = False
        if not self.running:
            return None
        self._grow(self.running)
        return Batch("decode", [], self.running)

    def _fits(self, requests: list[Live]) -> bool:
        """check_decode_mem."""
        tokens = self._new_pages(requests) * self.page
        self._evict(tokens)
        return self.free >= tokens

    def _new_pages(self, requests: list[Live]) -> int:
        """Pages that one token more of each takes."""
        page = self.page
        return len(requests) if page == 1 else sum(request.allocated % page == 0 for request in requests)

    def _grow(self, requests: list[Live]) -> None:
        """prepare_for_decode: a slot for one token more."""
        self._evict(len(requests) * self.page)
        self.free_pages -= self._new_pages(requests)
        for request in requests:
            request.allocated += 1
        self._refuse_overdraft("Decode")

    def _refuse_overdraft(self, phase: str) -> None:
        """mem_cache/common.py: the allocator's RuntimeError ends the server; until 0.5.21 a mixed step did not look
        whether its decodes fit."""
        if self.free_pages < 0:
            raise OomphError(
                f"SGLang itself dies under this load: {phase} out of memory. Try to lower your batch size.",
                hint="leave out --enable-mixed-chunk, or take 0.5.22 or newer, where decodes wait for their tokens",
            )

    def _retract(self) -> None:
        """retract_decode: those with the fewest tokens of their own give way, the longest prompts first."""
        survivors = sorted(self.running, key=lambda request: (request.new, -request.prompt), reverse=True)
        retracted: list[Live] = []
        while not retracted or not self._fits(survivors):
            if len(survivors) == 1:
                break
            retracted.append(survivors.pop())
            self.release_for_retract(retracted[-1], len(survivors))
        if len(survivors) == 1 and not self._fits(survivors):
            last = survivors.pop()
            self.release_for_retract(last, 0)
            last.aborted = True
            self.aborted.append(last)
        # filter_batch(keep_indices=sorted_indices): what stays, stays in that order, unless all stay
        self.running = survivors
        tokens = sum(request.new for request in survivors) + RETRACT_DECODE_STEPS * len(survivors)
        self.ratio = min(1.0, tokens / (sum(request.max_new for request in survivors) + 1))
        for request in retracted:
            self.enqueue(request)

    def release_for_retract(self, request: Live, others: int) -> None:
        self.release(request, keeps=False)
        self._evict(others * RETRACT_DECODE_STEPS)
        request.retracted = True
        request.prefix = request.protected = request.inserted = request.extend_end = 0
        request.in_flight_chunks = 0
        request.node = None
        request.preemptions += 1
        self.preemptions += 1

    # --- the pool

    def _evict(self, tokens: int) -> None:
        """evict_from_tree_cache: what is short, leaf by leaf."""
        short = tokens - self.free
        if short > 0 and self.settings.radix:
            self.free_pages += self.tree.evict(short) // self.page

    def _counted(self, request: Live, *, is_chunk: bool) -> int:
        """Up to where an insert counts no hit."""
        if self.settings.rules.hits == "once":
            return request.inserted
        return request.length if is_chunk else 0

    def _checkpoint(self, request: Live, tokens: int, *, is_chunk: bool = False) -> None:
        """checkpoint_kv_cache, cache_unfinished_req: what is computed joins the tree, where the request reads it."""
        if not self.settings.radix:
            return
        tokens = tokens // self.page * self.page
        counted = self._counted(request, is_chunk=is_chunk)
        shared, node = self.tree.insert(request.sequence, tokens, request.job.priority, counted, request.lock)
        self.free_pages += max(0, shared - request.protected) // self.page
        if request.finished or self.settings.rules.splits_prompt == "always":
            self._split_prompt(request, tokens)
        if not self.settings.rules.unified:
            node = self.tree.match(request.sequence, tokens)
        request.inserted = max(request.inserted, tokens)
        request.protected = tokens
        if request.lock is not None:
            self.tree.unlock(request.lock)
        self.tree.lock(node)
        request.lock = request.node = node

    def _split_prompt(self, request: Live, tokens: int) -> None:
        prompt = request.prompt // self.page * self.page
        if self.settings.rules.splits_prompt != "never" and 0 < prompt < tokens:
            self.tree.insert(request.sequence, prompt, request.job.priority + 1, prompt, request.lock)

    def release(self, request: Live, *, keeps: bool) -> None:
        """release_kv_cache."""
        if keeps and self.settings.radix:
            # In a step that was already under way its last token was computed too.
            tokens = min(request.allocated, request.length) // self.page * self.page
            if self.settings.rules.unified:
                self._checkpoint(request, tokens)
            else:
                shared, _ = self.tree.insert(request.sequence, tokens, request.job.priority, 0, request.lock)
                self.free_pages += max(0, shared - request.protected) // self.page
                self._split_prompt(request, tokens)
                request.protected = tokens
        self.free_pages += cdiv(request.allocated, self.page) - request.protected // self.page
        if request.lock is not None:
            self.tree.unlock(request.lock)
        request.lock = None
        request.allocated = 0
        request.holds = False
        self.rows += 1

    # --- results

    def process(self, batch: Batch) -> list[Live]:
        """process_batch_result: the tokens of a step become known; who is done."""
        done: list[Live] = []
        for request, _, _ in batch.prompts:
            if request.finished or request.retracted:
                continue
            if request.in_flight_chunks > 0:
                request.in_flight_chunks -= 1
                continue
            request.new += 1
            if request.new < request.max_new:
                self._checkpoint(request, request.extend_end)
                request.prefix = request.extend_end
            else:
                self._finish(request, done)
        for request in batch.decoding:
            if request.finished or request.retracted:
                continue
            request.new += 1
            if request.new >= request.max_new:
                self._finish(request, done)
        return done

    def _finish(self, request: Live, done: list[Live]) -> None:
        request.finished = self.some_ended = True
        self.release(request, keeps=True)
        done.append(request)
