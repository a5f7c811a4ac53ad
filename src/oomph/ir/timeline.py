"""The stages of a start-up in order, each with what is resident after it and the peak inside it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

StageName = Literal[
    "startup_free_memory", "weights_load", "profile_run", "cudagraph_profile", "kv_check", "kv_alloc",
    "cudagraph_capture", "sampler_warmup", "runtime_request", "host_ram", "other",
]  # fmt: skip
STAGES: tuple[StageName, ...] = StageName.__args__  # type: ignore[attr-defined]


class Stage(Struct, frozen=True):
    name: StageName
    resident_bytes: int  # on the device when the stage is over, others and context included
    peak_bytes: int  # the highest point inside it
    peak_low: int = 0
    peak_high: int = 0
    note: str = ""


class Verdict(Struct, frozen=True):
    fits: bool
    stage: StageName | None = None  # where it dies
    short_bytes: int = 0
    message: str = ""  # what the engine would print
    rank: int = 0
    sure: bool = True  # False: the intervals reach across the limit
    first_to_break: str = ""  # a fitting plan's tightest point


class Timeline(Struct, frozen=True):
    rank: int
    stages: tuple[Stage, ...]
