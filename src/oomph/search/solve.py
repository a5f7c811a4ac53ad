"""The search itself: exact over a Space, by the engine's own monotone terms.

For one arm, more users or a longer context never make room (the engine profiles a larger batch, one request needs more
blocks), and a higher utilisation gives more cache until the card is full. So the best utilisation, the most users of a
context and the longest context of so many users are bisections. Arms are taken best first (quality, speed, shortest
command); an arm whose bound - the concurrency with the fewest users, at every context - is dominated is not opened.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.registry import engine_of
from oomph.errors import OomphError
from oomph.facts.transformers import REMOTE_TYPES, TRUST
from oomph.ir import Deployment, Model, Plan
from oomph.search import score
from oomph.search.outcome import Outcome, guess_share, judge, same_budget, share_of
from oomph.search.request import Arm, Space, knobs_of

_FIRST_SHARE = 0.73  # chosen: the first that is tried, below what most cards end with
_GUESSES = 6  # of the longest context, before it is bisected
Planner = Callable[[Deployment, Model | None], Plan]
Progress = Callable[[str, int, int], None]  # (what is tried, how many are done, of how many)


class Point(Struct, frozen=True, kw_only=True):
    """One configuration that fits."""

    arm: Arm
    context: int
    users: int
    utilisation: float
    quality: float  # expected loss, 0 = none
    speed: int  # band, higher is faster
    concurrency: float = 0.0
    limit: int = 0  # of requests at once, where one is set

    @property
    def goals(self) -> tuple[float, ...]:
        """What is to be large. Images and prefix caching are among them: no number weighs their loss."""
        return _goals(self.arm, self.context, self.users, self.quality, self.speed)


def _goals(arm: Arm, context: int, users: int, quality: float, speed: int) -> tuple[float, ...]:
    return (context, users, -quality, speed, not arm.text_only, not arm.prefix_off)


def dominates(first: Sequence[float], second: Sequence[float]) -> bool:
    """At least as good everywhere; equal counts: the first of equals is kept."""
    return all(x >= y for x, y in zip(first, second, strict=True))


def pareto(points: Sequence[Point]) -> list[Point]:
    """Those that no other dominates; of equals the shortest command."""
    front: list[Point] = []
    for point in sorted(points, key=lambda p: (tuple(-g for g in p.goals), p.arm.changes, p.utilisation)):
        if not any(dominates(k.goals, point.goals) for k in front):
            front.append(point)
    return front


class Solver:
    """One model family on one machine. `margin`: an answer must hold at the unfavourable end of every interval."""

    def __init__(
        self, base: Deployment, models: dict[str, Model], planner: Planner, default: float, *, margin: bool = True
    ) -> None:
        self.base, self.models, self.planner = base, models, planner
        self.knobs = knobs_of(base)
        self.default, self.margin = default, margin
        self.empty_gpus = base.gpus  # as they are where nothing else may use them
        self.plans = 0
        self.refusal = ""  # what the engine says where it refuses all that is planned, before any memory is touched
        self.progress: Progress | None = None  # told of each arm; with it, Ctrl-C ends the search with the best so far
        self.stopped = False
        # of the checkpoints at hand: a model that was published in four bits loses nothing in four bits
        self.least_loss = min(score.quality_loss(model, Arm("")) for model in models.values())
        self.weights_loss = cache(lambda name, online: score.weights_loss(models[name], online))
        self.least_weights_loss: float = min(self.weights_loss(name, "") for name in models)
        # what is served only with the code of its repository gets the flag that says so, where the engine has one
        remote = {name for name, model in models.items() if model.model_type in REMOTE_TYPES}
        self.trusting = frozenset(remote if TRUST in self.knobs.known_flags else ())
        self._seen: dict[tuple[Arm, int, int, float], Outcome] = {}
        self._best: dict[tuple[Arm, int, int], float] = {}
        self._last: dict[Arm, float] = {}  # what another context or other users ended with is the best first guess
        self._by_context: set[Arm] = set()  # a longer context leaves these another budget for the cache

    def keep_margin(self, keep: bool) -> None:
        """What was judged otherwise is forgotten."""
        self.margin = keep
        self._seen.clear()
        self._best.clear()

    # --- one plan ---------------------------------------------------------------------------------------------------

    def deployment(self, arm: Arm, context: int, users: int, utilisation: float) -> Deployment:
        flags: dict[str, Any] = {self.knobs.context: context}
        if not arm.unlimited:
            flags[self.knobs.users] = max(users, arm.limit)
        if utilisation != self.default:
            flags[self.knobs.share] = utilisation
        own_flags = engine_of(self.base).arm_flags(arm)
        if arm.model in self.trusting:
            flags[TRUST] = True
        gpus = self.empty_gpus if arm.empty else self.base.gpus
        return replace(self.base, model=arm.model, flags={**self.base.flags, **own_flags, **flags}, gpus=gpus)

    def outcome(self, arm: Arm, context: int, users: int, utilisation: float) -> Outcome:
        key = (arm, context, 0 if arm.unlimited else max(users, arm.limit), utilisation)
        outcome = self._seen.get(key)
        if outcome is None:
            outcome = self._seen[key] = self._plan(*key)
        return outcome

    def _plan(self, arm: Arm, context: int, users: int, utilisation: float) -> Outcome:
        self.plans += 1
        try:
            plan = self.planner(self.deployment(arm, context, users, utilisation), self.models[arm.model])
        except OomphError as refused:
            return Outcome("never", 0.0, None, refused.message)
        is_refused = plan.verdict.stage == "other" and (self.refusal or self.plans == 1)
        self.refusal = (self.refusal or plan.verdict.message.partition("\n")[0]) if is_refused else ""
        return judge(plan, margin=self.margin)

    # --- one arm ----------------------------------------------------------------------------------------------------

    def utilisation(self, arm: Arm, context: int, users: int, space: Space) -> float:
        """The highest that does not overfill the card; 0.0 = none."""
        key = (arm, context, users)
        if key not in self._best:
            self._best[key] = top = self._highest(arm, context, users, space, self._last.get(arm, self.default))
            self._last[arm] = top or self.default
        return self._best[key]

    def _highest(self, arm: Arm, context: int, users: int, space: Space, near: float) -> float:
        grid = space.utilisations

        def over(i: int) -> bool:
            return self.outcome(arm, context, users, grid[i]).kind == "over"

        guess = grid.index(near) if near in grid else min(bisect_right(grid, _FIRST_SHARE), len(grid) - 1)
        first = self.outcome(arm, context, users, grid[guess])
        if first.kind == "never":
            return 0.0
        if first.plan is not None:
            start = max(guess, bisect_right(grid, share_of(first.plan)) - 1)
            guess = guess_share(first.plan, grid, start, margin=self.margin)
        low, high = -1, len(grid)  # not over at low, over at high
        for i in (guess, guess + 1, guess - 1):
            if low < i < high:
                low, high = (low, i) if over(i) else (i, high)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if over(middle) else (middle, high)
        return grid[low] if low >= 0 else 0.0

    def fits(self, arm: Arm, context: int, users: int, space: Space) -> bool:
        return self._near(arm, context, users, space) is not None

    def _near(self, arm: Arm, context: int, users: int, space: Space) -> tuple[float, Outcome] | None:
        """Where a utilisation that served another context or other users is enough, no higher one is looked for."""
        last = self._last.get(arm)
        enough = self._with(last, arm, context, users) if last is not None else None
        return enough or self.at(arm, context, users, space)

    def _with(self, utilisation: float, arm: Arm, context: int, users: int) -> tuple[float, Outcome] | None:
        outcome = self.outcome(arm, context, users, utilisation)
        return (utilisation, outcome) if outcome.kind == "ok" and outcome.concurrency >= users else None

    def at(self, arm: Arm, context: int, users: int, space: Space) -> tuple[float, Outcome] | None:
        """(utilisation, outcome) where so many users of this context fit."""
        shortest = context if arm in self._by_context else space.contexts[0]
        top = self.utilisation(arm, shortest, users, space)
        if not top:
            return None
        outcome = self.outcome(arm, context, users, top)
        if outcome.kind != "never" and not same_budget(outcome, self.outcome(arm, shortest, users, top)):
            if outcome.kind != "over":
                self._by_context.add(arm)
            top = self.utilisation(arm, context, users, space)
            if not top:
                return None
            outcome = self.outcome(arm, context, users, top)
        if outcome.kind == "short" and top < self.default <= space.utilisations[-1]:
            # A shorter context may leave a little less room behind the cache, whose blocks it divides otherwise.
            top = self.default
        return self._with(top, arm, context, users)

    def most_users(self, arm: Arm, context: int, space: Space) -> int:
        """The largest level that fits at this context; 0 = none. The fewest users have the most room: no level above
        their concurrency can fit, and the answer is not far below; but for states as many as may run at once."""
        levels = space.users
        fewest = self.at(arm, context, levels[0], space)
        if fewest is None:
            return 0
        low, high = 0, bisect_right(levels, fewest[1].concurrency)
        if fewest[1].concurrency == max(levels[0], arm.limit):
            high = len(levels)
        step = 1
        while high - low > 1:
            at = max(high - step, low + 1) if step else (low + high) // 2
            if self.fits(arm, context, levels[at], space):
                low, step = at, 0
            else:
                high, step = at, 2 * step
        return levels[low]

    def longest(self, arm: Arm, users: int, space: Space, grid: Sequence[int]) -> int:
        """A token more takes as much of the cache as the one before it: two contexts tell where the users fill it."""
        low, high, tries, context = -1, len(grid), 0, space.contexts[0]
        at, before, part = self.at(arm, context, users, space), (0, 0.0), (0, 0.0)
        while high - low > 1:
            if at is not None:
                before, part = part, (context, 1 / at[1].concurrency)
            slope = (part[1] - before[1]) / max(1, part[0] - before[0])
            tokens = part[0] + (1 / users - part[1]) / slope if slope > 0 else grid[-1]
            guess = bisect_right(grid, tokens) - 1 if tries < _GUESSES else (low + high) // 2
            middle = min(max(guess, low + 1), high - 1)
            tries, context = tries + 1, grid[middle]
            at = self._near(arm, context, users, space)
            low, high = (middle, high) if at is not None else (low, middle)
        return grid[low] if low >= 0 else 0

    def point(self, arm: Arm, context: int, users: int, space: Space, rank: tuple[float, int]) -> Point | None:
        """With the engine's default utilisation where that is enough: a flag less."""
        at = self.plain(arm, context, users, space) or self.at(arm, context, users, space)
        if at is None:
            return None
        return Point(
            arm=arm, context=context, users=users, utilisation=at[0], quality=rank[0], speed=rank[1],
            concurrency=at[1].concurrency,
        )  # fmt: skip

    def plain(self, arm: Arm, context: int, users: int, space: Space) -> tuple[float, Outcome] | None:
        return self._with(self.default, arm, context, users) if self.default <= space.utilisations[-1] else None

    def rank(self, arm: Arm, space: Space) -> tuple[float, int] | None:
        """(quality, speed) of an arm that can be planned at all."""
        outcome = self.outcome(arm, space.contexts[0], space.users[0], self.default)
        if outcome.plan is None or not outcome.plan.ranks:
            return None
        seconds = score.request_seconds(self.models[arm.model], arm, outcome.plan)
        return self.loss(arm), score.speed_band(seconds)

    def loss(self, arm: Arm) -> float:
        """Expected, beside the checkpoint that loses least."""
        return round(score.quality_loss(self.models[arm.model], arm) - self.least_loss, 1)

    # --- all arms ---------------------------------------------------------------------------------------------------

    def front(self, space: Space, *, grid: Sequence[int] = ()) -> list[Point]:
        """The Pareto front over the space; with `grid` also each arm's longest context for the fewest users."""
        ranked = []
        arms = list(self.open_arms(space))
        for number, arm in enumerate(arms):
            self._tell(arm, number, 2 * len(arms))
            rank = self.rank(arm, space) if self.possible(arm, space) else None
            if rank is not None:
                ranked.append((rank, arm))
        ranked.sort(key=lambda r: (r[0][0], -r[0][1], r[1].text_only, r[1].prefix_off, r[1].changes))
        points: list[Point] = []
        try:
            for number, (rank, arm) in enumerate(ranked):
                self._tell(arm, len(ranked) + number, 2 * len(ranked))
                if self._hopeless(arm, rank, space, points, grid):
                    continue
                points = pareto([*points, *self._arm_points(arm, rank, space, grid)])
        except KeyboardInterrupt:
            if self.progress is None or not points:
                raise
            self.stopped = True
        return points

    def _tell(self, arm: Arm, number: int, count: int) -> None:
        if self.progress is not None:
            self.progress(arm.model, number, count)

    def open_arms(self, space: Space) -> Iterator[Arm]:
        """Without the checkpoints, layouts and towers for which even the most frugal arm does not fit. Those that come
        first are looked at first: who needs one arm alone does not plan the others."""
        groups: dict[tuple[object, ...], list[Arm]] = {}
        for arm in space.arms:
            groups.setdefault(_by_layout(arm), []).append(arm)
            groups.setdefault(_by_towers(arm), []).append(arm)
        is_open = cache(lambda group: self._any(groups[group], space))
        return (arm for arm in space.arms if is_open(_by_layout(arm)) and is_open(_by_towers(arm)))

    def _any(self, group: list[Arm], space: Space) -> bool:
        """Each KV dtype apart: the engine may refuse one of them whatever the memory."""
        for dtype in dict.fromkeys(a.kv_dtype for a in group):
            for least in _frugal([a for a in group if a.kv_dtype == dtype]):
                outcome = self.outcome(least, space.contexts[0], space.users[0], self.default)
                refused = outcome.plan is None or outcome.plan.verdict.stage == "other"
                # a hungrier arm has a smaller cache at the same utilisation, and so more room after it
                if refused or outcome.kind == "over" or self.possible(least, space):
                    return True
        return False

    def possible(self, arm: Arm, space: Space) -> bool:
        """At least the shortest context for the fewest users."""
        least = (arm, space.contexts[0], space.users[0], space)
        return self.plain(*least) is not None or self.fits(*least)

    def _hopeless(
        self, arm: Arm, rank: tuple[float, int], space: Space, points: list[Point], grid: Sequence[int]
    ) -> bool:
        """Dominated at every context by its bound, and not longer than what dominates that bound."""
        if not points:
            return False
        fewest = bound = space.users[0]
        for context in space.contexts:
            at = self.at(arm, context, fewest, space)
            if at is None:
                break
            bound = min(int(at[1].concurrency), space.users[-1])
            goals = _goals(arm, context, bound, *rank)
            if not any(dominates(p.goals, goals) for p in points):
                return False
        # beyond the last context that fits there are no more users than there
        least = _goals(arm, 0, bound, *rank)
        reach = max((p.context for p in points if dominates(p.goals, least)), default=0)
        further = grid[bisect_right(grid, reach) :]
        return not further or not self.fits(arm, further[0], fewest, space)

    def _arm_points(self, arm: Arm, rank: tuple[float, int], space: Space, grid: Sequence[int]) -> list[Point]:
        contexts = list(space.contexts)
        if grid:
            contexts.append(self.longest(arm, space.users[0], space, grid))
        out = []
        for context in dict.fromkeys(c for c in contexts if c):
            users = self.most_users(arm, context, space)
            point = self.point(arm, context, users, space, rank) if users else None
            if point is not None:
                out.append(point)
        return out


def _by_layout(arm: Arm) -> tuple[object, ...]:
    return (arm.model, arm.layout, arm.offload_gib)


def _by_towers(arm: Arm) -> tuple[object, ...]:
    return (arm.model, arm.layout, arm.offload_gib, arm.text_only, arm.drafts)


def _hunger(arm: Arm) -> tuple[int, ...]:
    """What takes memory, part by part."""
    graphs = 0 if arm.eager else 1 if arm.few_graphs else 2
    return (not arm.text_only, arm.drafts, graphs, not arm.prefix_off, arm.tokens or 1 << 30)


def _frugal(arms: list[Arm]) -> list[Arm]:
    """Those than which no other takes less in every part; of a whole product there is one."""
    hungers = {arm: _hunger(arm) for arm in arms}
    least = min(hungers.values(), key=sum)
    if all(all(x <= y for x, y in zip(least, h, strict=True)) for h in hungers.values()):
        return [next(arm for arm, h in hungers.items() if h == least)]
    return [
        arm
        for arm, hunger in hungers.items()
        if not any(o != hunger and all(x <= y for x, y in zip(o, hunger, strict=True)) for o in hungers.values())
    ]
