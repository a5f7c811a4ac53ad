"""The shape of a plan and of an error in JSON. Additions are fine, renames are not.

`docs/schema/` is made from these classes and those of contract_*.py (tools/schemas.py): the comment behind a
field is its description there.
"""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from oomph.ir import Basis, Effect, Margin, Outcome, StageName
from oomph.ir.advice import Kind as ChangeKind
from oomph.ir.plan import Grounds
from oomph.ir.timeline import RefusalKind

SCHEMA = 1  # a new number is a new contract: a field was renamed, removed, or means something else


class EngineOutput(Struct, frozen=True):
    name: str  # vllm, sglang, llamacpp, ollama, trtllm
    version: str  # the release that was planned
    version_from: str = ""  # who says so: --engine, image tag, pip install, installed package, newest known


class VerdictOutput(Struct, frozen=True):
    """What a start will do."""

    outcome: Outcome  # fits; at_risk: it starts and a named load breaks it; close: too close to call; fails
    fits: bool  # the expected case: true for fits and at_risk
    stage: StageName | None  # where it dies; null where it starts
    short_bytes: int  # what is missing at that stage
    message: str  # what the engine would print
    rank: int  # the GPU that decides
    sure: bool  # true for fits and fails
    first_to_break: str  # the stage with the least room
    risk: str  # what breaks a start that succeeds
    margin_bytes: Margin | None  # room at the stage that decides, negative where it is short; null: refused anyway
    deciding_term: str  # the term whose interval is the widest there
    asked_margin_bytes: int  # the room that --margin asks for
    refusal: RefusalKind  # what a refusal before any memory is touched is about; empty where memory decides


class TermOutput(Struct, frozen=True):
    """One part of the memory of one GPU."""

    bytes: int  # the expected size
    low: int  # the lower end of its interval
    high: int  # the upper end
    basis: Basis  # exact: to the byte; formula: derived; measured; assumed: nobody knows; given: the user said so
    parts: dict[str, int]  # what it consists of
    why: str  # the formula, or where the figure is from
    created_bytes: int | UnsetType = UNSET  # weights: what the layers create before repacking


class StageOutput(Struct, frozen=True):
    """One stage of the start-up on one GPU."""

    name: StageName
    resident_bytes: int  # in use when the stage is over, other processes included
    peak_bytes: int  # the highest point inside it
    note: str


class RankOutput(Struct, frozen=True):
    """One GPU."""

    rank: int
    gpu: str
    total_bytes: int  # as the driver reports it
    used_by_others_bytes: int
    requested_bytes: int  # the engine's budget
    terms: dict[str, TermOutput]
    stages: list[StageOutput]  # in the order in which the engine passes them


class KvGroupOutput(Struct, frozen=True):
    kind: str  # full, sliding_window, chunked_local, mla, mamba, cross, and what an engine adds
    layers: int
    block_size: int
    page_bytes: int
    blocks_per_request: int


class KvOutput(Struct, frozen=True):
    """The KV cache."""

    available_bytes: int
    num_blocks: int
    bytes_per_block: int
    block_size: int
    logged_tokens: int  # as the engine prints it
    max_concurrency: float  # requests of max_model_len at once
    need_bytes: int  # one request of max_model_len
    longest_request: int  # tokens of the longest request that is admitted
    groups: list[KvGroupOutput]
    log_lines: list[str]  # the lines that the engine would print


class JudgedOutput(Struct, frozen=True):
    """One change that a person can make, planned."""

    lever: str  # the same name in every command
    change: str  # as it is typed
    kind: ChangeKind
    effect: Effect
    outcome: Outcome | None  # of the changed plan; null: the change is refused
    stage: StageName | None  # where the changed plan dies
    gain_bytes: int  # room at the failing stage, or KV memory where the plan fits; negative: lost
    tokens: int  # tokens of KV cache with the change
    concurrency: float
    cost: str  # what is given up for it
    why: str  # why it does nothing, makes it worse or is refused; of a help: what is still missing
    command: str  # complete, ready to be started


class AdviceOutput(Struct, frozen=True):
    """What would help, each change planned."""

    why: list[str]
    fixes: list[JudgedOutput]  # the cheapest first
    helps: list[JudgedOutput]
    useless: list[JudgedOutput]  # does nothing, makes it worse, or is refused
    next_step: str  # a command of oomph's own that goes on from here


class HostPartOutput(Struct, frozen=True):
    """One thing in the memory of the host."""

    name: str
    bytes: int
    low: int
    high: int
    why: str
    after_start: bool  # false: only while the server starts
    reclaimable: bool  # page cache: the kernel gives it back


class HostOutput(Struct, frozen=True):
    """The memory of the busiest node."""

    need_bytes: int  # at the highest point, page cache left out
    serving_bytes: int  # of it, once the server runs
    shm_bytes: int  # of it, in /dev/shm
    ram_bytes: int  # what the node has; 0: nobody said
    ram_from: str  # --ram, this machine, the container's limit, shared with the GPU
    available_bytes: int  # of it, not in use by others
    margin_bytes: Margin | None  # what is left of it; null where it is not known
    parts: list[HostPartOutput]
    later: list[HostPartOutput]  # what a later event takes: sleep level 1, a prompt cache that fills


class AsleepOutput(Struct, frozen=True):
    """An engine that sleeps (--enable-sleep-mode), per GPU."""

    left_bytes: int  # stays on the GPU, at level 1 and 2
    low: int
    high: int
    wakes_bytes: int  # must be free at once to wake up


class PlanOutput(Struct, frozen=True):
    """`oomph plan --json`, and one line of `--batch`."""

    schema: int
    engine: EngineOutput
    model: str
    verdict: VerdictOutput
    ranks: list[RankOutput]
    kv: KvOutput | None
    resolved: dict[str, Any]  # the settings that the engine ends up with, by its own names
    assumptions: list[str]
    warnings: list[str]
    host: HostOutput | None  # null: not planned
    asleep: AsleepOutput | None = None  # null: the engine cannot sleep
    rests_on: Grounds | None = None  # what the constants were measured on; null: there is no such table
    advice: AdviceOutput | UnsetType = UNSET  # left out by --no-advice and by --batch


class ErrorDetail(Struct, frozen=True):
    kind: str  # command_error, unknown_model, hub_error, ...: the class of the exception
    message: str  # one sentence
    hint: str = ""


class ErrorOutput(Struct, frozen=True):
    """What every command prints with --json where it refuses; the exit code says it too."""

    error: ErrorDetail
    schema: int = SCHEMA
    failed: UnsetType | None = UNSET  # of explain: nobody can tell


class BatchCase(Struct, frozen=True):
    """One line that `oomph plan --batch` reads."""

    args: list[str]  # the whole command: ["vllm", "serve", "MODEL", ...]
    id: Any = None  # anything; it comes back with the answer
    gpu: str | dict[str, Any] | list[Any] | None = None  # as --gpu takes it, or an object; null: live
    engine: str | None = None  # vllm==0.21.0
    given: dict[str, int | str] | list[str] | None = None  # terms that are pinned: {"available_kv": "11.54GiB"}
    compile_cache: str | None = None  # cold or warm
    margin: int | str | None = None  # room to be left: bytes, "1GiB", "5%"


class BatchPlan(PlanOutput, frozen=True, kw_only=True):
    """A line that `oomph plan --batch` writes: a plan, without advice."""

    id: Any  # that of the case


class BatchError(Struct, frozen=True):
    """A line that `oomph plan --batch` writes for a case that cannot be planned."""

    id: Any  # that of the case
    error: str  # one sentence
    kind: str  # of the error
    hint: str = ""
