"""The shapes in JSON of everything but plans: explanations, fits, cards, diffs, simulations.

What is printed as it is kept (an inspection, a comparison, the result of a simulation) has its shape where it is kept.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from oomph.doctor.explanation import Cause, EngineInfo, Evidence, Possible
from oomph.doctor.ledger import Entry
from oomph.doctor.rule import Rejected
from oomph.doctor.thread import Run, Tried
from oomph.ir.hardware import Device
from oomph.ir.timeline import Outcome
from oomph.learn.start import Start
from oomph.report.contract import AdviceOutput, EngineOutput, ErrorDetail, JudgedOutput, PlanOutput
from oomph.search.models import Other
from oomph.search.prices import Against
from oomph.simulate.play import Load
from oomph.simulate.result import Result
from oomph.simulate.search import Target


class RemedyOutput(Struct, frozen=True):
    change: str
    kind: str
    gains_bytes: int
    verified: bool  # planned, and it fits
    costs: str
    command: str
    lever: str


class ExplanationOutput(Struct, frozen=True):
    """`oomph explain --json`."""

    schema: int
    engine: EngineInfo
    failed: bool | None  # null: the text does not tell; `settle` says what would
    stage: str | None
    cause: Cause
    ledger: list[Entry]
    unaccounted_bytes: int | None
    remedies: list[RemedyOutput]
    rejected: list[Rejected]
    evidence: list[Evidence]
    candidates: list[Possible]
    settle: str
    stage_basis: str
    model: str
    command: str
    total_bytes: int
    notes: list[str]
    inferred_stage: str | None
    inferred_reason: str
    advice: AdviceOutput | UnsetType = UNSET


class GpuOutput(Struct, frozen=True):
    name: str
    total_bytes: int
    used_bytes: int


class AskedOutput(Struct, frozen=True):
    context: int | None
    users: int | None
    prefer: str | UnsetType | None = UNSET


class AnswerOutput(Struct, frozen=True):
    """One configuration that serves."""

    checkpoint: str
    precision: str  # of most of its weights
    context: int
    users: int
    quality_loss: float  # an order, not a measure
    relative_speed: float  # 1.0 is the fastest of the front
    gives_up: list[str]
    gpus: int
    flags: dict[str, Any]
    command: str
    args: list[str]
    kv_tokens: int
    concurrency: float
    concurrency_at_worst: float
    tokens_per_second: float | None  # of one user; null: nobody knows how fast the card is
    tokens_per_second_all: float | None  # of all users together
    first_token_seconds: float | None
    speed_within_factor: float | None  # nine of ten published speeds were so near
    plan: PlanOutput | UnsetType = UNSET  # of the pick


class NeighbourOutput(Struct, frozen=True):
    change: str
    why: str


class RefusedOutput(Struct, frozen=True):
    checkpoint: str
    why: str


class FitOutput(Struct, frozen=True):
    """`oomph fit --json`."""

    schema: int
    model: str
    gpus: list[GpuOutput]
    asked: AskedOutput
    met: bool  # the context and users asked for are there
    close: bool  # what was asked for is too close to call
    pick: AnswerOutput | None
    front: list[AnswerOutput]  # nothing is better in every respect
    nearest: list[AnswerOutput]  # where it is not met
    neighbours: list[NeighbourOutput]  # why each step further fails
    refused: list[RefusedOutput]
    plans: int  # how many plans the search took
    notes: list[str]


class ModelsAskedOutput(Struct, frozen=True, rename={"purpose": "for"}):
    purpose: str
    context: int | None
    users: int
    prefer: str


class ModelPickOutput(Struct, frozen=True):
    """One model that runs on these GPUs, with the variant that serves it best."""

    model: str
    checkpoint: str
    quantization: str
    engine: str
    context: int  # tokens of one request that each user really gets
    users: int
    users_held: int  # requests of that context that the cache holds at the least
    tokens_per_second: float | None  # of one user, computed; null: nobody knows how fast this card is
    tokens_per_second_all: float | None
    first_token_seconds: float | None
    prompt_tokens: int | None
    speed_within_factor: float | None  # how far such speeds were off
    quality: dict[str, Any]
    room_bytes: int  # on the tightest GPU in its tightest stage, at the unfavourable end of every interval
    parameters: int
    active_parameters: int
    date: str | None
    licence: str | None
    command: str
    args: list[str]
    outcome: str
    traded: str  # what was given up for what
    others: list[Other]


class ModelsOutput(Struct, frozen=True):
    """`oomph models --json`."""

    schema: int
    gpus: list[GpuOutput]
    asked: ModelsAskedOutput
    least_context: int
    why: str  # the first line, explained in one sentence
    picks: list[ModelPickOutput]
    looked_at: int
    possible: int
    plans: int
    more: bool  # further models fit
    interrupted: bool


class CardOutput(Struct, frozen=True):
    """So many of one card, and the best checkpoint that they serve."""

    gpu: str
    count: int
    memory_bytes: int  # of all together
    price: float | None
    checkpoint: str
    command: str
    headroom_bytes: int  # on the fullest GPU, at the unfavourable end of every interval
    users: int
    longest_context: int
    kv_tokens: int
    engine: str
    tokens_per_second: float | None  # of one user; null: nobody knows how fast the card is
    tokens_per_second_all: float | None  # of the asked users together
    first_token_seconds: float | None
    speed_within_factor: float | None  # nine of ten published speeds were so near
    instances: list[str]  # of clouds
    step: str  # what it buys beside the line before it


class PricesOutput(Struct, frozen=True):
    date: str
    source: str
    unit: str  # card, or hour


class CardsOutput(Struct, frozen=True):
    """`oomph gpus MODEL --json`."""

    schema: int
    model: str
    asked: AskedOutput
    cards: list[CardOutput]
    more: bool  # there are more expensive ones
    plans: int
    sort: str
    prices: PricesOutput | None
    against_api: Against | None  # the first line beside --api-price
    interrupted: bool


class GpuListOutput(Struct, frozen=True):
    """`oomph gpus --json`."""

    schema: int
    gpus: list[Device]


class WhatIfRowOutput(JudgedOutput, frozen=True, kw_only=True):
    label: str  # as it is typed, the same as `change`
    tokens_change: int | None  # null: the change is refused
    advised: bool  # one of the fixes that guides list


class WhatIfOutput(Struct, frozen=True):
    """`oomph what-if --json`."""

    schema: int
    binding: str  # the stage that decides, or "KV cache"
    rows: list[WhatIfRowOutput]
    plan: PlanOutput


class ChangeOutput(Struct, frozen=True):
    what: str  # available_kv, max_num_batched_tokens, verdict
    before: Any
    after: Any
    since: str  # the release that moved it
    kind: str  # figure, setting, verdict, flag


class DiffOutput(Struct, frozen=True):
    """`oomph diff --json`."""

    schema: int
    before: PlanOutput
    after: PlanOutput
    changes: list[ChangeOutput]
    steps: list[ChangeOutput]  # every move on the way, release by release
    flags: list[str]  # what the other release says to flags that it does not have


class SweepRowOutput(Struct, frozen=True):
    users: int
    held: bool
    result: Result


class SimulationOutput(Struct, frozen=True, kw_only=True):
    """`oomph simulate --json`: one load (`result`), the most users that are held (`users`), or several (`sweep`)."""

    schema: int
    engine: EngineOutput
    model: str
    gpus: list[str]
    replicas: int
    scheduler: dict[str, Any]
    time: dict[str, Any]
    load: Load
    notes: list[str]
    target: Target | UnsetType = UNSET
    breaks: str | UnsetType = UNSET  # what of the target is not kept; "" where all is
    held_users: int | UnsetType | None = UNSET
    held_rate: float | UnsetType | None = UNSET
    users: int | UnsetType = UNSET
    users_low: int | UnsetType = UNSET
    users_high: int | UnsetType = UNSET
    result: Result | UnsetType | None = UNSET
    beyond: Result | UnsetType | None = UNSET
    sweep: list[SweepRowOutput] | UnsetType = UNSET


class TwoReleasesOutput(Struct, frozen=True):
    """`oomph simulate --to --json`."""

    schema: int
    before: SimulationOutput
    after: SimulationOutput


class DeploymentPlan(PlanOutput, frozen=True, kw_only=True):
    """One deployment of a file: where it stands, and its plan."""

    file: str
    name: str
    line: int  # 0: not known
    outcome: str  # that of the verdict


class DeploymentError(Struct, frozen=True, kw_only=True):
    """One deployment of a file that could not be planned."""

    file: str
    name: str
    line: int  # 0: not known
    outcome: str  # unread: the file is wrong; unplanned: something needed is not known
    error: ErrorDetail


class CheckOutput(Struct, frozen=True, kw_only=True):
    """`oomph plan FILE --json` of a file with several deployments, and `oomph check --format json`."""

    schema: int
    file: str | UnsetType = UNSET  # where one file was asked about
    outcome: str  # the worst
    exit_code: int
    files: int  # how many were looked at
    deployments: list[Any]  # each a DeploymentPlan or a DeploymentError


class PackedServiceOutput(Struct, frozen=True):
    """One service of several on a machine."""

    name: str
    model: str
    engine: str
    start: int  # its place in the order of the starts, from 1
    gpus: list[int]
    share: float  # of the card's memory; 0: the engine has none
    written_share: float
    asleep: bool
    bytes_per_gpu: int
    outcome: Outcome
    tokens: int
    concurrency: float
    command: str


class PackedCardOutput(Struct, frozen=True):
    gpu: str
    total_bytes: int
    used_by_others_bytes: int
    free_bytes: int


class PackedHostOutput(Struct, frozen=True):
    need_bytes: int
    ram_bytes: int  # 0: not said


class PackOutput(Struct, frozen=True):
    """`oomph pack --json`."""

    schema: int
    outcome: Outcome
    fits: bool
    as_written: bool  # no share has to change
    method: str
    proven: bool  # that there is no better, or none at all
    reasons: list[str]  # why it does not fit
    notes: list[str]
    services: list[PackedServiceOutput]  # in the order of the starts
    cards: list[PackedCardOutput]
    host: PackedHostOutput


class LearnOutput(Struct, frozen=True):
    """`oomph learn --json`."""

    schema: int
    starts: list[Start]


class RuleOutput(Struct, frozen=True):
    id: str
    title: str
    page: str  # empty where all are listed


class RulesOutput(Struct, frozen=True):
    """`oomph rule --json`."""

    schema: int
    rules: list[RuleOutput]


class ReportOutput(Struct, frozen=True):
    """`oomph report --json`."""

    schema: int
    versions: dict[str, str]
    machine: list[str]
    plan: PlanOutput | None
    explanation: ExplanationOutput | None
    log_end: list[str]  # the last lines of the log
    log_lines: int  # how many it has
    problems: list[str]  # what could not be told, and why


class ThreadOutput(Struct, frozen=True):
    """`oomph explain --json` of a saved issue."""

    schema: int
    title: str
    state: str  # open, closed, or empty where nothing says
    posts: int
    runs: list[Run]
    tried: list[Tried]
    settled: str
    explanation: ExplanationOutput | None  # of the run that the thread is about
    about: int  # the post that holds it
    comment: str  # the answer, as Markdown to paste
