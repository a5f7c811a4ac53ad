"""The best configuration by the objective: one value of everything, found without trying everything.

An arm's own choices (checkpoint, bits, graphs, ...) are measures that no plan changes, so that they bound what the arm
can be. Arms are taken in the order of that bound; the search ends when no bound is above the best that was planned.
"""

from collections.abc import Iterator, Sequence
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
    reads_well,
    serving_objective,
    shortness,
    speed_step,
    users_step,
)
from oomph.search import score
from oomph.search.outcome import Outcome
from oomph.search.request import Arm, Space, Spaces, Want, context_grid
from oomph.search.solve import Point, Solver
from oomph.simulate.speed import Speed, speed_of

OFFLOADS = (2, 4, 8, 16, 32, 64)  # GiB of each GPU
_STATE_LIMITS = (0, 8, 64)
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


class BestFirst:
    """One request to one solver."""

    def __init__(self, solver: Solver, spaces: Spaces, objective: Objective) -> None:
        self.solver, self.spaces, self.objective = solver, spaces, objective
        self.want: Want = spaces.want
        self.users = self.want.users or 1
        self.space: Space = spaces.space(self.want.context, self.want.users)
        self.is_open = cache(self._is_open)

    def best(self, *, offload: bool = True) -> Best | None:
        """With a progress to tell, Ctrl-C ends it with the best so far."""
        if self.space.contexts[0] > self.spaces.longest:
            return None
        best: Best | None = None
        try:
            for better in self._improving(self._arms()):
                best = better
            if offload and (best is None or not best.reads_well):
                for better in self._improving(self._offloaded(), best):
                    best = better
        except KeyboardInterrupt:
            if self.solver.progress is None or best is None:
                raise
            self.solver.stopped = True
        return self._widened(best) if best is not None else None

    def _improving(self, arms: Sequence[Arm], best: Best | None = None) -> Iterator[Best]:
        """Each configuration that is better than those before it."""
        bounds = [(self.objective.best_key(self.static(arm)), arm) for arm in arms]
        bounds.sort(key=lambda entry: entry[0], reverse=True)
        for number, (bound, arm) in enumerate(bounds):
            if best is not None and best.key >= bound:
                return
            if self.solver.progress is not None:
                self.solver.progress(arm.model, number, len(bounds))
            if not self.is_open(replace(_frugal(arm), empty=arm.empty)):
                continue
            candidate = self.evaluate(arm)
            if candidate is not None and (best is None or candidate.key > best.key):
                best = candidate
                yield best

    def _arms(self) -> list[Arm]:
        empties = (False, True) if self.solver.empty_gpus != self.solver.base.gpus else (False,)
        return [
            replace(arm, unlimited=unlimited, limit=limit, empty=empty)
            for arm in self.spaces.arms
            for empty in empties
            for unlimited, limit in ((True, 0), *((False, least) for least in self._limits(arm)))
        ]

    def _limits(self, arm: Arm) -> tuple[int, ...]:
        """Where states are counted by the limit of requests, a higher one may hold what a lower one does not."""
        layers = self.spaces.models[arm.model].layers
        recurrent = any(isinstance(mixer, State) for layer in layers for mixer in layer.mixers)
        return _STATE_LIMITS if recurrent else (0,)

    def _offloaded(self) -> list[Arm]:
        """Each arm with as little in host memory as serves."""
        out = []
        pending = [replace(arm, unlimited=True, offload_gib=0) for arm in self.spaces.offloaded(OFFLOADS[-1])]
        for arm in pending:
            for gib_each in OFFLOADS:
                moved = replace(arm, offload_gib=gib_each)
                tries = (moved, replace(moved, unlimited=False))
                if first := next((one for one in tries if self._at(one, self.space.contexts[0]) is not None), None):
                    out.append(first)
                    break
        return out

    def _is_open(self, frugal: Arm) -> bool:
        """Whether the most frugal arm of a checkpoint and layout serves the request; the others need more. Each KV
        dtype apart: the engine may refuse one of them whatever the memory."""
        dtypes = self.want.options.kv_dtypes if frugal.kv_dtype == "auto" else (frugal.kv_dtype,)
        for dtype, limit in product(dict.fromkeys(("auto", *dtypes)), self._limits(frugal)):
            arm = replace(frugal, kv_dtype=dtype, limit=limit)
            if self._at(arm, self.space.contexts[0]) is not None:
                return True
            outcome = self.solver.outcome(arm, self.space.contexts[0], self.users, self.solver.default)
            if outcome.plan is None or outcome.plan.verdict.stage == "other":
                return True  # refused, perhaps for a flag that others do not have
        return False

    # --- one arm ----------------------------------------------------------------------------------------------------

    def static(self, arm: Arm) -> dict[str, float]:
        """What an arm is whatever its plan says."""
        model = self.spaces.models[arm.model]
        small = score.small_cache(model, arm)
        loss = score.quality_loss(model, arm) - (score.KV_FP8_LOSS if small else 0.0) - self.solver.least_weights_loss
        return {
            "request": 0.0,
            "on_gpu": -float(arm.offload_gib > 0),
            "checkpoint": -float(arm.model != self.spaces.named),
            "precision": -float(int(2 * loss + 1e-9)),
            "images": -float(arm.text_only),
            "prefix": -float(arm.prefix_off),
            "screen": -float(arm.empty),
            "graphs": -float(2 if arm.eager else 1 if arm.few_graphs else 0),
            "kv_bits": -float(small),
            "steps": -float(arm.tokens > 0),
            "limit": -float(not arm.unlimited),
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
            at = self._at(arm, context, most) or at
        share, outcome = at
        assert outcome.plan is not None
        speed = plan_speed(outcome.plan, self.spaces.models[arm.model], self.users)
        rate = rate_of(speed)
        standing = {
            **self.static(arm),
            "reading": -float(not reads_well(rate)),
            "length": -float(context < min(LEAST_CONTEXT, self.spaces.longest)),
            "enough": shortness(context, self.spaces.longest),
            "speed": speed_step(rate) if rate is not None else 0.0,
            "context": users_step(context) if self.want.prefer == "context" else float(context),
            "users": users_step(most),
        }
        rank = self.solver.loss(arm), int(standing["speed"])
        point = Point(arm, context, max(most, self.users), share, *rank, outcome.concurrency)
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

    def _held(self, arm: Arm, context: int, outcome: Outcome) -> int:
        """Requests of the whole context at once, at the unfavourable end."""
        assert outcome.plan is not None
        if not arm.unlimited:
            is_fixed = self.want.users and self.want.prefer != "users"
            return self.users if is_fixed else self.solver.most_users(arm, context, self.space)
        own = outcome.plan.resolved.get(self.solver.knobs.users)
        limit = float(own) if isinstance(own, int) and own > 0 else float("inf")
        return int(min(outcome.concurrency, limit))

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


def _frugal(arm: Arm) -> Arm:
    """The arm of the same checkpoint, layout and images that takes the least."""
    return replace(arm, eager=True, few_graphs=False, drafts=0, tokens=2048, unlimited=False, limit=0, kv_dtype="auto")


def plan_speed(plan: Plan, model: Model, users: int) -> Speed | None:
    """None: nobody knows how fast this card is."""
    timing = engine_of(plan.deployment).timing(plan, model)
    return speed_of(timing, users) if timing is not None else None


def slow(speed: Speed | None) -> str:
    """The words for a headline where nobody can read along."""
    rate = rate_of(speed)
    return f"at {rate:.2g} tokens/s per user" if rate is not None and rate < READING else ""
