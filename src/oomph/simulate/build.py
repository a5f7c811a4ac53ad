"""A serve command made ready to be loaded: its plan, its scheduler's settings, and how long its steps take."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.protocol import EngineProtocol
from oomph.engines.registry import all_engines, engine_of
from oomph.errors import CannotPlan, CommandError, OomphError
from oomph.ir import Deployment, Plan
from oomph.simulate.accuracy import SpeedError
from oomph.simulate.config import Config
from oomph.simulate.step_costs import Factors as Factors
from oomph.simulate.timing import StepTime

if TYPE_CHECKING:
    from oomph.simulate.clients import Observer, Workload


class Engine(Protocol):
    """A scheduler over time, as play.py runs it."""

    steps: int
    preemptions: int
    work: int  # what was played one by one

    def run(self, max_steps: int) -> bool: ...


class Built(Struct, frozen=True, kw_only=True):
    config: Config
    time: StepTime
    error: SpeedError  # how far such times were from published ones
    max_concurrency: float  # as the engine prints it
    too_long: str  # its words for a request that is longer than it serves
    replicas: int = 1  # data-parallel engines
    largest_graph: int = 0  # tokens of the largest batch that has a CUDA graph; 0 = there is none
    # of a configuration, its times, who sends requests, who watches, and whether every block is to be followed
    loop: "Callable[[Config, StepTime, Workload, Observer, bool], Engine]"
    notes: tuple[str, ...] = ()


class Setup(Struct, frozen=True):
    """A deployment ready to be loaded, any number of times."""

    deployment: Deployment
    plan: Plan
    built: Built
    factors: Factors
    timed: bool = True
    calibrated: bool = False
    accepted: float = 0.6

    @property
    def replicas(self) -> int:
        """Data-parallel engines, each with a scheduler and a KV cache of its own."""
        return self.built.replicas


def prepare(
    command: str | Sequence[str] | Deployment,
    *,
    gpu: object = None,
    engine: str = "",
    given: Mapping[str, int | str] | None = None,
    factors: Factors | None = None,
    accepted: float = 0.6,
    timed: bool = True,
) -> Setup:
    """`factors`: how much of a card's peak a step reaches; `accepted`: the share of drafted tokens that the model
    keeps; `timed`: False counts steps instead of time."""
    from oomph.answers.plan import parse, plan

    factors = factors or Factors()
    _check(factors, accepted)
    deployment = command if isinstance(command, Deployment) else parse(command, engine)
    _refuse_other_schedulers(deployment)
    foreseen = plan(deployment, gpu=gpu, given=given)
    deployment = foreseen.deployment
    own = engine_of(deployment)
    model = own.simulated_model(deployment)
    played = own.simulation(deployment, model, foreseen, factors, accepted=accepted, timed=timed)
    return Setup(deployment, foreseen, played, factors, timed, accepted=accepted)


def require_start(plan: Plan) -> None:
    """A server that does not start is refused, with the first change that its plan has found to start."""
    if plan.fits:
        return
    text = plan.verdict.message.split("\n")[0] or plan.verdict.stage
    fixes = plan.advice.fixes if plan.advice is not None else ()
    fix = next((fix for fix in fixes if fix.change.kind != "hardware"), None)
    hint = f"it starts as: {fix.command}" if fix is not None else "oomph plan says what it lacks"
    raise OomphError(f"it does not start, so it serves nobody: {text}", hint=hint)


def _refuse_other_schedulers(deployment: Deployment) -> None:
    """Before anything is planned: an engine whose scheduler is not written down here is refused in one sentence."""
    engine = engine_of(deployment)
    if type(engine).simulation is EngineProtocol.simulation:
        titles = ", ".join(e.title for e in all_engines() if type(e).simulation is not EngineProtocol.simulation)
        raise CannotPlan(
            f"{engine.title} cannot be simulated: its scheduler is not written down here, only that of {titles} is",
            hint="oomph plan says how many requests of the full length it holds",
        )


def rebuilt(setup: Setup, factors: Factors) -> Setup:
    """The same deployment with other factors of time."""
    deployment = setup.deployment
    own = engine_of(deployment)
    built = own.simulation(
        deployment, own.simulated_model(deployment), setup.plan, factors, accepted=setup.accepted, timed=setup.timed
    )
    return replace(setup, built=built, factors=factors)


def _check(factors: Factors, accepted: float) -> None:
    for name in ("bandwidth", "compute", "experts", "attention", "link"):
        share = getattr(factors, name)
        if not 0 <= share <= 1.5:  # 0 = as it is known of the card
            raise CommandError(f"efficiency {name}={share:g}: a share of the peak, such as 0.75")
    if factors.overhead_ms < 0 or factors.scale <= 0 or not 0 <= accepted <= 1:
        raise CommandError("overhead must not be negative, and accepted is a share between 0 and 1")


def scaled(setup: Setup, factor: float) -> Setup:
    """The same deployment with steps that take `factor` times as long."""
    return replace(setup, built=replace(setup.built, time=setup.built.time.scaled(factor)))
