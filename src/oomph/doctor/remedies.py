"""What a rule names and the engine's own table, judged by the one judge: the failed run with one change, its figures
pinned.

Whether a change is enough, helps or does nothing is planned: the same objects as in `Plan.advice`, under the same
ceilings. A rule adds what the table does not have and what cannot be planned (end the process that holds the card).
"""

from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from oomph.advice.advise import advise
from oomph.advice.ceiling import share_ceiling
from oomph.advice.judge import Judge, is_earlier, price
from oomph.commands import to_shell
from oomph.doctor.case import Case
from oomph.doctor.explanation import Explanation, noted
from oomph.engines.protocol import fills
from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.ir import Advice, Change, Deployment, Judged, Model, Plan
from oomph.logs.deployment import render
from oomph.units import GIB

Planner = Callable[[Deployment], Plan]

MOST = 8
PRINTED = GIB // 200


class Run(Struct, frozen=True):
    """The failed run as a plan has it, and what its log shows of it."""

    case: Case
    plan: Plan  # with the observed figures pinned
    unpinned: Plan  # without the observed KV memory
    model: Model | None  # None: the planner finds it by its name
    planner: Planner
    pool: int | None = None  # observed KV memory: a change moves it by as much as it moves the planned one

    def plan_changed(self, deployment: Deployment) -> Plan:
        after = self.plan_unpinned(deployment)
        if self.pool is None or self.case.stage != "kv_check" or after.kv is None or self.unpinned.kv is None:
            return after
        if not after.fits and is_earlier(after.verdict.stage, "kv_check"):
            return after  # the changed start does not get as far as the memory that was observed
        left = self.pool + after.kv.available_bytes - self.unpinned.kv.available_bytes - self._doubt(after)
        return self.planner(replace(deployment, given={**deployment.given, "available_kv": left}))

    def _doubt(self, after: Plan) -> int:
        """The observed figure is printed with two decimals, and what a change moves is as sure as the plan is of it."""
        return PRINTED + abs(_width(after) - _width(self.unpinned))

    def plan_unpinned(self, deployment: Deployment) -> Plan:
        pinned = {term: size for term, size in deployment.given.items() if term != "available_kv"}
        return self.planner(replace(deployment, given=pinned))

    def write(self, deployment: Deployment) -> str:
        """With every flag of the command, also those that no plan reads."""
        if not fills(engine_of(deployment), "log_command"):
            return to_shell(deployment)
        read = self.plan.deployment.flags
        unread = {name: value for name, value in self.case.rebuilt.flags.items() if name not in read}
        return render(deployment.model, {**unread, **deployment.flags}, deployment.environment)


def _width(plan: Plan) -> int:
    """How far below its value the KV memory may be."""
    terms = [rank.terms["available_kv"] for rank in plan.ranks if "available_kv" in rank.terms]
    return max((term.bytes - term.low for term in terms), default=0)


def judge_remedies(run: Run, explanation: Explanation) -> Explanation:
    """The explanation with the plan's advice, and what it can do nothing about."""
    engine = engine_of(run.plan.deployment)
    judge = Judge(run.plan, run.plan_changed, run.write, share_ceiling(run.plan, run.plan_unpinned))
    try:
        levers = tuple(engine.levers(run.plan, run.model))
        advice = advise(judge, levers, engine.reasons(run.plan, run.model))
    except OomphError as error:
        return noted(explanation, f"not planned: {error.message}")
    rows = {lever.name for lever in levers}
    named = [one.change for one in explanation.remedies if one.change.lever not in rows and can_be_planned(one.change)]
    own = [judge.judge(change) for change in named]
    advice = _with_own(advice, own)
    return replace(
        explanation,
        advice=advice,
        remedies=_ordered(explanation.remedies, advice, rows, engine.layout != "placed"),
        rejected=_rejected(explanation.rejected, advice),
    )


def can_be_planned(change: Change) -> bool:
    return bool(change.flags or change.environment or change.model or change.version) and change.kind != "host"


def _with_own(advice: Advice, own: Iterable[Judged]) -> Advice:
    """What a rule names beside the table: it is a fix where the plan says so."""
    fixes = [judged for judged in own if judged.effect == "fixes"]
    levers = {judged.change.lever for judged in fixes}
    merged = sorted([*fixes, *(j for j in advice.fixes if j.change.lever not in levers)], key=price)
    return replace(advice, fixes=tuple(merged))


def _ordered(remedies: tuple[Judged, ...], advice: Advice, rows: set[str], has_catalogue: bool) -> tuple[Judged, ...]:
    """What was planned and fits, the cheapest first; then what no plan can judge: no lever of the engine's table, which
    have been judged, whatever a rule says of them."""
    planned = advice.fixes[:MOST] or advice.helps[:3]
    judged = {*rows, "checkpoint"} if has_catalogue else rows  # those that there are have been planned
    rest = [one for one in remedies if not can_be_planned(one.change) and one.change.lever not in judged]
    free = [one for one in rest if one.change.rank <= 0]
    return (*free, *planned, *(one for one in rest if one.change.rank > 0))


def _rejected(rejected: tuple[Judged, ...], advice: Advice) -> tuple[Judged, ...]:
    """A rule's rejection stands only where the plan says so too: no lever is useful and useless at once."""
    useful = {row for j in (*advice.fixes, *advice.helps) for row in j.change.lever.split(" + ")}
    return tuple(one for one in rejected if one.change.lever not in useful)
