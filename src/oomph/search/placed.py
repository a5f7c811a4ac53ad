"""fit() for engines that place layers on the GPUs and the CPU (llama.cpp, Ollama): the file, its slots and cache, what
is on the CPU, and the longest context that costs nothing of it."""

from collections.abc import Iterator

from msgspec.structs import replace

from oomph.commands.call import quote
from oomph.engines.protocol import EngineProtocol, Offer
from oomph.engines.registry import engine_named
from oomph.errors import CannotPlan
from oomph.ir import Device, Plan
from oomph.ir.objective import ENOUGH_CONTEXT, LEAST_CONTEXT, reads_well, serving_objective
from oomph.search.best import plan_speed, rate_of
from oomph.search.request import Arm, Layout, Refused, Want, context_grid, engine_name
from oomph.search.result import Configuration, Fit
from oomph.search.screen import SCREEN, with_screen
from oomph.search.solve import Planner, Point, Progress
from oomph.sources.load import load_once
from oomph.text.tables import all_that_hold
from oomph.units import gib


class Places:
    """One model, one engine and some GPUs."""

    def __init__(self, model: str, gpus: tuple[Device, ...], want: Want, engine: EngineProtocol, planner: Planner):
        self.gpus, self.want, self.engine = gpus, want, engine
        self.base = load_once(model)
        is_file = self.base.quantization is not None and self.base.quantization.method == "gguf"
        self.model = model if is_file else self.base.name
        self.users, self.plans, self.planner = want.users or 1, 0, planner
        self.progress: Progress | None = None
        self.stopped = False

    def plan(self, deployment: object) -> Plan:
        self.plans += 1
        if self.progress is not None:
            self.progress("plans", self.plans, 0)
        return self.planner(deployment, None)  # type: ignore[arg-type]

    def offer(self, context: int) -> Offer:
        try:
            return self.engine.offer(self.model, self.gpus, context, self.users, self.plan)
        except CannotPlan as refusal:
            return Offer(None, why=refusal.message, checkpoint=self.model)

    def best(self) -> tuple[Offer, int]:
        """Of the context that is asked for; else of 8,192 tokens, with experts on the CPU of 32,768 where people can
        still read along, and then of as many more as the same file and placement hold."""
        longest = self.base.max_position or LEAST_CONTEXT
        if self.want.context > longest:
            return Offer(None, why=f"the model ends at {longest:,} tokens"), self.want.context
        if self.want.context:
            return self.offer(self.want.context), self.want.context
        least = min(LEAST_CONTEXT, longest)
        best = self.offer(least), least
        if self.holds(best[0]):
            try:
                for longer in self._longer(*best, longest):
                    best = longer
            except KeyboardInterrupt:
                if self.progress is None:
                    raise
                self.stopped = True
        return best

    def _longer(self, first: Offer, context: int, longest: int) -> Iterator[tuple[Offer, int]]:
        """Each context that is longer than those before it."""
        if first.host_bytes and context < (enough := min(ENOUGH_CONTEXT, longest)):
            longer = self.offer(enough)
            if self.holds(longer) and _file(longer) == _file(first) and reads_well(self.rate(longer)):
                first, context = longer, enough
                yield first, context
        narrow = first.at
        grid = [length for length in context_grid(longest, 0) if length > context]
        while grid and narrow is not None:
            middle = len(grid) // 2
            longer = narrow(grid[middle])
            if self.holds(longer) and _keeps(first, longer):
                yield longer, grid[middle]
                first, grid = longer, grid[middle + 1 :]
            else:
                grid = grid[:middle]

    def holds(self, offer: Offer) -> bool:
        return offer.plan is not None and offer.plan.verdict.outcome == "fits" and offer.users >= self.users

    def rate(self, offer: Offer) -> float | None:
        assert offer.plan is not None
        return rate_of(plan_speed(offer.plan, self.base, self.users))

    def nearest(self) -> Configuration | None:
        """Where what is asked for is not there: the longest context for one user."""
        self.want, self.users = replace(self.want, context=0, users=0), 1
        offer, context = self.best()
        return self.configuration(offer, context) if self.holds(offer) else None

    def configuration(self, offer: Offer, context: int) -> Configuration:
        plan = offer.plan
        assert plan is not None
        on_cpu = f"{gib(offer.host_bytes)} of weights on the CPU" if offer.why and offer.host_bytes else ""
        arm = Arm(plan.model, layout=Layout(tp=len(plan.ranks) or 1), kv_dtype=str(plan.resolved["type_k"]))
        point = Point(
            arm, context, int(offer.users) or self.users, utilisation=1.0, quality=0.0, speed=0, concurrency=offer.users
        )
        return Configuration(
            point,
            plan,
            relative_speed=1.0,
            gives_up=(*offer.gives_up, *([on_cpu] if on_cpu else [])),
            precision=_file(offer),
            note=offer.why,
            speed=plan_speed(plan, self.base, self.users),
            typed=typed(offer),
        )


def _file(offer: Offer) -> str:
    """The quantisation of what is served."""
    return offer.plan.model.rpartition(":")[2] if offer.plan is not None else ""


def _keeps(shorter: Offer, longer: Offer) -> bool:
    return (_file(shorter), shorter.gives_up) == (_file(longer), longer.gives_up) and (
        longer.host_bytes <= shorter.host_bytes
    )


def typed(offer: Offer) -> str:
    """The command as it is typed."""
    return " ".join(word if word == "&" else quote(word) for word in offer.words)


def fit_placed(
    model: str, gpus: tuple[Device, ...], want: Want, engine: str, planner: Planner, *, headless: bool,
    progress: Progress | None,
) -> Fit:  # fmt: skip
    chosen = engine_named(engine_name(engine))
    cards = with_screen(gpus, headless=headless)
    places = Places(model, cards, want, chosen, planner)
    places.progress = progress
    offer, context = places.best()
    longest = places.base.max_position
    met, close = places.holds(offer), offer.plan is not None and offer.plan.verdict.outcome == "close"
    pick = places.configuration(offer, context) if met else places.nearest()
    notes = all_that_hold(
        (places.stopped, "stopped before every context was tried: this is the best so far"),
        (cards != gpus, f"{gib(SCREEN)} of the first card are kept free for a screen; --headless uses them"),
    )
    objective = serving_objective(checkpoint=places.base.name, context=want.context, users=want.users)
    return Fit(
        model=places.base.name if pick is None else pick.point.arm.model,
        gpus=gpus,
        want=want,
        engine=chosen.title,
        met=met,
        close=close,
        pick=pick,
        front=(pick,) if pick is not None and met else (),
        nearest=(pick,) if pick is not None and not met else (),
        refused=() if pick is not None else (Refused(offer.checkpoint or places.base.name, _why(offer)),),
        plans=places.plans,
        notes=tuple(notes),
        objective=objective.line,
        measure=objective.short,
        longest=longest,
    )


def _why(offer: Offer) -> str:
    return offer.why or (offer.plan.verdict.message if offer.plan is not None else "") or "it does not fit"
