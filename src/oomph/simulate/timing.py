"""How long one step takes: a roofline in integers, so that a thousand equal steps can be summed in one product.

    step = base + max(weights + KV read, linear FLOPs + attention FLOPs)

A tick is a femtosecond. Memory traffic and arithmetic overlap inside a step; what does not (launches, sampling, the
scheduler) is `base`. The factors come from build.py; `unit` counts steps instead of time.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from oomph.simulate.config import Group

SECOND = 10**15
MILLISECOND = 10**12
RECURRENT = ("state", "align", "all")  # read once a step, whatever came before


class StepTime(Struct, frozen=True):
    base: int  # ticks of every step
    weights: int = 0  # reading what every token uses
    experts: int = 0  # reading all routed experts
    num_experts: int = 0
    top_k: int = 0
    linear: int = 0  # a token's matrix products
    kv: tuple[int, ...] = ()  # reading one token's cache, for each group of the config (its count included)
    attention: tuple[int, ...] = ()  # one query on one cached token, likewise

    def fixed(self, tokens: int) -> tuple[int, int]:
        """(memory, compute) ticks of a step of `tokens`, attention aside."""
        memory = self.weights
        if self.experts:
            memory += self.experts * _touched(self.num_experts, self.top_k, tokens) // 10**6
        return memory, self.linear * tokens

    def scaled(self, factor: float) -> StepTime:
        def by(n: int) -> int:
            return round(n * factor)

        return StepTime(
            by(self.base), by(self.weights), by(self.experts), self.num_experts, self.top_k, by(self.linear),
            tuple(map(by, self.kv)), tuple(map(by, self.attention)),
        )  # fmt: skip

    def step(self, tokens: int, read: list[int], pairs: list[int]) -> int:
        memory, compute = self.fixed(tokens)
        for i, n in enumerate(read):
            memory += self.kv[i] * n
            compute += self.attention[i] * pairs[i]
        return self.base + max(memory, compute)


def unit(groups: int) -> StepTime:
    """Every step takes one millisecond: results are then in steps."""
    return StepTime(MILLISECOND, kv=(0,) * groups, attention=(0,) * groups)


@lru_cache(maxsize=65536)
def _touched(experts: int, top_k: int, tokens: int) -> int:
    """Millionths of the experts that a batch reads, if routing is even: 1 - (1 - k/E)^tokens."""
    return round(10**6 * (1 - (1 - top_k / experts) ** tokens))


def tokens_read(group: Group, computed: int, new: int) -> int:
    if group.kind in RECURRENT:
        return 1
    total = computed + new
    return total if group.kind == "full" else min(total, group.span + new - 1)


def query_pairs(group: Group, computed: int, new: int) -> int:
    if group.kind in RECURRENT:
        return new
    middle = computed + (new + 1) // 2
    return new * (middle if group.kind == "full" else min(middle, group.span))
