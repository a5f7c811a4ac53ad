"""fit() for engines that place layers on the GPUs and the CPU (llama.cpp, Ollama): of the engine's ways to serve a
model the best by the objective that all searches share, with its context and its slots. `compare` asks it too."""

from collections.abc import Iterator
from typing import NamedTuple

from oomph.commands.call import quote
from oomph.engines.protocol import EngineProtocol
from oomph.engines.registry import engine_named
from oomph.engines.values import Offer, Way
from oomph.errors import CannotPlan
from oomph.ir import Device, Plan
from oomph.ir.objective import (
    ENOUGH_CONTEXT,
    LEAST_CONTEXT,
    Objective,
    Standing,
    reads_well,
    serving_objective,
    shortness,
    slowness,
    speed_step,
    users_step,
)
from oomph.search.best import plan_speed, rate_of
from oomph.search.request import Arm, Layout, Refused, Want, context_grid, engine_name
from oomph.search.result import Configuration, Fit
from oomph.search.screen import SCREEN, more_of_the_machine, with_screen
from oomph.search.solve import Planner, Point, Progress
from oomph.sources.load import load_once
from oomph.text.tables import all_that_hold
from oomph.units import gib

# Measures that files do not have, or that nothing here gives up: room for a screen is kept, and so are graphs.
_NOT_SEARCHED = ("images", "prefix", "screen", "graphs", "limit")
SLOTS = (32, 16, 8, 4, 2, 1)


class _Tried(NamedTuple):
    key: tuple[float, ...]
    standing: Standing
    way: Way
    offer: Offer
    context: int


class Places:
    """One model, one engine and some GPUs."""

    def __init__(
        self, model: str, gpus: tuple[Device, ...], want: Want, engine: EngineProtocol, planner: Planner,
        release: str = "",
    ) -> None:  # fmt: skip
        """`release`: what --engine says; "" = the newest known."""
        self.gpus, self.want, self.engine, self.release = gpus, want, engine, release
        self.base = load_once(model)
        is_file = self.base.quantization is not None and self.base.quantization.method == "gguf"
        self.model = model if is_file else self.base.name
        self.users, self.plans, self.planner = want.users or 1, 0, planner
        self.longest = self.base.max_position or LEAST_CONTEXT
        self.progress: Progress | None = None
        self.stopped = False

    @property
    def objective(self) -> Objective:
        """Where neither a context nor users are asked for, users are not counted: their slots would take memory that
        nobody asked for."""
        want, uncounted = self.want, () if self._are_users_counted else ("users",)
        return serving_objective(
            checkpoint=self.base.name, context=want.context, users=want.users, prefer=want.prefer,
            without=(*_NOT_SEARCHED, *uncounted),
        )  # fmt: skip

    @property
    def _are_users_counted(self) -> bool:
        return bool(self.want.context or self.want.users or self.want.prefer == "users")

    def plan(self, deployment: object) -> Plan:
        self.plans += 1
        if self.progress is not None:
            self.progress("plans", self.plans, 0)
        return self.planner(deployment, None)  # type: ignore[arg-type]

    def best(self) -> tuple[Offer, int]:
        """The best by the objective, and its context; where nothing serves, what comes nearest and why it does not."""
        least = self.want.context or min(LEAST_CONTEXT, self.longest)
        best, refused = self._best(least, is_whole=False)
        return (self._widest(best), best.context) if best is not None else (refused, least)

    def best_whole(self) -> tuple[Offer, int] | None:
        """The best of those that the GPUs hold whole, and the longest context that it gives the users."""
        best, _ = self._best(self.want.context, is_whole=True)
        if best is None or not self.holds(best.offer, self.users) or not reads_well(self.rate(best.offer)):
            return None
        grid = [length for length in context_grid(self.longest, best.context) if length >= best.context]
        while len(grid) > 1 and best.offer.at is not None:
            middle = len(grid) // 2
            longer = best.offer.at(grid[middle])
            is_held = self.holds(longer, self.users) and not longer.host_bytes
            grid = grid[middle:] if is_held else grid[:middle]
        return self._widest(best), grid[0]

    def _best(self, least: int, *, is_whole: bool) -> tuple[_Tried | None, Offer]:
        if self.want.context > self.longest:
            return None, Offer(None, why=f"the model ends at {self.longest:,} tokens")
        try:
            ways = self.engine.ways(self.model, self.gpus, self.plan, self.release)
        except CannotPlan as refusal:
            return None, Offer(None, why=refusal.message, checkpoint=self.model)
        best: _Tried | None = None
        refused = Offer(None)
        try:
            for way in ways:
                if is_whole and way.standing.get("on_gpu"):
                    continue
                for tried in self._tried(way, least, best.key if best is not None else ()):
                    if tried.offer.plan is None:
                        refused = tried.offer
                    elif best is None or tried.key > best.key:
                        best = tried
        except KeyboardInterrupt:
            if self.progress is None or best is None or not self.holds(best.offer, self.users):
                raise
            self.stopped = True
        return best, refused

    def _tried(self, way: Way, least: int, floor: tuple[float, ...]) -> Iterator[_Tried]:
        """What a way gives. It is planned only where it may be better than the best so far."""
        beside = bool(way.standing.get("on_gpu"))
        for users in self._user_counts():
            contexts = [length for length in self._contexts(least) if self._most(way, users, length) > floor]
            if not contexts:
                continue
            first = self._try(way, way.at(contexts[0], users), contexts[0], users)
            is_held = self.holds(first.offer, users) and (beside or not first.offer.host_bytes)
            if beside or is_held:
                yield first
            if not is_held:
                continue
            enough = min(ENOUGH_CONTEXT, self.longest)
            if beside and first.context < enough in contexts and reads_well(self.rate(first.offer)):
                more = self._try(way, way.at(enough, users), enough, users)  # with another part on the CPU
                yield more
                first = max(first, more, key=lambda tried: tried.key)
            yield from self._longer(first, users, [length for length in contexts if length > first.context], floor)
            return

    def _longer(self, first: _Tried, users: int, contexts: list[int], floor: tuple[float, ...]) -> Iterator[_Tried]:
        """The same with each context that is longer than those before it, and better."""
        contexts = [
            length for length in contexts
            if self.objective.key({**first.standing, **self._standing(first.way, users, length)}) > floor
        ]  # fmt: skip
        while contexts and first.offer.at is not None:
            middle = len(contexts) // 2
            longer = self._try(first.way, first.offer.at(contexts[middle]), contexts[middle], users)
            if longer.key > first.key and (first.offer.host_bytes or not longer.offer.host_bytes):
                yield longer
                contexts = contexts[middle + 1 :]
            else:
                contexts = contexts[:middle]

    def _widest(self, best: _Tried) -> Offer:
        """The same for as many users as it holds."""
        if not self._are_users_counted or best.offer.host_bytes or not self.holds(best.offer, self.users):
            return best.offer
        for users in SLOTS:
            wider = best.way.at(best.context, users) if users > best.offer.users else best.offer
            if users > best.offer.users and self.holds(wider, users) and not wider.host_bytes:
                return wider
        return best.offer

    def _user_counts(self) -> tuple[int, ...]:
        if self.want.prefer != "users":
            return (self.users,)
        return (*(users for users in SLOTS if users > self.users), self.users)

    def _contexts(self, least: int) -> tuple[int, ...]:
        if self.want.context and self.want.prefer != "context":
            return (least,)
        return tuple(length for length in context_grid(self.longest, least) if length >= least)

    def _try(self, way: Way, offer: Offer, context: int, users: int) -> _Tried:
        rate = self.rate(offer)
        unread = 0.0 if way.is_usual or not offer.host_bytes else -1.0
        standing = {
            **self._standing(way, users, context),
            "request": 0.0 if self.holds(offer, users) else -1.0,
            "reading": slowness(rate) if rate is not None else unread,
            "speed": speed_step(rate) if rate is not None else -float(offer.host_bytes >> 20),
            "plain": -float(len(offer.words)),
        }
        return _Tried(self.objective.key(standing), standing, way, offer, context)

    def _standing(self, way: Way, users: int, context: int) -> dict[str, float]:
        return {
            **way.standing,
            "length": 0.0 if context >= min(LEAST_CONTEXT, self.longest) else -1.0,
            "enough": shortness(context, self.longest),
            "context": users_step(context) if self.want.prefer == "context" else float(context),
            "users": users_step(users),
        }

    def _most(self, way: Way, users: int, context: int) -> tuple[float, ...]:
        """No better than this, before it is planned."""
        return self.objective.best_key(self._standing(way, users, context))

    def holds(self, offer: Offer, users: int) -> bool:
        return offer.plan is not None and offer.plan.verdict.outcome == "fits" and offer.users >= users

    def rate(self, offer: Offer) -> float | None:
        """Tokens per second of each user."""
        plan = offer.plan
        if plan is None or plan.verdict.outcome != "fits":
            return None
        return rate_of(plan_speed(plan, self.base, self.users))

    def nearest(self) -> Configuration | None:
        """Where what is asked for is not there: as many users of the context, else the longest context for one."""
        own = min(self.want.context, self.longest)
        for want in (Want(own, 0, "users"), Want(0, 0, "context")):
            if want.context or want.prefer == "context":
                self.want, self.users = want, 1
                offer, context = self.best()
                if self.holds(offer, 1):
                    return self.configuration(offer, context)
        return None

    def configuration(self, offer: Offer, context: int) -> Configuration:
        plan = offer.plan
        assert plan is not None
        on_cpu = f"{gib(offer.host_bytes)} of weights on the CPU" if offer.why and offer.host_bytes else ""
        arm = Arm(plan.model, layout=Layout(tp=len(plan.ranks) or 1), kv_dtype=str(plan.resolved["type_k"]))
        point = Point(
            arm=arm,
            context=context,
            users=int(offer.users) or self.users,
            utilisation=1.0,
            quality=0.0,
            speed=0,
            concurrency=offer.users,
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
    own = engine_named(engine_name(engine))
    cards = with_screen(gpus, headless=headless)
    places = Places(model, cards, want, own, planner, engine)
    places.progress = progress
    offer, context = places.best()
    longest = places.base.max_position
    objective = places.objective
    met, close = places.holds(offer, places.users), offer.plan is not None and offer.plan.verdict.outcome == "close"
    pick = places.configuration(offer, context) if met else places.nearest()
    notes = all_that_hold(
        (places.stopped, "stopped before every context was tried: this is the best so far"),
        ((not met or offer.host_bytes) and more_of_the_machine(gpus), more_of_the_machine(gpus)),
        (cards != gpus, f"{gib(SCREEN)} of the first card are kept free for a screen; --headless uses them"),
    )
    return Fit(
        model=places.base.name if pick is None else pick.point.arm.model,
        gpus=gpus,
        want=want,
        engine=own.title,
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
