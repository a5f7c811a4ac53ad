"""Plans one change, or several together, and says what it does to the plan as it is."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from oomph.errors import OomphError
from oomph.ir import STAGE_WORDS, STAGES, Change, Deployment, Effect, Engine, Judged, Lever, Plan
from oomph.ir.advice import KINDS
from oomph.units import MIB, gib

# By how much a change moves the point where a plan dies, or the KV cache of a plan that fits.


def gain(before: Plan, after: Plan) -> int:
    """Bytes of room at the failing stage, or of KV cache where the plan fits; negative: lost. A refusal has none."""
    if before.verdict.refusal:
        return 0
    if host_decides(before):
        return _host_room(after) - _host_room(before)
    if before.fits and "host" in before.resolved:  # layers may be on the host: what comes back to the GPU counts
        return host_weights(before) - host_weights(after) if after.fits else 0
    if before.fits:
        return kv_bytes(after) - kv_bytes(before) if after.fits else 0
    stage = before.verdict.stage
    if stage == "kv_check":
        if not after.fits and is_earlier(after.verdict.stage, stage):
            return 0
        return _kv_room(after) - _kv_room(before)
    return _room(after, stage) - _room(before, stage)


def is_earlier(stage: str | None, other: str | None) -> bool:
    return STAGES.index(stage or "other") < STAGES.index(other or "other")


def kv_bytes(plan: Plan) -> int:
    return plan.kv.available_bytes if plan.kv else 0


def host_weights(plan: Plan) -> int:
    return int(plan.resolved.get("host", {}).get("weights", 0))


def tokens(plan: Plan) -> int:
    return plan.kv.logged_tokens if plan.kv and plan.fits else 0


def host_decides(plan: Plan) -> bool:
    """Whether it is the host's memory that is short, may be short or puts a running server at risk."""
    return plan.verdict.outcome != "fits" and plan.verdict.first_to_break == "host_ram"


def _host_room(plan: Plan) -> int:
    return plan.host.margin.expected if plan.host is not None and plan.host.margin is not None else 0


def _kv_room(plan: Plan) -> int:
    """KV memory beyond one request of max_model_len; negative: short of it."""
    return plan.kv.available_bytes - plan.kv.need_bytes if plan.kv else 0


def _room(plan: Plan, stage: str | None) -> int:
    """What the card has beyond the peak of a stage; negative: short of it."""
    if not plan.ranks:
        return 0
    rank = plan.ranks[min(plan.verdict.rank, len(plan.ranks) - 1)]
    if stage == "startup_free_memory":
        return rank.total_bytes - rank.used_by_others_bytes - rank.requested_bytes
    # A change may take the stage away: what is left then is the peak of the stages before it.
    peaks = [s.peak_bytes for s in rank.stages if s.name == stage]
    return rank.total_bytes - max(peaks or [s.peak_bytes for s in rank.stages if is_earlier(s.name, stage)], default=0)


Planner = Callable[[Deployment], Plan]
Ceiling = Callable[[Change, Plan], str]  # the change, and the changed plan; "" where it is safe
LEAST_GAIN = MIB  # less than this is rounding of blocks


class Judge:
    """Judges changes of one plan. Each distinct change is planned once, whoever asks."""

    def __init__(
        self, before: Plan, planner: Planner, writer: Callable[[Deployment], str], ceiling: Ceiling | None = None
    ) -> None:
        """`ceiling` says why a change that fits gives the engine more of a card than is safe."""
        self.before = before
        self._planner = planner
        self._writer = writer
        self._ceiling = ceiling
        self._plans: dict[str, Plan | str] = {}

    def plan(self, change: Change) -> Plan | str:
        """The changed plan, or the sentence with which it is refused."""
        flags, environment = sorted(change.flags.items()), sorted(change.environment.items())
        other = (change.image, change.engine) if change.image or change.engine else ()
        key = repr((flags, environment, change.model, change.version, change.gpus, *other))
        if key not in self._plans:
            try:
                self._plans[key] = self._planner(changed(self.before.deployment, change))
            except OomphError as error:
                self._plans[key] = error.message
        return self._plans[key]

    def judge(self, change: Change, lever: Lever | None = None) -> Judged:
        if lever is not None and lever.refused:
            return Judged(change, "refused", why=lever.refused)
        stage = self.before.verdict.stage
        if lever is not None and stage in lever.not_read and self.before.verdict.outcome == "fails":
            return Judged(change, "nothing", self.before.verdict.outcome, stage, why=lever.not_read[stage])
        after = self.plan(change)
        if isinstance(after, str):
            return Judged(change, "refused", why=after)
        if unsafe := self._unsafe(change, after):
            return Judged(change, "refused", why=unsafe)
        if after.verdict.stage == "other":
            return Judged(change, "refused", why=" ".join(after.verdict.message.split()))
        gained = gain(self.before, after)
        effect, why = self._effect(after, gained, change, lever)
        kv = after.kv if after.fits else None
        return Judged(
            change,
            effect=effect,
            outcome=after.verdict.outcome,
            stage=after.verdict.stage,
            gain_bytes=gained,
            tokens=tokens(after),
            concurrency=kv.max_concurrency if kv else 0.0,
            why=why,
            command=self.command(change),
        )

    def after(self, plan: Plan) -> "Judge":
        """A judge of changes of another plan, by the same planner."""
        return Judge(plan, self._planner, self._writer, self._ceiling)

    def command(self, change: Change) -> str:
        return self._writer(changed(self.before.deployment, change))

    def fixes(self, change: Change) -> bool:
        after = self.plan(change)
        return not isinstance(after, str) and after.verdict.outcome == "fits" and not self._unsafe(change, after)

    def _unsafe(self, change: Change, after: Plan) -> str:
        return self._ceiling(change, after) if self._ceiling is not None and after.fits else ""

    def may_fix(self, change: Change) -> bool:
        """Too much of everything may be a risk after the start; a milder set of the same changes need not be."""
        after = self.plan(change)
        return not isinstance(after, str) and after.verdict.outcome != "fails"

    def _effect(self, after: Plan, gained: int, change: Change, lever: Lever | None) -> tuple[Effect, str]:
        before = self.before
        outcomes = (before.verdict.outcome, after.verdict.outcome)
        if outcomes[1] == "fits" and outcomes[0] != "fits":
            return "fixes", ""
        if before.verdict.refusal:
            return ("helps" if after.fits else "nothing"), remainder(after)
        if before.fits and not after.fits:
            return "worse", f"it then dies {STAGE_WORDS[after.verdict.stage or 'other'][1]}"
        if not before.fits and not after.fits and is_earlier(after.verdict.stage, before.verdict.stage):
            return "worse", f"it dies earlier, {STAGE_WORDS[after.verdict.stage or 'other'][1]}"
        moved = tokens(after) - tokens(before) if before.fits and not host_decides(before) else 0
        if abs(gained) < LEAST_GAIN and not moved:
            return "nothing", idle_reason(before, lever)
        if gained < LEAST_GAIN and (moved or gained) < 0:
            return "worse", change.cost
        return "helps", remainder(after)


def judge_all(judge: Judge, levers: Iterable[Lever]) -> list[tuple[Judged, Lever]]:
    """Every setting of every lever, for a table."""
    return [(judge.judge(change, lever), lever) for lever in levers for change in lever.changes]


def price(judged: Judged) -> tuple[int, int]:
    """What a change costs the user: its kind, then its rank."""
    return KINDS.index(judged.change.kind), judged.change.rank


def changed(deployment: Deployment, change: Change) -> Deployment:
    """The deployment with a change in force. Pinned terms that it moves are planned again."""
    if change.engine:
        deployment = _on_engine(deployment, change)
    flags = {name: value for name, value in {**deployment.flags, **change.flags}.items() if value is not None}
    pinned = {term: size for term, size in deployment.given.items() if term not in change.moves}
    measured = {term: size for term, size in deployment.measured.items() if term not in change.moves}
    engine = deployment.engine
    if change.version:
        engine = replace(engine, version=change.version, version_from="--engine")
    return replace(
        deployment, engine=engine, flags=flags, given=pinned, measured=measured, model=change.model or deployment.model,
        environment={**deployment.environment, **change.environment}, gpus=change.gpus or deployment.gpus,
        image_vendor="" if change.image else deployment.image_vendor,
    )  # fmt: skip


def _on_engine(deployment: Deployment, change: Change) -> Deployment:
    """The same model on the same machine: no flag of one engine is a flag of another."""
    return Deployment(
        Engine(change.engine, change.version, "--engine"), deployment.model, {}, deployment.gpus,
        memory_limit=deployment.memory_limit, ram_bytes=deployment.ram_bytes, ram_available=deployment.ram_available,
        ram_bandwidth=deployment.ram_bandwidth, ram_from=deployment.ram_from, place=deployment.place,
    )  # fmt: skip


def together(changes: Sequence[Change]) -> Change:
    """Several changes as one."""
    flags: dict[str, Any] = {}
    environment: dict[str, str] = {}
    for change in changes:
        flags |= change.flags
        environment |= change.environment
    return Change(
        " + ".join(change.lever for change in changes),
        label=" ".join(change.label for change in changes),
        kind=max((change.kind for change in changes), key=KINDS.index),
        flags=flags,
        environment=environment,
        model=next((change.model for change in changes if change.model), ""),
        version=next((change.version for change in changes if change.version), ""),
        engine=next((change.engine for change in changes if change.engine), ""),
        image=next((change.image for change in changes if change.image), ""),
        gpus=next((change.gpus for change in changes if change.gpus), ()),
        cost="; ".join(change.cost for change in changes),
        rank=sum(change.rank for change in changes) + 2 * (len(changes) - 1),
        moves=tuple(term for change in changes for term in change.moves),
    )


def idle_reason(before: Plan, lever: Lever | None) -> str:
    stage = before.verdict.stage
    if lever is not None and lever.idle:
        return lever.idle
    if lever is not None and stage is not None and stage in lever.not_read:
        return lever.not_read[stage]
    if host_decides(before):
        return "it does not move what the host needs"
    return "it does not move the KV cache here" if before.fits else "it does not move the point where it dies"


def remainder(after: Plan) -> str:
    """What is still missing after a change that helps."""
    if after.fits:
        words = {"fits": "", "at_risk": "it still starts at risk"}
        return words.get(after.verdict.outcome, "it is still too close to call")
    where = STAGE_WORDS[after.verdict.stage or "other"][1]
    return f"it then dies {where}, {gib(after.verdict.short_bytes)} short"
