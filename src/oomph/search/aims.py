"""What an arm can reach at most of what a preference maximises: first from sizes alone, then from few plans.

Without such a bound a preference for the context, the users or the speed would have every arm searched. What the sizes
say is above what any plan gives; what plans say is that of the arm that gives up the rest: it has the longest
context and the most users, and the speed does not depend on what is given up but graphs, drafts and bits.
"""

from collections.abc import Callable
from functools import cache

from msgspec.structs import replace

from oomph.ir import Experts, Model
from oomph.ir.objective import speed_step, users_step
from oomph.search import score
from oomph.search.request import Arm, Spaces, least_weights

Bound = dict[str, float]  # a measure of the objective -> no more than this


class AimBounds:
    """`most_context`, `most_users`: what an arm that gives up the rest reaches; `most_requests`: what it lets run at
    once, whatever the memory; `speed_at`: tokens per second of each user by one plan, None where there is none."""

    def __init__(
        self, spaces: Spaces, users: int, *, most_context: Callable[[Arm], int], most_users: Callable[[Arm], int],
        most_requests: Callable[[Arm], int], speed_at: Callable[[Arm], float | None],
    ) -> None:  # fmt: skip
        self.spaces, self.users = spaces, users
        self.most_context, self.most_users = cache(most_context), cache(most_users)
        self.speed_at, self._requests = cache(speed_at), cache(most_requests)
        self._weights = cache(lambda name: least_weights(spaces.models[name]))
        self._active = cache(lambda name: _active_bytes(spaces.models[name]))
        self._token = cache(lambda name: score.token_bytes(spaces.models[name]))

    def most_requests(self, arm: Arm) -> int:
        return self._requests(_same_limit(arm))

    @property
    def aim(self) -> str:
        """The measure that comes before what is given up; "" = none does."""
        return self.spaces.want.prefer if self.spaces.want.prefer in ("context", "users", "speed") else ""

    @property
    def by_plans(self) -> tuple[Callable[[Arm], Bound], ...]:
        """What lowers a bound, the cheapest first."""
        rows: dict[str, tuple[Callable[[Arm], Bound], ...]] = {
            "context": (lambda arm: {"context": users_step(self.most_context(_most_frugal(arm)))},),
            "users": (
                lambda arm: {"users": users_step(self.most_requests(arm))},
                lambda arm: {"users": users_step(self.most_users(_most_frugal(arm)))},
            ),
            "speed": (self._speed,),
        }
        return rows.get(self.aim, ())

    def _speed(self, arm: Arm) -> Bound:
        rate = self.speed_at(_same_speed(arm))
        return {"speed": speed_step(rate)} if rate is not None else {}

    def by_size(self, arm: Arm, context: int) -> Bound:
        """`context`: the shortest that the users may get."""
        model = self.spaces.models[arm.model]
        if self.aim == "speed":
            bandwidth = max(gpu.bandwidth for gpu in self.spaces.gpus) * arm.layout.tp
            active = self._active(arm.model) // (2 if arm.online else 1)
            rate = (1 + arm.drafts) * bandwidth / active if active and bandwidth else 0.0
            return {"speed": speed_step(rate)} if rate else {}
        tokens = self._most_tokens(arm)
        if tokens is None or self.aim not in ("context", "users"):
            return {}
        if self.aim == "context":
            return {"context": users_step(min(model.max_position, tokens // self.users))}
        return {"users": users_step(tokens // context)}

    def may_hold(self, arm: Arm, context: int) -> bool:
        """Whether the memory beside the weights could hold so much for the users, whatever else it takes."""
        tokens = self._most_tokens(arm)
        return tokens is None or tokens >= context * self.users

    def _most_tokens(self, arm: Arm) -> int | None:
        """Of a cache in 8 bits, or of its own; None: nobody knows."""
        token, quantization = self._token(arm.model), self.spaces.models[arm.model].quantization
        if arm.offload_gib or not token:
            return None
        room = sum(gpu.total_bytes for gpu in self.spaces.gpus[: arm.layout.gpus])
        room -= self._weights(arm.model) // (2 if arm.online else 1)
        own = quantization is not None and quantization.kv_cache
        return (4 if own else 2) * max(room, 0) // token  # 16 bits each


def _same_speed(arm: Arm) -> Arm:
    """One of the arms that decode as fast."""
    return Arm(
        arm.model, layout=arm.layout, kv_dtype=arm.kv_dtype, eager=arm.eager, few_graphs=arm.few_graphs,
        drafts=arm.drafts, offload_gib=arm.offload_gib, online=arm.online, unlimited=True,
    )  # fmt: skip


def _most_frugal(arm: Arm) -> Arm:
    """The arm of the same checkpoint, layout, bits and images that takes the least."""
    return Arm(
        arm.model, layout=arm.layout, kv_dtype=arm.kv_dtype, eager=True, text_only=arm.text_only,
        prefix_off=arm.prefix_off, tokens=2048, offload_gib=arm.offload_gib, online=arm.online, empty=arm.empty,
        unlimited=arm.unlimited,
    )  # fmt: skip


def _same_limit(arm: Arm) -> Arm:
    """One of the arms that let as many requests run at once."""
    return replace(_most_frugal(arm), text_only=False, prefix_off=False, empty=False)


def _active_bytes(model: Model) -> int:
    """What one token reads of the layers at the least."""
    experts = next((m for layer in model.layers for m in layer.block.modules if isinstance(m, Experts)), None)
    share = min(1.0, experts.top_k / experts.count) if experts is not None else 1.0
    return sum(
        round(stored.nbytes * (share if stored.role == "experts" else 1.0))
        for stored in model.stored
        if stored.role not in ("multimodal", "other", "embed")
    )
