"""SGLang over time: requests arrive, a step is scheduled and takes as long as timing.py says, its tokens become known
at its end. With overlap the next step is scheduled while one runs. Steps in which the same requests decode, and nothing
else can happen, are taken many at once; they leave everything as one by one would."""

from functools import lru_cache

from oomph.engines.sglang.scheduler.live import Live
from oomph.engines.sglang.scheduler.scheduler import Batch, Scheduler
from oomph.engines.sglang.scheduler.settings import Settings
from oomph.simulate.clients import Clients, Observer, Workload
from oomph.simulate.config import Config, Job
from oomph.simulate.timing import RECURRENT, StepTime
from oomph.units import cdiv

FAR = 1 << 120


class Loop(Scheduler):
    def __init__(
        self, settings: Settings, config: Config, time: StepTime, workload: Workload, observer: Observer
    ) -> None:
        super().__init__(settings)
        self.time, self.groups, self.observer = time, config.groups, observer
        self.clients = Clients(workload, time, observer)
        self.leaps = True  # False: every step is played
        self.now = self.flight_start = 0
        self.steps = self.tokens = self.work = 0
        rates = [(group, rate) for group, rate in zip(config.groups, time.decoding())]
        self.whole_rate = sum(rate for group, rate in rates if group.kind == "full")
        self.once_rate = sum(rate for group, rate in rates if group.kind in RECURRENT)
        self.spans = [(g.span, rate) for g, rate in rates if g.kind != "full" and g.kind not in RECURRENT]
        self.fixed = lru_cache(1 << 16)(time.fixed)

    def run(self, max_steps: int = FAR) -> bool:
        """True: `max_steps` are reached and there is more to do."""
        while self.steps < max_steps:
            self._receive(self.flight_start if self.in_flight is not None else self.now)
            count = self._leap() if self.leaps else 0
            if count > 1:
                self._take_steps(count)
            elif not self._take_step():
                return False
        return True

    # --- steps

    def _take_step(self) -> bool:
        """One round of the event loop; False: nothing is left to do."""
        self.binds = ""
        batch = self.next_batch()
        start, previous = self.now, self.in_flight
        if batch is not None:
            self.now += self._duration(batch)
            for request, _, _ in batch.prompts:
                if request.started < 0:
                    request.started = start
            self._count(self.now - start, 1, batch)
        if self.settings.overlap:
            self.in_flight, self.flight_start = batch, start
            if previous is not None:
                self._answer(previous, start)
        elif batch is not None:
            self._answer(batch, self.now)
        is_idle = batch is None and self.last is None
        self.last = batch
        return self._rest() if is_idle else True

    def _answer(self, batch: Batch, at: int) -> None:
        done = self.process(batch)
        for request, _, _ in batch.prompts:
            if request.new and request.first_token < 0:
                request.first_token = at
        for request in done:
            self.clients.answer(request, "done", at, request.new)
        for request in self.aborted:
            self.clients.answer(request, "never", at, 0)
        self.aborted = []

    def _rest(self) -> bool:
        """on_idle: the estimate of new tokens begins anew."""
        self.ratio = self.settings.first_ratio
        if self.waiting and not self.running:  # the engine is empty and still does not let it in
            self.clients.answer(self.waiting.pop(0), "never", self.now, 0)
            return True
        arrival = self.clients.arrival
        if arrival is None:
            return False
        self.now = max(self.now, arrival[0])
        return True

    def _duration(self, batch: Batch) -> int:
        decoding = batch.decoding
        tokens = len(decoding)
        ticks = self.whole_rate * sum([request.allocated for request in decoding]) + self.once_rate * tokens
        for span, rate in self.spans:
            ticks += rate * sum([min(request.allocated, span) for request in decoding])
        for _, new, prefix in batch.prompts:
            tokens += new
            ticks += self.time.chunk(self.groups, prefix, new)
        count = len(batch.prompts) + len(decoding)
        self.work += count
        return ticks + self.fixed(tokens, count)

    def _count(self, ticks: int, steps: int, batch: Batch) -> None:
        self.steps += steps
        running = len(self.running) + (0 if batch.kind == "decode" else len(batch.prompts) + len(batch.decoding))
        used = self.settings.pages - self.free_pages - self.tree.evictable // self.page
        binds = (self.binds or ("tokens" if self.is_full else "")) if self.waiting else ""
        self.observer.step(self.now, ticks, running, len(self.waiting), used, binds, self.preemptions)

    # --- many steps at once

    def _leap(self) -> int:
        """Steps until somebody may end, start or be retracted."""
        last = self.last
        if last is None or last.kind != "decode" or self.chunked is not None or not self.running:
            return 0
        running = self.running
        if last.decoding is not running or self.some_ended:
            return 0
        if self.waiting and (not self.is_full or self.settings.preemption):
            return 0
        count = min([request.max_new - request.new for request in running]) - 1
        free = self.free_pages + self.tree.evictable // self.page
        while count > 1 and free - self._pages(count) < len(running):
            count //= 2
        if count > 1 and not self.is_full:
            count = self._steps_before_arrival(count)
        return count

    def _pages(self, count: int) -> int:
        page = self.page
        if page == 1:
            return count * len(self.running)
        return sum([cdiv(r.allocated + count, page) - cdiv(r.allocated, page) for r in self.running])

    def _held(self) -> int:
        """Tokens of all that run."""
        return sum([request.allocated for request in self.running])

    def _series(self, count: int, before: int) -> int:
        """Ticks of so many steps of all that run, which have `before` tokens."""
        batch = len(self.running)
        ticks = count * (self.fixed(batch, batch) + self.once_rate * batch)
        ticks += self.whole_rate * (count * before + batch * count * (count + 1) // 2)
        for span, rate in self.spans:
            for request in self.running:
                growing = max(0, min(count, span - request.allocated))
                read = growing * request.allocated + growing * (growing + 1) // 2
                ticks += rate * (read + (count - growing) * span)
        return ticks

    def _steps_before_arrival(self, count: int) -> int:
        """The most rounds of which none sees the next request: with overlap a round sees those that came before the
        step in flight began."""
        arrival = self.clients.arrival
        if arrival is None:
            return count
        lag, before = int(self.settings.overlap), self._held()

        def sees(rounds: int) -> int:
            """When the last of so many rounds looks."""
            steps = rounds - 1 - lag
            return self.flight_start if steps < 0 else self.now + (self._series(steps, before) if steps else 0)

        if sees(count) < arrival[0]:
            return count
        low, high = 1, count
        while low < high:
            middle = (low + high + 1) // 2
            if sees(middle) < arrival[0]:
                low = middle
            else:
                high = middle - 1
        return low

    def _take_steps(self, count: int) -> None:
        settings, running = self.settings, self.running
        start = self.now
        before = self._held()
        ticks, last = self._series(count, before), self._series(count - 1, before)
        self.now += ticks
        # Step by step the same leaves leave the tree, in the same order: as many as the last step still needs.
        self._evict((self._pages(count - 1) + len(running)) * self.page)
        self.free_pages -= self._pages(count)
        ratio, least, decay = self.ratio, self.least_ratio, self.decay
        for _ in range(count):  # one by one: a product would be rounded otherwise
            if ratio <= least:
                break
            ratio -= decay
        self.ratio = ratio if ratio > least else least
        for request in running:
            request.allocated += count
            request.new += count
        self.work += 1
        batch = Batch("decode", [], running)
        self.last = batch
        if settings.overlap:
            self.in_flight, self.flight_start = batch, start + last
        self._count(ticks, count, batch)

    # --- arrivals

    def _receive(self, seen: int) -> None:
        for job in self.clients.arrivals(seen):
            self._enqueue(job)

    def _enqueue(self, job: Job) -> None:
        """init_req_max_new_tokens: a request asks for no more than the pool and the context hold."""
        settings = self.settings
        paged = cdiv(job.prompt, self.page) * self.page
        room = min(settings.longest - job.prompt - 1, settings.tokens - paged - self.page - 1)
        request = Live(job, max(1, min(job.output, room)))
        if job.prompt < 1 or room < 1:
            self.clients.answer(request, "rejected", job.at, 0)
        else:
            self.enqueue(request)
