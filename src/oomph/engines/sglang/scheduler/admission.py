"""Who joins the next prefill (managers/schedule_policy.py PrefillAdder).

A request is let in if its prompt and the tokens that it may still get fit beside what those that run are expected to
get: their limits times the new-token ratio, which falls while nobody is retracted and rises when somebody is.
"""

from typing import TYPE_CHECKING, Literal

from oomph.engines.sglang.scheduler.live import Live
from oomph.engines.sglang.scheduler.settings import CLIP_MAX_NEW_TOKENS
from oomph.units import cdiv

if TYPE_CHECKING:
    from oomph.engines.sglang.scheduler.scheduler import Scheduler

Verdict = Literal["continue", "no_token", "other"]


class PrefillAdder:
    def __init__(self, scheduler: "Scheduler", running: list[Live]) -> None:
        self.scheduler, self.running = scheduler, running
        self.settings = settings = scheduler.settings
        self.page = settings.page_size
        mixed = len(running) if settings.mixed and settings.chunk else 0
        self.input_left = settings.max_prefill_tokens - mixed
        self.chunk_left: int | None = settings.chunk - mixed if settings.chunk else None
        self.total_offset: float = mixed
        self.current_offset: float = mixed
        clip, ratio, in_full = CLIP_MAX_NEW_TOKENS, scheduler.ratio, settings.rules.fixed_ratio
        # expected() of all, written out: it is most of the time of a step with many requests
        rates = [1.0 if in_full and request.fixed else ratio for request in running]
        lefts = [request.max_new - request.new for request in running]
        self.total_offset += sum([(left if left < clip else clip) * rate for left, rate in zip(lefts, rates)])
        self.admitted: list[Live] = []
        self.preempted: list[Live] = []
        self.new_chunked: Live | None = None
        self.states: list[tuple[float, int]] | None = None

    def expected(self, request: Live) -> float:
        """_get_running_request_total_token_offset."""
        ratio = 1.0 if request.fixed and self.settings.rules.fixed_ratio else self.scheduler.ratio
        return min(request.max_new - request.new, CLIP_MAX_NEW_TOKENS) * ratio

    @property
    def total_left(self) -> float:
        return self.scheduler.reachable - self.total_offset

    @property
    def current_left(self) -> float:
        return self.scheduler.reachable - self.current_offset

    def paged(self, tokens: int) -> int:
        return cdiv(tokens, self.page) * self.page

    def state(self) -> Verdict:
        """budget_state."""
        if self.total_left <= 0 or self.current_left <= 0:
            return "no_token"
        if self.input_left <= 0 or (self.chunk_left is not None and self.chunk_left <= 0):
            return "other"
        return "continue"

    def _charge(self, tokens: int, max_new: int) -> None:
        """_update_prefill_budget: a page more than its own for each request."""
        tokens = self.paged(tokens)
        self.total_offset += tokens + max_new + self.page
        self.current_offset += tokens + self.page
        self.input_left -= tokens
        if self.chunk_left is not None:
            self.chunk_left -= tokens

    def add_chunk(self, request: Live) -> Live | None:
        """add_chunked_req: the next chunk of the one whose prompt is under way; None: it was the last."""
        assert self.chunk_left is not None
        room = min(self.chunk_left, int(self.total_left))
        if room <= 0:
            room = self.chunk_left
        left = request.length - request.prefix
        new = min(left, room)
        request.extend_end = request.prefix + new
        self.admitted.append(request)
        self._charge(new, min(request.max_new, CLIP_MAX_NEW_TOKENS) if left <= room else 0)
        return request if left > room else None

    def add(self, request: Live) -> Verdict:
        if request.fixed and not self.settings.radix:
            return self._add_fixed(request)
        node = request.node
        assert node is not None
        self.scheduler.tree.lock(node)
        verdict = self._add_locked(request)
        if verdict is not None:
            self.scheduler.tree.unlock(node)
            return verdict
        request.lock = node  # req.lock: the path stays locked
        return self.state()

    def _add_locked(self, request: Live) -> Verdict | None:
        """None: it joins."""
        left = request.length - request.prefix
        more = min(max(request.max_new - request.new, 0), CLIP_MAX_NEW_TOKENS)
        if left + more + self.page >= self.total_left:
            return "no_token"
        tokens = self.paged(left)
        if self.chunk_left is None and self.admitted and tokens >= self.input_left:
            return "other"
        if self.chunk_left is None or tokens <= self.chunk_left:
            self._join(request, left, min(request.max_new, CLIP_MAX_NEW_TOKENS))
            return None
        end = (request.prefix + self.chunk_left // self.page * self.page) // self.page * self.page
        if end <= request.prefix:
            return "other"
        self.new_chunked = request
        self._join(request, end - request.prefix, 0)
        return None

    def _join(self, request: Live, tokens: int, max_new: int) -> None:
        request.extend_end = request.prefix + tokens
        self.admitted.append(request)
        self._charge(tokens, max_new)

    def _add_fixed(self, request: Live) -> Verdict:
        """add_one_req_ignore_eos: lengths that are known are played to their ends."""
        left = request.length - request.prefix
        paged = self.paged(left) + (self.page if self.settings.rules.fixed_page else 0)
        if paged > min(self.current_left, self.total_left):
            return "no_token"
        if self.states is None:
            self.states = []
            for other in (request, *self.running, *self.admitted):
                self._add_state(other, at_end=True)
            self.states.sort(key=lambda state: state[0])
        else:
            self._add_state(request, at_end=False)
        room, freed = self.current_left - paged, 0
        for index, (more, occupied) in enumerate(self.states):
            batch = len(self.states) - index
            if room + freed - more * batch <= batch:  # IGNORE_EOS_RESERVE_TOKENS = 1
                return "no_token"
            freed += occupied
        if self.chunk_left is None or left <= self.chunk_left:
            self._join(request, left, min(request.max_new, CLIP_MAX_NEW_TOKENS))
        elif self.chunk_left <= 0:
            return "other"
        else:
            self.new_chunked = request
            self._join(request, self.chunk_left, 0)
        return self.state()

    def _add_state(self, request: Live, *, at_end: bool) -> None:
        assert self.states is not None
        ratio = 1.0 if request.fixed else self.scheduler.ratio
        more = request.max_new * ratio - request.new
        if more <= 0:
            return
        place = len(self.states)
        if not at_end:
            place = next((i for i, state in enumerate(self.states) if more <= state[0]), max(0, len(self.states) - 1))
        self.states.insert(place, (more, request.length))

    def preempt_for(self, request: Live) -> bool:
        """preempt_to_schedule: whether lower priorities gave way."""
        settings = self.settings
        sign = 1 if settings.low_first else -1
        missing = request.filled - request.prefix + min(request.max_new, CLIP_MAX_NEW_TOKENS) - self.total_left
        victims: list[Live] = []
        running = [other for other in self.running if other not in self.preempted and not other.finished]
        for other in sorted(running, key=lambda other: (other.job.priority * -sign, -other.entry)):
            if (request.job.priority - other.job.priority) * -sign <= settings.preemption_threshold:
                break
            victims.append(other)
            missing -= self.expected(other)
            if missing <= 0:
                break
        if not victims or missing > 0:
            return False
        count = len(self.running)
        for number, other in enumerate([other for other in self.running if other in victims], 1):
            self.total_offset -= self.expected(other)
            self.scheduler.release_for_retract(other, count - number)
        self.running = self.scheduler.running = [other for other in self.running if other not in victims]
        self.preempted += victims
        return True
