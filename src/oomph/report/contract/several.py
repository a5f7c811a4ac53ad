"""The shapes of diffs, checks, packs and learnt starts in JSON, and what makes them."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from oomph.answers.check import Check, Item
from oomph.answers.diff import Change, Diff
from oomph.commands import to_shell
from oomph.ir import Outcome
from oomph.machine.learn.start import Start
from oomph.pack.pack import Packed, Placed
from oomph.report.contract.batch import ErrorDetail, error_output
from oomph.report.contract.plan import SCHEMA, PlanOutput, plan_output
from oomph.report.screens.pack import without_cards


class DiffOutput(Struct, frozen=True):
    """`oomph diff --json`."""

    schema: int
    before: PlanOutput
    after: PlanOutput
    changes: list[Change]
    steps: list[Change]  # every move on the way, release by release
    flags: list[str]  # what the other release says to flags that it does not have


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


def diff_output(difference: Diff) -> DiffOutput:
    return DiffOutput(
        SCHEMA,
        plan_output(difference.before),
        plan_output(difference.after),
        list(difference.changes),
        list(difference.steps),
        list(difference.flags),
    )


def check_output(check: Check) -> CheckOutput:
    return CheckOutput(
        schema=SCHEMA,
        file=check.where or UNSET,
        outcome=check.outcome,
        exit_code=check.exit_code,
        files=check.files,
        deployments=[_deployment(item) for item in check.items],
    )


def _deployment(item: Item) -> DeploymentPlan | DeploymentError:
    place: dict[str, Any] = {
        "file": item.file,
        "name": item.name,
        "line": item.line,
        "outcome": item.outcome,
        "warning": item.warning,
    }
    if item.plan is None:
        return DeploymentError(**place, error=error_output(item.error) if item.error else ErrorDetail("", ""))
    return DeploymentPlan(**place, **asdict(plan_output(item.plan)))


def pack_output(packed: Packed) -> PackOutput:
    return PackOutput(
        schema=SCHEMA,
        outcome=packed.outcome,
        fits=packed.outcome in ("fits", "at_risk"),
        as_written=packed.as_written,
        method=packed.method,
        objective=packed.objective,
        proven=packed.proven,
        reasons=list(packed.reasons),
        notes=list(packed.notes),
        services=[_service(each) for each in packed.placed],
        cards=[
            PackedCardOutput(card.name, card.total_bytes, card.used_bytes, packed.free_of(number))
            for number, card in enumerate(packed.cards)
        ],
        host=PackedHostOutput(packed.host_bytes, packed.ram_bytes),
    )


def _service(each: Placed) -> PackedServiceOutput:
    kv = each.plan.kv
    return PackedServiceOutput(
        name=each.name, model=each.plan.model, engine=each.deployment.engine.name, start=each.place + 1,
        gpus=list(each.cards), share=each.share, written_share=each.written_share, asleep=each.asleep,
        bytes_per_gpu=each.bytes_per_card, outcome=each.outcome, tokens=kv.logged_tokens if kv else 0,
        concurrency=kv.max_concurrency if kv else 0.0, command=to_shell(without_cards(each)),
    )  # fmt: skip


def learn_output(starts: Sequence[Start]) -> LearnOutput:
    return LearnOutput(SCHEMA, list(starts))
