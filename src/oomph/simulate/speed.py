"""Tokens per second of a plan, from the same step times as `oomph simulate`, for commands that compare many plans.

A reference request has a prompt of 2,048 tokens. One user: it decodes alone. All users: as many decode in one batch,
each behind such a prompt. The first token comes after the prompt's chunks. What a queue adds, only a simulation says.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from msgspec import Struct

from oomph.simulate.accuracy import SpeedError
from oomph.simulate.config import Group
from oomph.simulate.timing import SECOND, StepTime

PROMPT = 2048


class Timing(Struct, frozen=True):
    """How long the steps of one deployment take."""

    time: StepTime
    groups: tuple[Group, ...]
    chunk: int  # tokens of a prefill step at most
    error: SpeedError  # how far such times were from published ones
    per_step: float = 1.0  # tokens of one request in a step: more than one with drafts


class Speed(Struct, frozen=True):
    one_user: float  # tokens per second that one user sees
    all_users: float  # tokens per second of all users together
    users: int
    first_token_seconds: float  # for a prompt of `prompt` tokens, with nobody else there
    prompt: int
    factor: float  # nine of ten published speeds were within this factor of such a figure
    published: int  # how many published speeds that is from; 0 = taken over from another engine
    error: SpeedError | None = None  # how far such figures were from published ones


def speed_of(timing: Timing, users: int, prompt: int = PROMPT) -> Speed:
    alone = timing.time.fixed(1, 1) + timing.time.chunk(timing.groups, prompt, 1)
    batch = timing.time.fixed(users, users) + users * timing.time.chunk(timing.groups, prompt, 1)
    return Speed(
        one_user=timing.per_step * SECOND / alone,
        all_users=users * timing.per_step * SECOND / batch,
        users=users,
        first_token_seconds=_first_token(timing, prompt) / SECOND,
        prompt=prompt,
        factor=timing.error.nine_of_ten,
        published=timing.error.numbers,
        error=timing.error,
    )


def _first_token(timing: Timing, prompt: int) -> int:
    time, ticks, done = timing.time, 0, 0
    for _ in range(ceil(prompt / timing.chunk)):
        new = min(timing.chunk, prompt - done)
        ticks += time.fixed(new, 1) + time.chunk(timing.groups, done, new)
        done += new
    return ticks + time.request + time.prompt_token * prompt + time.response


def worst_error(speeds: Sequence[Speed]) -> str:
    """How far such figures were from published ones, in words: of the kind among them that is least certain."""
    errors = [speed.error for speed in speeds if speed.error is not None]
    return max(errors, key=lambda error: error.nine_of_ten).sentence() if errors else ""
