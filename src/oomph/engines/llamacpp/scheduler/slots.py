"""llama-server's slots: which of them a request gets, and what of its prompt is there already.

tools/server/server-context.cpp of v0.5.0 (get_available_slot, process_single_task, pre_decode). The slot whose cache
begins like the prompt is taken, else the one that nobody has used for longest; what is lost by that goes to the prompt
cache in host memory, and a better beginning may come from there.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from oomph.engines.llamacpp.scheduler.prompt_cache import Checkpoint, Prompt, PromptCache
from oomph.engines.llamacpp.scheduler.texts import Segments, common_prefix, text_of
from oomph.simulate.config import Job

_KEPT_SHARE = 0.5  # below it what a slot holds is saved before it is overwritten
_LAST = 4  # tokens of a prompt that are computed apart, so that a checkpoint stands before them


class Slots(Struct, frozen=True, kw_only=True):
    count: int  # -np
    cells: int  # of the whole cache
    context: int  # of one slot
    batch: int
    micro_batch: int
    unified: bool = False
    split: Literal["simple", "equal", "sequential"] = "simple"  # how a batch is cut into micro-batches
    similarity: float = 0.1  # --slot-prompt-similarity
    mixes: bool = True  # prompts join the tokens of others (--cont-batching)
    shifts: bool = False  # --context-shift
    keeps: int = 1  # tokens that a shift leaves at the beginning: the one that begins every text
    cache_bytes: int = 8192 << 20  # --cache-ram; 0: no prompt cache; -1: no limit
    saves_idle: bool = True  # idle slots are saved whenever a request starts, and cleared if the cache is unified
    in_order: bool = False  # who waits longest is next, also where several slots are released at once (Ollama)
    cuts_prompts: bool = False  # a prompt that is too long is cut to what a slot holds (Ollama)
    token_bytes: int = 1
    state_bytes: int = 0
    checkpoint_bytes: int = 0
    checkpoints: int = 0  # of a slot at most; 0: every layer can forget single tokens
    window: int = 0
    window_cells: int = 0  # of a sliding window; 0: the state is recurrent

    def prompt_cache(self) -> PromptCache | None:
        if not self.cache_bytes:
            return None
        limit = max(0, self.cache_bytes)
        return PromptCache(limit, self.cells, self.token_bytes, self.state_bytes, self.checkpoint_bytes)

    def oldest(self, tokens: int, floor: int) -> int:
        """seq_pos_min behind so many tokens: a recurrent state is only that of the last one."""
        return max(floor, tokens - self.window_cells) if self.window_cells else tokens - 1


class Live:
    """A request inside the server."""

    __slots__ = ("cached", "first_token", "generated", "job", "preemptions", "prompt", "started", "text", "total")

    def __init__(self, job: Job) -> None:
        self.job, self.text, self.prompt, self.total = job, text_of(job), job.prompt, max(1, job.output)
        self.generated = self.preemptions = self.cached = 0
        self.started = self.first_token = -1


class Slot:
    __slots__ = ("checkpoints", "floor", "id", "request", "state", "text", "tokens", "used_at")

    def __init__(self, number: int) -> None:
        self.id = number
        self.request: Live | None = None
        self.state: Literal["idle", "started", "prompt", "generating"] = "idle"
        self.text: Segments = ()
        self.tokens = 0  # in the cache
        self.floor = 0  # positions before it are gone from its windows: states are stored without them
        self.checkpoints: tuple[Checkpoint, ...] = ()
        self.used_at = -1

    def holds(self) -> Prompt:
        return Prompt(self.text, self.tokens, self.checkpoints)

    def put(self, prompt: Prompt, window: int) -> None:
        self.floor = max(0, prompt.tokens - window)
        self.text, self.tokens, self.checkpoints = prompt.text, prompt.tokens, prompt.checkpoints

    def clear(self) -> None:
        self.text, self.tokens, self.checkpoints, self.floor = (), 0, (), 0


def choose_slot(slots: Slots, idle: Sequence[Slot], request: Live, cache: PromptCache | None, resident: int) -> Slot:
    """get_available_slot, of those that are not at work. `resident`: tokens in the caches of all slots."""
    best, share, choice = 0.0, 0, None
    if slots.similarity:
        for slot in idle:
            if slot.tokens and slot.text[0][0] == request.text[0][0]:
                shared = common_prefix(slot.text, request.text, min(slot.tokens, request.prompt))
                similar = shared / request.prompt
                if similar > best and similar > slots.similarity:
                    best, share, choice = similar, shared, slot
    loses = choice is not None and share / choice.tokens < _KEPT_SHARE
    if choice is None:
        choice, loses = _least_recent(idle), True
    if loses and cache is not None:
        if choice.tokens:
            cache.save(choice.holds())
        _load(slots, choice, request, cache, resident)
        cache.trim()
    return choice


def _load(slots: Slots, slot: Slot, request: Live, cache: PromptCache, resident: int) -> None:
    """prompt_load: a state that finds no cells in a shared cache stays where it is, and the slot is cleared."""
    key = cache.better(request.text, request.prompt, slot.holds())
    if not key:
        return
    if slots.unified and resident - slot.tokens + cache.prompts[key].tokens > slots.cells:
        slot.clear()
    else:
        slot.put(cache.take(key), slots.window)


def _least_recent(idle: Sequence[Slot]) -> Slot:
    """Of those that were never used the last one (`<=`)."""
    first = idle[0]
    for slot in idle:
        if slot.used_at <= first.used_at:
            first = slot
    return first


def save_idle(slots: Slots, idle: Iterable[Slot], cache: PromptCache | None) -> None:
    """process_single_task, cache_idle_slots."""
    if cache is None or not slots.saves_idle:
        return
    for slot in idle:
        if slot.tokens:
            cache.save(slot.holds())
            cache.trim()
            if slots.unified:
                slot.clear()


def reuse(slots: Slots, slot: Slot, request: Live) -> int:
    """What of its prompt a request finds in its slot (SLOT_STATE_STARTED); at least one token is computed."""
    past = common_prefix(slot.text, request.text, min(slot.tokens, request.prompt)) if slot.tokens else 0
    end = past
    if slots.checkpoints and past:
        new = int(past == request.prompt)
        threshold = max(0, past - slots.window - new)
        if slots.oldest(slot.tokens, slot.floor) >= threshold:
            past, end = _restored(slots, slot, past, threshold)
        slot.checkpoints = tuple(point for point in slot.checkpoints if point.tokens - 1 <= end)
    slot.floor = slot.floor if past else 0
    return past - 1 if past == request.prompt else past


def _restored(slots: Slots, slot: Slot, past: int, threshold: int) -> tuple[int, int]:
    """(tokens that stay, position behind them), by the newest checkpoint that the prompt still goes through."""
    for point in reversed(slot.checkpoints):
        last = point.tokens - 1
        if last <= past and (point.first < threshold or point.first == 0):
            position = min(past, max(point.first + 1, last))
            slot.floor = max(point.first, point.tokens - slots.window)
            return min(position, point.tokens), position
    slot.floor = 0
    return 0, 0


def chunk(slots: Slots, slot: Slot, request: Live, room: int) -> int:
    """Tokens of a prompt that join the batch. Where checkpoints are made, the prompt's end is computed apart."""
    count = min(request.prompt - slot.tokens, room)
    if slots.checkpoints:
        for last in (_LAST + slots.micro_batch, _LAST):
            stop = request.prompt - min(slots.batch, last) - slot.tokens
            if 0 < stop < count:
                count = stop
                break
    return count


def keep_checkpoint(slots: Slots, slot: Slot, request: Live, count: int) -> None:
    """create_checkpoint: the state before this chunk, if it is near the prompt's end."""
    start = slot.tokens - count
    near = request.prompt < slot.tokens + slots.micro_batch
    if not slots.checkpoints or not start or not (near or slot.tokens == request.prompt):
        return
    others = [point for point in slot.checkpoints if point.tokens != start]
    slot.checkpoints = (*others[-(slots.checkpoints - 1) :], Checkpoint(start, slots.oldest(start, slot.floor)))
