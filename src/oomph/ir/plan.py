"""A plan: what a deployment will do on its GPUs. The JSON of design.md section 5 is made from it, field by field."""

from typing import Any

from msgspec import Struct, field

from oomph.ir.advice import Advice
from oomph.ir.deployment import Deployment
from oomph.ir.ledger import Term
from oomph.ir.printed import Printed
from oomph.ir.timeline import Margin, Stage, Verdict


class RankPlan(Struct, frozen=True):
    rank: int
    gpu: str
    total_bytes: int
    used_by_others_bytes: int
    terms: dict[str, Term]
    stages: tuple[Stage, ...]
    verdict: Verdict
    created_bytes: int = 0  # what the layers create before repacking
    requested_bytes: int = 0  # the engine's budget: total x utilisation


class KvGroup(Struct, frozen=True):
    kind: str  # full, sliding_window, chunked_local, mla, mamba, cross, and what an engine adds
    layers: int
    block_size: int
    page_bytes: int
    blocks_per_request: int = 0


class KvSummary(Struct, frozen=True):
    """The KV cache."""

    available_bytes: int
    num_blocks: int
    bytes_per_block: int
    block_size: int
    logged_tokens: int  # as the engine prints it
    max_concurrency: float  # requests of max_model_len at once
    groups: tuple[KvGroup, ...]
    need_bytes: int = 0  # one request of max_model_len
    longest_request: int = 0  # tokens of the longest request that can be admitted
    log_lines: tuple[str, ...] = ()  # that the engine would print


class MeasuredStarts(Struct, frozen=True):
    """Starts of one release that were measured."""

    release: str
    card: str
    starts: int
    compiled: int  # of them, with torch.compile and CUDA graphs


class Grounds(Struct, frozen=True):
    """What a plan's constants rest on."""

    measured: tuple[MeasuredStarts, ...]
    same_release: bool  # the release that was planned is one of them
    same_card: bool
    text: str  # "measured on 0.32.0 on an H200 ..."


class Asleep(Struct, frozen=True):
    """An engine that sleeps, per GPU."""

    left: Term  # stays on the GPU
    wakes_bytes: int  # must be free at once to wake up


class Plan(Printed, frozen=True):
    """What `oomph plan` prints: will it start, where each byte goes, and what would help."""

    deployment: Deployment
    model: str
    verdict: Verdict
    ranks: tuple[RankPlan, ...] = ()
    kv: KvSummary | None = None
    resolved: dict[str, Any] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    advice: Advice | None = None  # None: nobody asked for it
    host: "HostPlan | None" = None  # memory of the busiest node; None: not planned
    asleep: Asleep | None = None  # None: the engine cannot sleep
    grounds: Grounds | None = None  # None: the engine has no table of what was measured

    @property
    def fits(self) -> bool:
        """It starts, in the expected case; `verdict.outcome` says how sure that is."""
        return self.verdict.fits

    def in_short(self) -> str:
        gpus, engine = self.deployment.gpus, self.deployment.engine
        cards = f"{len(gpus)} x {gpus[0].name}" if len(gpus) > 1 else gpus[0].name if gpus else "no GPU"
        stage = f" at {self.verdict.stage}" if self.verdict.stage else ""
        return f"{self.model} on {cards}, {engine.name} {engine.version}: {self.verdict.outcome}{stage}"


# What a deployment takes of its host's memory, part by part, and what the host has.


class HostPart(Struct, frozen=True):
    """One thing that lives in host memory, on one node."""

    name: str  # "weights while loading"
    bytes: int
    low: int
    high: int
    why: str = ""
    after_start: bool = True  # False: only while the server starts
    reclaimable: bool = False  # page cache: the kernel gives it back, and reads it again from disk


class HostPlan(Struct, frozen=True):
    """Of the busiest node."""

    parts: tuple[HostPart, ...]
    shm_bytes: int = 0  # of it, in /dev/shm
    ram_bytes: int = 0  # what the node has; 0 = nobody said
    ram_from: str = ""  # "--ram", "this machine", "the container's limit", "shared with the GPU"
    available_bytes: int = 0  # of it, not in use by others
    margin: Margin | None = None  # what is left of `available_bytes`; None where it is not known
    later: tuple[HostPart, ...] = ()  # what a later event takes: sleep level 1

    @property
    def held_bytes(self) -> int:
        """Weights, caches and buffers of what the CPU computes. A mapped file counts: each token reads it, so that what
        the kernel gives back is read from the disk again. Processes and what is read once do not."""
        once = ("process", "page cache")
        return sum(part.low for part in self.parts if part.after_start and not part.name.startswith(once))

    @property
    def need_bytes(self) -> int:
        """At the highest point: what is there at once, page cache left out."""
        return sum(part.bytes for part in self.parts if not part.reclaimable)

    @property
    def serving_bytes(self) -> int:
        return sum(part.bytes for part in self.parts if not part.reclaimable and part.after_start)

    @property
    def mapped_bytes(self) -> int:
        """Weights on the CPU in a mapped file: the kernel may drop them, and every token reads them again."""
        return sum(part.low for part in self.parts if part.reclaimable)

    @property
    def absent_bytes(self) -> int:
        """Of these, what the host has no memory for, where it is known how much it has."""
        short = max(0, self.mapped_bytes + self.need_bytes - self.available_bytes) if self.ram_bytes else 0
        return min(short, self.mapped_bytes)
