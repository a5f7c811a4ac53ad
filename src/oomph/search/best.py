"""The best configuration by the objective: one value of everything, found without trying everything.

An arm's own choices (checkpoint, bits, graphs, ...) are measures that no plan changes, so that they bound what the arm
can be. Arms are taken in the order of that bound; the search ends when no bound is above the best that was planned.
"""

import heapq
from collections.abc import Iterator
from functools import cache
from itertools import product

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.registry import engine_of
from oomph.ir import Model, Plan, State
from oomph.ir.objective import (
    LEAST_CONTEXT,
    READING,
    Objective,
    lowness,
    reads_well,
    serving_objective,
    shortness,
    slowness,
    speed_step,
    users_step,
)
from oomph.search import score
from oomph.search.aims import AimBounds
from oomph.search.outcome import Outcome
from oomph.search.request import Arm, Space, Spaces, Want, context_grid
from oomph.search.solve import Point, Solver
from oomph.simulate.speed import Speed, speed_of

OFFLOADS = (2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 64)  # GiB of each GPU
_STATE_LIMITS = (0, 8, 64)
_GRADES = (256, 64, 16, 4, 0)  # limits of requests between which `lowness` tells; 0: the users that are asked for
_LIMITS = tuple(1 << n for n in range(12, -1, -1))


class Best(Struct, frozen=True):
    """A configuration, and where it stands."""

    point: Point
    plan: Plan
    key: tuple[float, ...]
    speed: Speed | None = None

    @property
    def reads_well(self) -> bool:
        return reads_well(rate_of(self.speed))


def objective_of(spaces: Spaces, *, named: bool = True) -> Objective:
    want = spaces.want
    return serving_objective(
        checkpoint=spaces.named if named and len(spaces.models) > 1 else "", context=want.context, users=want.users,
        prefer=want.prefer, also=want.needs,
    )  # fmt: skip


def rate_of(speed: Speed | None) -> float | None:
    """Tokens per second that each of the users sees."""
    return None if speed is None else speed.all_users / speed.users


Way = tuple[tuple[float, ...], Arm, bool, bool, int]  # (its bound, an arm, empty, unlimited, limit)


class BestFirst:
    """One request to one solver."""

    def __init__(self, solver: Solver, spaces: Spaces, objective: Objective) -> None:
        self.solver, self.spaces, self.objective = solver, spaces, objective
        self.want: Want = spaces.want
        self.users = self.want.users or 1
        self.space: Space = spaces.space(self.want.context, self.want.users)
        self.is_open, self.limits = cache(self._is_open), cache(self._limits)
        self.grades, self.may_serve = cache(self._grades), cache(self._may_serve)
        self.aims = AimBounds(
            spaces, self.users, most_context=self._most_context, most_users=self._most_users,
            most_requests=self._most_requests, speed_at=self._speed_at,
        )  # fmt: skip

    def best(self, *, offload: bool = True) -> Best | None:
        """With a progress to tell, Ctrl-C ends it with the best so far."""
        if self.space.contexts[0] > self.spaces.longest:
            return None
        best: Best | None = None
        try:
            ways = [self._as_it_is(replace(arm, unlimited=True)) for arm in self.spaces.arms]
            for better in self._improving(ways, siblings=True):
                best = better
            if offload and (best is None or not best.reads_well):
                for better in self._improving([self._as_it_is(arm) for arm in self._offloaded()], best):
                    best = better
        except KeyboardInterrupt:
            if self.solver.progress is None or best is None:
                raise
            self.solver.stopped = True
        return self._widened(best) if best is not None else None

    def _improving(self, ways: list[Way], best: Best | None = None, *, siblings: bool = False) -> Iterator[Best]:
        """Each configuration that is better than those before it. The way with the highest bound comes first; where an
        aim comes before what is given up, its bound is lowered by few plans before the way is searched. `siblings`:
        each way stands for its arm, whose other ways have lower bounds and come in when the first is looked at."""
        heap = [(_turned(way[0]), number, 0) for number, way in enumerate(ways)]
        heapq.heapify(heap)
        by_plans = self.aims.by_plans
        places = {measure.name: place for place, measure in enumerate(self.objective.order)}
        stages, opened, doubtful = dict[tuple[int, int], int](), dict[int, list[Way]](), set[Arm]()
        turns, reached = 0, None if best is None else _turned(best.key)
        served = set[tuple[int, bool]]()
        while heap:
            bound, number, which = heap[0]
            if reached is not None and reached <= bound:
                return
            if number not in opened:
                opened[number] = [ways[number], *(self._siblings(ways[number]) if siblings else ())]
                for place, way in enumerate(opened[number][1:], start=1):
                    heapq.heappush(heap, (_turned(way[0]), number, place))
            _, base, empty, unlimited, limit = opened[number][which]
            arm = replace(base, unlimited=unlimited, limit=limit, empty=empty)
            stage = stages.get((number, which), 0)
            if stage < len(by_plans):
                lower = list(bound)
                for name, most in by_plans[stage](arm).items():
                    lower[places[name]] = max(lower[places[name]], -most)
                stages[number, which] = stage + 1
                heapq.heapreplace(heap, (tuple(lower), number, which))
                continue
            heapq.heappop(heap)
            turns += 1
            if self.solver.progress is not None:
                self.solver.progress(arm.model, turns, len(ways))
            if not self.is_open(_frugal(arm)):
                continue
            choice = _without_steps(arm)
            if (number, empty) in served or (choice in doubtful and not self.may_serve(choice)):
                continue
            candidate = self.evaluate(arm)
            if candidate is None:
                doubtful.add(choice)
                continue
            if self.want.users and self.aims.aim in ("", "speed"):
                lengths = (places[name] for name in ("length", "enough") if name in places)
                if not any(candidate.key[place] for place in lengths):  # a lower limit makes nothing faster
                    served.add((number, empty))
            if best is None or candidate.key > best.key:
                best, reached = candidate, _turned(candidate.key)
                yield best

    def _siblings(self, first: Way) -> list[Way]:
        """Of an arm the ways without room for a screen and with each limit of requests."""
        empties = (False, True) if self.solver.empty_gpus != self.solver.base.gpus else (False,)
        names = [measure.name for measure in self.objective.order]
        screen, limited = names.index("screen"), names.index("limit")
        bound, arm = list(first[0]), first[1]
        ways: list[Way] = []
        for empty, (unlimited, limit) in product(empties, ((True, 0), *self.grades(arm.model))):
            bound[screen] = -float(empty)
            bound[limited] = 0.0 if unlimited else self._lowness(limit)
            ways.append((tuple(bound), arm, empty, unlimited, limit))
        return ways[1:]

    def _as_it_is(self, arm: Arm) -> Way:
        return self._bound(arm), arm, arm.empty, arm.unlimited, arm.limit

    def _bound(self, arm: Arm) -> tuple[float, ...]:
        return self.objective.best_key({**self.static(arm), **self.aims.by_size(arm, self.space.contexts[0])})

    def _speed_at(self, arm: Arm) -> float | None:
        """Of each user, by one plan, whether it fits or not."""
        plan = self.solver.outcome(arm, self.space.contexts[0], self.users, self.solver.default).plan
        return rate_of(plan_speed(plan, self.spaces.models[arm.model], self.users)) if plan and plan.ranks else None

    def _most_context(self, frugal: Arm) -> int:
        return max(self._context(arm) for arm in self._with_limits(frugal))

    def _with_limits(self, frugal: Arm) -> list[Arm]:
        """No limit of requests has more room than the lowest one."""
        return [replace(frugal, unlimited=False, limit=limit) for _, limit in self.limits(frugal.model)]

    def _most_users(self, frugal: Arm) -> int:
        most, ceiling = 0, self.aims.most_requests(frugal)
        for arm in self._with_limits(frugal):
            at = self.solver.at(arm, self._context(arm), self.users, self.space)
            requests = at[1].concurrency if at is not None else 0.0
            most = ceiling if requests == max(self.users, arm.limit) else max(most, int(requests))
        return min(most, ceiling)

    def _most_requests(self, frugal: Arm) -> int:
        """What is set here, or the engine's own limit."""
        if not frugal.unlimited:
            return max(self.space.users[-1], *_GRADES)
        plan = self.solver.outcome(frugal, self.space.contexts[0], self.users, self.solver.default).plan
        return self._own_limit(plan) if plan is not None else 1 << 62

    def _own_limit(self, plan: Plan) -> int:
        """Of requests at once."""
        own = plan.resolved.get(self.solver.knobs.users)
        return own if isinstance(own, int) and own > 0 else 1 << 62

    def _limits(self, model: str) -> tuple[tuple[bool, int], ...]:
        """(not unlimited, limit of requests): where states are counted by the limit, a higher one may hold what a lower
        one does not."""
        layers = self.spaces.models[model].layers
        recurrent = any(isinstance(mixer, State) for layer in layers for mixer in layer.mixers)
        return tuple((False, limit) for limit in (_STATE_LIMITS if recurrent else (0,)))

    def _grades(self, model: str) -> tuple[tuple[bool, int], ...]:
        """(not unlimited, limit of requests) from the highest; those that the users exceed are one."""
        lowest = [limit for _, limit in self.limits(model)]
        ordered = sorted({*_GRADES, *lowest}, reverse=True)
        return tuple((False, limit) for limit in ordered if not limit or limit > self.users)

    def _lowness(self, limit: int) -> float:
        """What a way with this limit is at the most. Where users are what is preferred, as many as are held raise it;
        elsewhere a way with a higher limit has all that they give."""
        return -1.0 if self.want.prefer == "users" else lowness(max(limit, self.users))

    def _offloaded(self) -> list[Arm]:
        """Each arm with as little in host memory as serves: more of it leaves more room."""
        arms = [self._least_offload(replace(arm, unlimited=True)) for arm in self.spaces.offloaded(OFFLOADS[-1])]
        return [arm for arm in arms if arm is not None]

    def _least_offload(self, arm: Arm) -> Arm | None:
        least, high = None, len(OFFLOADS)
        while least is None and high:  # what does not serve with most never does, unless the host is what lacks memory
            high -= 1
            least = self._moved(arm, OFFLOADS[high])
            if least is None and not self._lacks_host(replace(arm, offload_gib=OFFLOADS[high])):
                return None
        low = 0
        while low < high:
            middle = (low + high) // 2
            fewer = self._moved(arm, OFFLOADS[middle])
            least, low, high = (fewer, low, middle) if fewer is not None else (least, middle + 1, high)
        return least

    def _moved(self, arm: Arm, offload_gib: int) -> Arm | None:
        """With so much in host memory, if that serves."""
        moved = replace(arm, offload_gib=offload_gib)
        tries = (moved, replace(moved, unlimited=False))
        return next((one for one in tries if self._at(one, self.space.contexts[0]) is not None), None)

    def _lacks_host(self, arm: Arm) -> bool:
        plan = self.solver.outcome(arm, self.space.contexts[0], self.users, self.solver.default).plan
        return plan is not None and "host_ram" in (plan.verdict.stage, plan.verdict.first_to_break)

    def _is_open(self, frugal: Arm) -> bool:
        """Whether the most frugal arm of a checkpoint, layout and KV dtype serves the request; the others need more. If
        the engine's own dtype serves, a smaller one does."""
        return self.aims.may_hold(frugal, self.space.contexts[0]) and any(
            self.may_serve(replace(frugal, kv_dtype=dtype)) for dtype in dict.fromkeys(("auto", frugal.kv_dtype))
        )

    def _may_serve(self, arm: Arm) -> bool:
        """Whether it serves the request with some limit of requests, or is refused, perhaps for that limit."""
        for _, limit in self.limits(arm.model):
            limited = replace(arm, limit=limit)
            if self._at(limited, self.space.contexts[0]) is not None:
                return True
            outcome = self.solver.outcome(limited, self.space.contexts[0], self.users, self.solver.default)
            if outcome.plan is None or outcome.plan.verdict.stage == "other":
                return True
        return False

    # --- one arm ----------------------------------------------------------------------------------------------------

    def static(self, arm: Arm) -> dict[str, float]:
        """What an arm is whatever its plan says."""
        model = self.spaces.models[arm.model]
        small = score.small_cache(model, arm)
        loss = self.solver.weights_loss(arm.model, arm.online) - self.solver.least_weights_loss
        return {
            "request": 0.0,
            "on_gpu": -float(arm.offload_gib.bit_length()),  # each doubling of what is in host memory is a step less
            "checkpoint": -float(arm.model != self.spaces.named),
            "precision": -float(int(2 * loss + 1e-9)),
            "images": -float(arm.text_only),
            "prefix": -float(arm.prefix_off),
            "screen": -float(arm.empty),
            "graphs": -float(2 if arm.eager else 1 if arm.few_graphs else 0),
            "kv_bits": -float(small),
            "steps": -float(arm.tokens > 0),
            "limit": 0.0 if arm.unlimited else self._lowness(arm.limit),
            "plain": -float(arm.changes),
        }

    def evaluate(self, arm: Arm) -> Best | None:
        """The arm at its best context, users and share, judged."""
        context = self._context(arm)
        at = self._at(arm, context) if context else None
        if at is None or at[1].plan is None:
            return None
        if not self.want.users or self.want.prefer == "users":  # more of them count: the highest share, if it has more
            high = self.solver.at(arm, context, self.users, self.space)
            at = high if high is not None and self._more(arm, context, high[1], at[1]) else at
        most = self._held(arm, context, at[1])
        if most > self.users and not arm.unlimited:
            at, most = self._filled(arm, context, most) or (at, most)
        share, outcome = at
        assert outcome.plan is not None
        speed = plan_speed(outcome.plan, self.spaces.models[arm.model], self.users)
        rate = rate_of(speed)
        standing = {
            **self.static(arm),
            "reading": slowness(rate),
            "length": -float(context < min(LEAST_CONTEXT, self.spaces.longest)),
            "enough": shortness(context, self.spaces.longest),
            "speed": speed_step(rate) if rate is not None else 0.0,
            "context": users_step(context) if self.want.prefer == "context" else float(context),
            "users": users_step(most),
        }
        limit = 0 if arm.unlimited else max(most, self.users, arm.limit)
        standing["limit"] = lowness(limit) if limit else 0.0
        point = Point(
            arm=arm, context=context, users=max(most, self.users), utilisation=share, quality=self.solver.loss(arm),
            speed=int(standing["speed"]), concurrency=outcome.concurrency, limit=limit,
        )  # fmt: skip
        return Best(point, outcome.plan, self.objective.key(standing), speed)

    def _context(self, arm: Arm) -> int:
        """As asked; else the longest that the users can have, or what is useful where users count more."""
        if self.want.context and self.want.prefer != "context":
            return self.want.context
        longest = self.spaces.models[arm.model].max_position
        if self.want.prefer == "users" and not self.want.context:
            useful = min(LEAST_CONTEXT, longest)
            return useful if self._at(arm, useful) is not None else self.space.contexts[0]
        least = self.space.contexts[0]
        grid = [context for context in context_grid(longest) if context >= least]
        return self.solver.longest(arm, self.users, replace(self.space, contexts=(least,)), grid) if grid else 0

    def _at(self, arm: Arm, context: int, users: int = 0) -> tuple[float, Outcome] | None:
        """(share, outcome): the engine's default share where that is enough."""
        users = users or self.users
        return self.solver.plain(arm, context, users, self.space) or self.solver.at(arm, context, users, self.space)

    def _more(self, arm: Arm, context: int, high: Outcome, plain: Outcome) -> bool:
        if high.plan is None or not arm.unlimited:
            return False
        return users_step(self._held(arm, context, high)) > users_step(self._held(arm, context, plain))

    def _filled(self, arm: Arm, context: int, level: int) -> tuple[tuple[float, Outcome], int] | None:
        """Where so many users fit, and how many of them there are below the limit that is set: a level is rounded down.
        The highest share where it has more."""
        ways = (self._at(arm, context, level), self.solver.at(arm, context, level, self.space))
        counted = [(at, int(min(at[1].concurrency, max(level, arm.limit)))) for at in ways if at is not None]
        return max(counted, key=lambda way: users_step(way[1]), default=None)

    def _held(self, arm: Arm, context: int, outcome: Outcome) -> int:
        """Requests of the whole context at once, at the unfavourable end."""
        assert outcome.plan is not None
        if not arm.unlimited:
            is_fixed = self.want.users and self.want.prefer != "users"
            return self.users if is_fixed else self.solver.most_users(arm, context, self.space)
        return int(min(outcome.concurrency, self._own_limit(outcome.plan)))

    def _widened(self, best: Best) -> Best:
        """A limit that memory needs is no lower than memory needs it: short requests come in larger numbers."""
        point = best.point
        if point.arm.unlimited:
            return best
        for limit in _LIMITS:
            if limit <= max(point.users, point.arm.limit):
                return best
            outcome = self.solver.outcome(point.arm, point.context, limit, point.utilisation)
            if outcome.kind == "ok" and outcome.plan is not None and outcome.concurrency >= point.users:
                wider = replace(point, concurrency=outcome.concurrency, limit=limit)
                return replace(best, point=wider, plan=outcome.plan)
        return best


def _turned(key: tuple[float, ...]) -> tuple[float, ...]:
    """A heap has the smallest first."""
    return tuple([-n for n in key])


def _without_steps(arm: Arm) -> Arm:
    """The arm that takes the least of those that differ from it in prefill steps and in the limit of requests."""
    return replace(arm, tokens=2048, unlimited=False, limit=0)


def _frugal(arm: Arm) -> Arm:
    """The arm of the same checkpoint, layout, images and KV dtype that takes the least."""
    return replace(arm, eager=True, few_graphs=False, drafts=0, tokens=2048, unlimited=False, limit=0)


def plan_speed(plan: Plan, model: Model, users: int) -> Speed | None:
    """None: nobody knows how fast this card is, or the model generates no tokens."""
    timing = engine_of(plan.deployment).timing(plan, model) if not model.pooling else None
    return speed_of(timing, users) if timing is not None else None


def slow(speed: Speed | None) -> str:
    """The words for a headline where nobody can read along."""
    rate = rate_of(speed)
    return f"at {rate:.2g} tokens/s per user" if rate is not None and rate < READING else ""
