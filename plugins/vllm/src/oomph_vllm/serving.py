"""While it serves, only where OOMPH=watch asks: peaks beyond the profile, growth, and a KV cache that will not do.

A look costs a few hundred microseconds and happens at most once a second in each process. What is said once is not said
again until it has become worse by a step.
"""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from oomph_vllm import lines

LOOK_EVERY_S = 1.0
MARK_EVERY_S = 60.0  # growth is judged over minutes
MARKS = 6
STEP = 64 * 2**20  # a peak is named again when it is higher by so much
SOON_STEPS = 256  # a full KV cache this near is worth a line
STORM = 8  # preemptions between two looks
QUIET_S = 600.0  # of one kind of line about the KV cache


class Holder(NamedTuple):
    """A running request: tokens that it holds, and tokens that it may still write."""

    tokens: int
    remaining: int


class Clock:
    """When a process looked last, and when each kind of line was said last."""

    looked = 0.0
    said: ClassVar[dict[str, float]] = {}


def is_due() -> bool:
    now = time.monotonic()
    if now - Clock.looked < LOOK_EVERY_S:
        return False
    Clock.looked = now
    return True


def say_rarely(kind: str, text: str) -> None:
    now = time.monotonic()
    if now - Clock.said.get(kind, -QUIET_S) >= QUIET_S:
        Clock.said[kind] = now
        lines.say([text])


def steps_until_full(requests: Iterable[Holder], free_blocks: int, block_size: int, groups: int = 1) -> int | None:
    """Decoding steps until the KV cache has no block left, if every request writes all that it may; None where it
    never fills. A request that reaches its end gives its blocks back."""
    ending = sorted(requests, key=lambda request: request.remaining)
    free, step = float(free_blocks), 0
    for index, request in enumerate(ending):
        per_step = (len(ending) - index) * groups / block_size
        steps = request.remaining - step
        if steps * per_step > free:
            return step + int(free / per_step)
        free -= steps * per_step
        free += groups * (request.tokens + request.remaining) / block_size
        step = request.remaining
    return None


def look_at_scheduler(scheduler: Any) -> None:
    """Before blocks run out: vLLM then takes the newest requests off the card and computes them again later."""
    running: Sequence[Any] = list(scheduler.running)
    if not running:
        return
    limit = int(scheduler.max_model_len)
    holders = [
        Holder(
            int(request.num_tokens),
            max(0, min(int(request.max_tokens) - int(request.num_output_tokens), limit - int(request.num_tokens))),
        )
        for request in running
    ]
    free = int(scheduler.kv_cache_manager.block_pool.get_num_free_blocks())
    steps = steps_until_full(holders, free, int(scheduler.block_size), _growing_groups(scheduler))
    if steps is not None and steps <= SOON_STEPS:
        say_rarely(
            "full",
            f"the KV cache is full in {steps} steps if the {len(running)} running requests write all they may: {free} "
            "blocks are free; then requests are preempted and computed again. A lower --max-num-seqs or max_tokens "
            "avoids it",
        )
    _count_preemptions(running, list(scheduler.waiting))


def _growing_groups(scheduler: Any) -> int:
    """Groups whose blocks grow with the request: neither windows nor states."""
    specs = [group.kv_cache_spec for group in scheduler.kv_cache_config.kv_cache_groups]
    growing = [
        spec for spec in specs if not getattr(spec, "sliding_window", None) and "Mamba" not in type(spec).__name__
    ]
    return max(1, len(growing))


class Preempted:
    before: int | None = None


def _count_preemptions(running: Sequence[Any], waiting: Sequence[Any]) -> None:
    now = sum(int(getattr(request, "num_preemptions", 0)) for request in (*running, *waiting))
    since, Preempted.before = Preempted.before, now
    if since is not None and now - since >= STORM:
        say_rarely(
            "storm",
            f"{now - since} preemptions since the last look, with {len(running)} requests running and {len(waiting)} "
            "waiting: the KV cache is too small for them, and their prompts are computed again",
        )


class Card:
    """What was highest and what was free at each mark."""

    named_peak: int | None = None
    marks: ClassVar[deque[tuple[float, int]]] = deque(maxlen=MARKS)


def look_at_card(reading: dict[str, int], ready_allocated: int, activation_peak: int) -> None:
    """A peak beyond what profiling saw, and memory that only ever falls."""
    if not reading:
        return
    foreseen = Card.named_peak if Card.named_peak is not None else ready_allocated + activation_peak
    peak = reading["allocated_peak"]
    if ready_allocated and activation_peak and peak > foreseen + STEP:
        Card.named_peak = peak
        lines.say(
            [
                f"serving needed {lines.gib(peak - ready_allocated)} for a step, profiling "
                f"{lines.gib(activation_peak)}: {lines.gib(reading['free'])} of the card are still free"
            ]
        )
    _look_at_growth(time.monotonic(), reading["free"])


def _look_at_growth(now: float, free: int) -> None:
    if Card.marks and now - Card.marks[-1][0] < MARK_EVERY_S:
        return
    Card.marks.append((now, free))
    falls = [before[1] - after[1] for before, after in zip(Card.marks, list(Card.marks)[1:])]
    if len(Card.marks) < MARKS or min(falls) <= 0:
        return
    minutes = (now - Card.marks[0][0]) / 60
    per_minute = sum(falls) / minutes
    if free / per_minute <= 60:
        say_rarely(
            "growth",
            f"free memory of the card has fallen for {minutes:.0f} minutes, by {lines.gib(sum(falls))}: at this pace "
            f"the {lines.gib(free)} that are left last {free / per_minute:.0f} minutes",
        )
