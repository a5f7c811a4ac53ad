"""What a person can change, what each change would do, and what is left to say: part of every plan.

A `Lever` is one way to move memory with the settings that are worth trying, from one table per engine. The judge in
`advice/` plans a `Change` and returns it `Judged`; every command, the JSON and the page show these objects.
"""

from typing import Any, Literal

from msgspec import Struct

from oomph.ir.hardware import Device
from oomph.ir.timeline import Outcome, StageName

Kind = Literal["flag", "environment", "host", "layout", "release", "checkpoint", "hardware", "offload"]
# In the order of what they cost: a flag a restart, a checkpoint a download, hardware money. Offloaded weights slow down
# every step: the last resort.
KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]
Effect = Literal["fixes", "helps", "nothing", "worse", "refused", "unplanned"]  # the last: no plan has judged it


class Change(Struct, frozen=True):
    """One thing that a person can do."""

    lever: str  # the row of the table that it is a setting of, the same in every command: "max_model_len"
    label: str  # as it is typed: "--max-model-len 16384"
    kind: Kind = "flag"
    flags: dict[str, Any] = {}  # laid over the deployment's; None takes a flag away
    environment: dict[str, str] = {}
    model: str = ""  # another checkpoint
    version: str = ""  # another release
    engine: str = ""  # another engine, at its own defaults
    image: str = ""  # another container image
    gpus: tuple[Device, ...] = ()  # other GPUs
    cost: str = ""
    rank: int = 0  # what it costs the user, among changes of its kind: 0 is the least
    moves: tuple[str, ...] = ()  # terms that it moves: one that was pinned to an observed value is planned again


class Lever(Struct, frozen=True):
    name: str
    changes: tuple[Change, ...]  # the mildest setting first; each further one does more of the same
    not_read: dict[StageName, str] = {}  # stages at which the engine has not looked at it yet, or no longer: why
    idle: str = ""  # the engine never does anything with it: why
    refused: str = ""  # this release does not take it: its words
    popular: bool = False  # one of the fixes that guides list, whatever the failure
    # What it can give to the KV cache at most: terms, parts of terms ("weights.multimodal"), or what the engine's
    # budget leaves out ("beyond the budget"). None: it may lower what a request needs, or no bound is known.
    frees: tuple[str, ...] | None = None
    two_sided: bool = False  # too much of it fails as too little does: the settings between the ends are tried too


class Judged(Struct, frozen=True):
    change: Change
    effect: Effect
    outcome: Outcome | None = None  # of the changed plan; None: the change is refused
    stage: StageName | None = None  # where the changed plan dies
    gain_bytes: int = 0  # room at the failing stage, or KV memory where the plan fits; negative: lost
    tokens: int = 0
    concurrency: float = 0.0
    why: str = ""  # why it does nothing, makes it worse or is refused; for a help: what is then still missing
    command: str = ""  # complete, ready to be started

    @property
    def verified(self) -> bool:
        """It was planned, and it fits."""
        return self.effect == "fixes" and self.outcome == "fits"

    @property
    def costs(self) -> str:
        return "; ".join(words for words in (self.change.cost, self.why) if words)


class Advice(Struct, frozen=True):
    why: tuple[str, ...] = ()
    fixes: tuple[Judged, ...] = ()  # the cheapest first
    helps: tuple[Judged, ...] = ()
    useless: tuple[Judged, ...] = ()
    next_step: str = ""  # a command of oomph's own that goes on from here
