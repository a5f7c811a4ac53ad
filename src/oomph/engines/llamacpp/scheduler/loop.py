"""llama-server under a load over time: requests arrive and get a slot, a batch is decoded, its tokens are known.

One turn of the loop is server_queue::start_loop: new tasks, then update_slots (tools/server, v0.5.0). Tokens of slots
that generate come first in a batch, then prompts in the order of the slots, as many tokens as --batch-size allows.
Turns in which the same slots generate a token each are taken many at once.
"""

from bisect import insort
from collections import deque
from operator import attrgetter

from oomph.engines.llamacpp.scheduler.micro_batches import micro_batches
from oomph.engines.llamacpp.scheduler.slots import (
    Live,
    Slot,
    Slots,
    choose_slot,
    chunk,
    keep_checkpoint,
    reuse,
    save_idle,
)
from oomph.engines.llamacpp.scheduler.texts import shifted
from oomph.simulate.clients import Clients, Observer, Workload
from oomph.simulate.config import Config
from oomph.simulate.timing import RECURRENT, StepTime, decode_series

_FAR = 1 << 120
_number = attrgetter("id")
Piece = tuple[Slot, int, bool]  # a slot's tokens in a batch, and whether the last of them gives a token


class SlotLoop:
    """One server. The interface is that of engines/vllm/scheduler/loop.py."""

    def __init__(self, slots: Slots, config: Config, time: StepTime, workload: Workload, observer: Observer) -> None:
        self.slots, self.time, self.groups, self.observer = slots, time, config.groups, observer
        self.all = [Slot(number) for number in range(slots.count)]
        self.cache = slots.prompt_cache()
        self.clients = Clients(workload, time, observer)
        self.queue: deque[Live] = deque()
        self.deferred: deque[Live] = deque()
        self.busy: list[Slot] = []  # by number
        self.idle = list(self.all)
        self.now = self.steps = self.work = self.preemptions = self.released = 0
        self.leaps = True
        self.rates = time.decoding()
        self.plain_rate = sum(self.rates) if all(group.kind == "full" for group in config.groups) else 0
        self.decode_ticks: dict[tuple[int, ...], int] = {}  # by the slots that generate a token each

    def run(self, max_steps: int = _FAR) -> bool:
        """True: `max_steps` are reached and there is more to do."""
        while self.steps < max_steps:
            self.queue.extend(Live(job) for job in self.clients.arrivals(self.now))
            while self.queue:
                self._receive(self.queue.popleft())
            if not self.busy:
                arrival = self.clients.arrival
                if arrival is None:
                    return False
                self.now = max(self.now, arrival[0])
                continue
            count = self._leap() if self.leaps else 0
            if count > 1:
                self._generate(count)
            else:
                self._update_slots()
        return True

    # ---- requests ----------------------------------------------------------------------------------------------------

    def _receive(self, request: Live) -> None:
        """process_single_task."""
        idle, context = self.idle, self.slots.context
        if self.slots.cuts_prompts and request.prompt >= context:
            request.prompt = context - 1
        if not idle:
            self.deferred.append(request)
            return
        resident = sum(slot.tokens for slot in self.all) if self.slots.unified else 0
        slot = choose_slot(self.slots, idle, request, self.cache, resident)
        slot.request, slot.state = request, "started"
        request.started = self.now
        idle.remove(slot)
        insort(self.busy, slot, key=_number)
        save_idle(self.slots, idle, self.cache)

    def _release(self, slot: Slot, *, refused: bool = False) -> None:
        """The first task that waits goes before all new ones (pop_deferred_task)."""
        request = slot.request
        assert request is not None
        slot.request, slot.state = None, "idle"
        self.released += 1
        slot.used_at = self.released
        self.busy.remove(slot)
        insort(self.idle, slot, key=_number)
        self.clients.answer(request, "rejected" if refused else "done", self.now, request.generated)
        if self.deferred and self.slots.in_order:
            self.queue.append(self.deferred.popleft())
        elif self.deferred:
            self.queue.appendleft(self.deferred.popleft())

    # ---- one turn ----------------------------------------------------------------------------------------------------

    def _update_slots(self) -> None:
        slots, generating = self.slots, []
        for slot in self.busy:
            if slot.state == "generating":
                if slots.shifts and slot.tokens + 1 >= slots.context:
                    _shift(slot, slots)
                slot.tokens += 1
                generating.append(slot)
        prompts: list[Piece] = []
        if slots.mixes or not generating:
            self._add_prompts(prompts, slots.batch - len(generating))
        total = len(generating) + sum(count for _, count, _ in prompts)
        if total > slots.batch or (slots.unified and sum(slot.tokens for slot in self.all) > slots.cells):
            self._decode_in_views([*((slot, 1, True) for slot in generating), *prompts], total)
        elif total:
            self._decode(generating, prompts)
        else:
            self.steps += 1

    def _add_prompts(self, pieces: list[Piece], room: int) -> None:
        for slot in list(self.busy):
            if room <= 0:
                break
            request = slot.request
            if request is None or slot.state == "generating":
                continue
            if slot.state == "started":
                if request.prompt >= self.slots.context or request.prompt < 1:
                    self._release(slot, refused=True)
                    continue
                slot.tokens = request.cached = reuse(self.slots, slot, request)
                slot.text, slot.state = request.text, "prompt"
            count = chunk(self.slots, slot, request, room)
            slot.tokens += count
            room -= count
            keep_checkpoint(self.slots, slot, request, count)
            done = slot.tokens == request.prompt
            if done:
                slot.state = "generating"
            pieces.append((slot, count, done))

    def _decode(self, generating: list[Slot], prompts: list[Piece]) -> None:
        """A batch that is decoded whole."""
        attention = self._attention(generating)
        inside, sampled = [(slot.id, 1) for slot in generating], generating
        for slot, count, done in prompts:
            attention += self.time.chunk(self.groups, slot.tokens - count, count)
            inside.append((slot.id, count))
            if done:
                insort(sampled, slot, key=_number)
        self._step(attention + self._fixed(inside, len(sampled)), len(inside), sampled)

    def _attention(self, slots: list[Slot]) -> int:
        """Of one token of each, in ticks."""
        ticks = 0
        for group, rate in zip(self.groups, self.rates):
            if group.kind in RECURRENT:
                ticks += rate * len(slots)
            elif group.kind == "full":
                ticks += rate * sum(slot.tokens for slot in slots)
            else:
                ticks += rate * sum(min(slot.tokens, group.span) for slot in slots)
        return ticks

    def _decode_in_views(self, pieces: list[Piece], total: int) -> None:
        """Views of --batch-size tokens. A cache that is full makes idle slots forget, then the views smaller."""
        resident = sum(slot.tokens for slot in self.all) - total
        start, most = 0, self.slots.batch
        while start < total:
            size = min(most, total - start)
            if self.slots.unified and resident + size > self.slots.cells:
                freed = self._forget_idle()
                resident -= freed
                if not freed and most == 1:
                    self._fail()
                    return
                most = most if freed else most // 2
                continue
            self._view(pieces, start, size)
            resident += size
            start, most = start + size, self.slots.batch

    def _forget_idle(self) -> int:
        """try_clear_idle_slots: the first that has anything."""
        for slot in self.idle:
            if slot.tokens:
                tokens = slot.tokens
                slot.clear()
                return tokens
        return 0

    def _fail(self) -> None:
        """ "Context size has been exceeded.": everybody's request ends with an error, and the cache is cleared."""
        self.steps += 1
        for slot in list(self.busy):
            self._release(slot, refused=True)
            slot.clear()

    def _view(self, pieces: list[Piece], start: int, size: int) -> None:
        """llama_decode of a part of the batch, and the tokens that come out of it."""
        inside: list[tuple[int, int]] = []
        sampled: list[Slot] = []
        attention = position = 0
        for slot, count, gives in pieces:
            first, last = max(start, position), min(start + size, position + count)
            position += count
            if first >= last:
                continue
            inside.append((slot.id, last - first))
            behind = slot.tokens - (position - first)  # tokens before these
            attention += self.time.chunk(self.groups, behind, last - first)
            if gives and last == position:
                sampled.append(slot)
        sampled.sort(key=_number)
        self._step(attention + self._fixed(inside, len(sampled)), len(inside), sampled)

    def _step(self, ticks: int, work: int, sampled: list[Slot]) -> None:
        self.now += ticks
        self.work += work
        self._count(ticks, 1)
        for slot in sampled:
            self._sample(slot, 1)

    def _fixed(self, inside: list[tuple[int, int]], outputs: int) -> int:
        sizes = micro_batches(self.slots, inside)
        return sum(self.time.fixed(size, outputs if index == 0 else 1) for index, size in enumerate(sizes))

    def _sample(self, slot: Slot, count: int) -> None:
        request = slot.request
        assert request is not None
        if request.first_token < 0:
            request.first_token = self.now
        request.generated += count
        full = not self.slots.shifts and slot.tokens + 1 >= self.slots.context
        if full or request.generated >= request.total:
            self._release(slot)

    # ---- many turns at once ------------------------------------------------------------------------------------------

    def _leap(self) -> int:
        """Turns until somebody may start, end, be cut or run out of cells; 0: the next turn is not such a one."""
        slots, busy = self.slots, self.busy
        if len(busy) > slots.batch or busy[-1].state != "generating" or busy[0].state != "generating":
            return 0
        count = _FAR
        for slot in busy:
            request = slot.request
            if request is None or slot.state != "generating":
                return 0
            count = min(count, request.total - request.generated, slots.context - 1 - slot.tokens)
        if slots.unified:
            resident = sum(slot.tokens for slot in self.all)
            count = min(count, (slots.cells - resident) // len(busy))
        if count > 1 and len(busy) < slots.count:
            count = self._before_arrival(count)
        return count

    def _before_arrival(self, count: int) -> int:
        arrival = self.clients.arrival
        if arrival is None:
            return count
        fixed = self._decode_fixed()
        if self._ends(fixed, count - 1) < arrival[0]:
            return count
        low, high = 1, count
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._ends(fixed, middle - 1) < arrival[0] else (low, middle - 1)
        return low

    def _decode_fixed(self) -> int:
        numbers = tuple(slot.id for slot in self.busy)
        ticks = self.decode_ticks.get(numbers)
        if ticks is None:
            ticks = self.decode_ticks[numbers] = self._fixed([(number, 1) for number in numbers], len(numbers))
        return ticks

    def _ends(self, fixed: int, count: int) -> int:
        """When so many turns are over."""
        now, busy = self.now + count * fixed, self.busy
        if self.plain_rate:
            tokens = count * sum(slot.tokens for slot in busy) + len(busy) * (count * (count + 1) // 2)
            return now + self.plain_rate * tokens
        return now + sum(decode_series(self.time, self.groups, slot.tokens, count) for slot in busy)

    def _generate(self, count: int) -> None:
        busy = list(self.busy)
        fixed = self._decode_fixed()
        if not self.idle and self.clients.arrival is not None:  # who came before the last of these turns waits
            for job in self.clients.arrivals(self._ends(fixed, count - 1)):
                self._receive(Live(job))
        end = self._ends(fixed, count)
        ticks, self.now = end - self.now, end
        self.work += len(busy)
        for slot in busy:
            slot.tokens += count
        self._count(ticks, count)
        for slot in busy:
            self._sample(slot, count)

    def _count(self, ticks: int, steps: int) -> None:
        self.steps += steps
        waiting = len(self.deferred) + len(self.queue)
        used = sum(slot.tokens for slot in self.busy)
        self.observer.step(self.now, ticks, len(self.busy), waiting, used, "slots" if waiting else "", 0)


def _shift(slot: Slot, slots: Slots) -> None:
    """pre_decode: half of what follows the tokens that are kept is dropped."""
    request = slot.request
    assert request is not None
    keep = min(slots.keeps, slots.context - 4)
    discard = (slot.tokens - keep) // 2
    slot.text = shifted(slot.text, keep, discard, request.job.id)
    slot.tokens -= discard
    slot.checkpoints = ()
