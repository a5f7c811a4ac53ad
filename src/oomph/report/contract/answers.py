"""The shapes in JSON of explanations, diffs, simulations, checks and packs; contract_searches.py has the searches'.

What is printed as it is kept (an inspection, a comparison, the result of a simulation) has its shape where it is kept.
"""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from oomph.doctor.explanation import Cause, EngineInfo, Evidence, Possible
from oomph.doctor.ledger import Entry
from oomph.doctor.thread import Run, Tried
from oomph.ir import Outcome
from oomph.machine.learn.start import Start
from oomph.report.contract.plan import AdviceOutput, EngineOutput, ErrorDetail, PlanOutput
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


class RejectedOutput(Struct, frozen=True):
    lever: str
    advice: str  # as guides word it
    why: str


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
    rejected: list[RejectedOutput]
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
    gpu: str  # the card, where it was given or the text names it
    advice: AdviceOutput | UnsetType = UNSET


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
    warning: str  # a folder of the repository that is called like the hub's model, and was not believed; "" = none


class DeploymentError(Struct, frozen=True, kw_only=True):
    """One deployment of a file that could not be planned."""

    file: str
    name: str
    line: int  # 0: not known
    outcome: str  # unread: the file is wrong; unplanned: something needed is not known
    warning: str  # as of a plan
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
    objective: str  # the order by which nothing better exists
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
