"""The stages of a start-up in order, each with what is resident after it and the peak inside it."""

from typing import Literal

from msgspec import Struct

StageName = Literal[
    "startup_free_memory", "weights_load", "profile_run", "cudagraph_profile", "kv_check", "kv_alloc",
    "cudagraph_capture", "sampler_warmup", "runtime_request", "host_ram", "other",
]  # fmt: skip
STAGES: tuple[StageName, ...] = StageName.__args__  # type: ignore[attr-defined]


# What people call the stages, in every report: (the stage as a thing, when something happens in it).
STAGE_WORDS: dict[StageName, tuple[str, str]] = {
    "startup_free_memory": ("the free-memory check", "at the free-memory check, before anything is loaded"),
    "weights_load": ("loading the weights", "while loading the weights"),
    "profile_run": ("the profiling run", "in the profiling run"),
    "cudagraph_profile": ("CUDA graph profiling", "while profiling CUDA graphs, before the KV cache exists"),
    "kv_check": ("the KV cache check", "at the KV cache check"),
    "kv_alloc": ("allocating the KV cache", "while allocating the KV cache"),
    "cudagraph_capture": ("CUDA graph capture", "while capturing CUDA graphs"),
    "sampler_warmup": ("warm-up", "while warming up"),
    "runtime_request": ("serving", "while serving"),
    "host_ram": ("host memory", "because the host runs out of memory"),
    "other": ("the settings check", "before any memory is touched"),
}


class Stage(Struct, frozen=True):
    name: StageName
    resident_bytes: int  # on the device when the stage is over, others and context included
    peak_bytes: int  # the highest point inside it
    peak_low: int = 0
    peak_high: int = 0
    note: str = ""
    # the upper end of what must be there at once, where more than that is in use (a cache that is freed under need)
    needed_high: int = 0


Outcome = Literal["fits", "at_risk", "close", "fails"]
# What a refusal before any memory is touched is about: more ranks than GPUs, a model that the engine would not find, a
# card without code for it, a format or dtype, a degree that does not divide, a context, an adapter, or other settings.
RefusalKind = Literal["", "gpus", "model", "card", "format", "layout", "context", "adapter", "settings"]


class Margin(Struct, frozen=True):
    """Bytes of room at the stage that decides; negative: short of so many."""

    low: int
    expected: int
    high: int


class Verdict(Struct, frozen=True):
    """What a start will do. `ir/gate.py` makes it from the comparisons that the engine makes."""

    fits: bool  # the expected case
    stage: StageName | None = None  # where it dies
    short_bytes: int = 0
    message: str = ""  # what the engine would print
    rank: int = 0
    sure: bool = True  # False: the interval reaches across the limit, and nobody can call it
    first_to_break: str = ""  # the stage with the least room
    margin: Margin | None = None  # None: the engine refuses, whatever the memory
    deciding_term: str = ""  # the term whose interval is the widest at the stage that decides
    risk: str = ""  # a start that succeeds, and what breaks it afterwards
    asked_bytes: int = 0  # the room that the user wants to be left (--margin)
    refusal: RefusalKind = ""  # "": memory decides

    @property
    def outcome(self) -> Outcome:
        if not self.sure or (self.fits and self.margin is not None and self.margin.low < self.asked_bytes):
            return "close"
        if not self.fits:
            return "fails"
        return "at_risk" if self.risk else "fits"
