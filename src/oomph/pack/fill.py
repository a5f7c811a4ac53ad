"""Shares by max-min fairness: every service keeps as much of what it asked for as the one that keeps least.

A share that is written is a wish, never exceeded; one that nobody wrote is the least that serves, and grows. `level` 0
gives everybody the least; up to 1 the written shares grow to what they ask for, all in proportion; above 1 the others
grow in proportion to what they need. The highest level at which a placement and an order exist is found by bisection;
then each share grows alone, the one that keeps least first, until nothing that a service could use lies idle.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from oomph.ir import Deployment, Device
from oomph.ir.objective import Measure, Objective
from oomph.pack.problem import Choice, Option, Problem, Service, Solution, holds
from oomph.pack.services import MOST_SHARE, Planned, gpus_of, least_share, option_at, written_share

STEPS = 100  # of a level between 0 and 1, and of each doubling above it
OBJECTIVE = Objective(
    ("device ids", "written shares as upper bounds"),
    (
        Measure(
            "least",
            "the most of its wish, or of its need without one, for the service that keeps least",
            short="as much as possible of its wish for the service that keeps the least of it",
        ),
        Measure("filled", "no share that could still grow where it is"),
    ),
)
Solve = Callable[[Problem], Solution | None]
Progress = Callable[[str, int, int], None]  # (what is tried, how many are done, of how many)
_USUAL = 12  # shares of a service that are looked at, about: what a bar counts to


class Filled(Struct, frozen=True):
    """Shares that hold together: the way of each service, where it goes and in which order they start."""

    ways: dict[str, tuple[Planned, Option]]
    solution: Solution


class Filler:
    """The services of one machine, planned at the shares that are looked at."""

    def __init__(
        self, deployments: Mapping[str, Deployment], cards: Sequence[Device], asleep: Sequence[str],
        fixed: Mapping[str, tuple[int, ...]], free: tuple[int, ...], host: int, progress: Progress | None = None,
        *, certain: bool = True,
    ) -> None:  # fmt: skip
        """`progress` is told what is tried; with it, Ctrl-C ends the search with the best so far. Without `certain`
        every term is as expected."""
        self.deployments, self.cards, self.asleep, self.fixed = deployments, tuple(cards), asleep, fixed
        self.free, self.host, self.progress = free, host, progress
        self.stopped, self.certain = False, certain
        self._planned: dict[tuple[str, float], tuple[Planned, Option] | None] = {}
        self.least = {name: self._least(name) for name in deployments}
        self.wish = {name: self._wish(name) for name in deployments}

    def _least(self, name: str) -> float:
        """The smallest share that serves on some card, in hundredths; 0: it has no share."""
        deployment = self.deployments[name]
        if not written_share(deployment):
            return 0.0
        shares = (least_share(deployment, card, certain=self.certain) for card in self.cards)
        return min(filter(None, shares), default=0.0)

    def _wish(self, name: str) -> float:
        """The share that is written; 0: nobody wrote one."""
        deployment = self.deployments[name]
        return written_share(deployment) if _is_written(deployment) else 0.0

    def way(self, name: str, share: float) -> tuple[Planned, Option] | None:
        """None: it does not start with that share on any of the cards."""
        key = (name, share)
        if key not in self._planned:
            if self.progress is not None:
                tried = len(self._planned)
                self.progress(f"{name} at {share:g}", tried, max(tried + 1, _USUAL * len(self.deployments)))
            self._planned[key] = option_at(
                self.deployments[name], self.cards, share, asleep=name in self.asleep, certain=self.certain
            )
        return self._planned[key]

    # --- levels -------------------------------------------------------------------------------------------------------

    def share(self, name: str, level: float) -> float:
        """In hundredths; 0 for an engine without one, which is as it is written."""
        least, wish = self.least[name], self.wish[name]
        if not least:
            return 0.0
        if wish:
            return min(wish, max(least, _up(min(1.0, level) * wish))) if wish >= least else least
        return min(MOST_SHARE, max(least, _up(max(1.0, level) * least)))

    def problem(self, shares: Mapping[str, float]) -> tuple[dict[str, tuple[Planned, Option]], Problem] | None:
        ways = {}
        for name, share in shares.items():
            way = self.way(name, share)
            if way is None:
                return None
            ways[name] = way
        services = tuple(
            Service(name, gpus_of(self.deployments[name]), (option,), self.fixed[name])
            for name, (_, option) in ways.items()
        )
        return ways, Problem(services, self.free, self.host)

    def at(self, level: float, solve: Solve) -> Filled | None:
        task = self.problem({name: self.share(name, level) for name in self.deployments})
        solution = solve(task[1]) if task is not None else None
        return Filled(task[0], solution) if task is not None and solution is not None else None

    def fill(self, solve: Solve) -> Filled | None:
        """None: not even the least of everybody holds."""
        best = self.at(0.0, solve)
        if best is None:
            return None
        top = max(
            (MOST_SHARE / least for name, least in self.least.items() if least and not self.wish[name]), default=1.0
        )
        low, high = 0, round(STEPS * max(1.0, top)) + 1  # it holds at low, not at high
        try:
            while high - low > 1:
                middle = (low + high) // 2
                filled = self.at(middle / STEPS, solve)
                if filled is not None:
                    best, low = filled, middle
                else:
                    high = middle
            for grown in self._growing(best, low / STEPS):
                best = grown
        except KeyboardInterrupt:
            if self.progress is None:
                raise
            self.stopped = True
        return best

    # --- what is idle -------------------------------------------------------------------------------------------------

    def _growing(self, filled: Filled, level: float) -> Iterator[Filled]:
        """Each share alone, a hundredth after the other, the service that keeps least first."""
        shares = {name: self.share(name, level) for name in self.deployments}
        open_ = {name for name, share in shares.items() if share}
        while open_:
            name = min(open_, key=lambda one: shares[one] / (self.wish[one] or self.least[one]))
            ceiling = self.wish[name] or MOST_SHARE
            raised = {**shares, name: round(shares[name] + 0.01, 2)}
            task = self.problem(raised) if raised[name] <= ceiling + 1e-9 else None
            choices = tuple(Choice(choice.cards, 0) for choice in filled.solution.choices)
            if (
                task is None
                or not self._useful(name, shares[name], raised[name])
                or not holds(task[1], choices, filled.solution.order)
            ):
                open_.discard(name)
                continue
            shares = raised
            filled = replace(filled, ways=task[0], solution=replace(filled.solution, choices=choices))
            yield filled

    def _useful(self, name: str, before: float, after: float) -> bool:
        """More requests, or what nobody counts: a cache that its own limit of requests cannot fill is not grown."""
        first, second = self.way(name, before), self.way(name, after)
        return first is not None and second is not None and second[1].value > first[1].value


def _is_written(deployment: Deployment) -> bool:
    from oomph.engines.registry import engine_of

    knobs = engine_of(deployment).fit_knobs(deployment.engine.version)
    return knobs is not None and isinstance(deployment.flags.get(knobs.share), (int, float))


def _up(share: float) -> float:
    """The hundredth that keeps at least so much."""
    return ceil(share * 100 - 1e-9) / 100
