"""How long one step takes, as a sum of parts in integers, so that a thousand equal steps can be summed in one product.

    step = base + sequences + linear layers + experts + output head + what each token moves + attention

Each part with weights takes the longer of reading them and multiplying with them; a request's attention takes the
longer of reading its cache and multiplying with it. A tick is a femtosecond. The factors come from step_costs.py;
`unit` counts steps instead of time.
"""

from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from oomph.simulate.config import Group

SECOND = 10**15
MILLISECOND = 10**12
RECURRENT = ("state", "align", "all")  # read once a step, whatever came before


class StepTime(Struct, frozen=True):
    """In ticks. `kv` and `attention` have one entry for each group of the config, which counts all equal groups."""

    base: int  # every step: launches, the scheduler, the fixed cost of its kernels
    sequence: int = 0  # for each request in the batch: its inputs, its sample, its answer
    token: int = 0  # for each token: activations that are read and written
    reduce: int = 0  # for each token: all-reduces between GPUs, while their messages are small
    reduce_large: int = 0  # ... for each token after `large` of them
    large: int = 0
    weights: int = 0  # reading the linear layers
    linear: int = 0  # multiplying them with one token
    head: int = 0  # reading the output head
    head_linear: int = 0  # multiplying it with one request's last token
    experts: int = 0  # reading all routed experts
    expert_linear: int = 0  # multiplying a token's experts with it
    num_experts: int = 0
    top_k: int = 0
    kv: tuple[int, ...] = ()  # reading one token's cache
    attention: tuple[int, ...] = ()  # one query on one cached token
    output: int = 0  # the server, for each token that it streams: a step takes no less for all of its requests
    request: int = 0  # the server, before the engine sees a request: one after the other
    prompt_token: int = 0  # ... and for each token of its prompt (the tokenizer)
    stream: int = 0  # ... and for each request that is being answered: the server streams its tokens meanwhile
    response: int = 0  # the server, before the user sees a token

    def fixed(self, tokens: int, sequences: int) -> int:
        """Ticks of a step of `tokens` of so many requests, attention aside."""
        ticks = self.base + self.sequence * sequences + self.token * tokens
        ticks += self.reduce * min(tokens, self.large) + self.reduce_large * max(0, tokens - self.large)
        ticks += max(self.weights, self.linear * tokens) + max(self.head, self.head_linear * sequences)
        if self.experts:
            reading = self.experts * touched_share(self.num_experts, self.top_k, tokens) // 10**6
            ticks += max(reading, self.expert_linear * tokens)
        return max(ticks, self.output * sequences)

    def chunk(self, groups: tuple[Group, ...], computed: int, new: int) -> int:
        """Attention of one request's `new` tokens behind `computed` ones."""
        ticks = 0
        for i, group in enumerate(groups):
            reading = self.kv[i] * tokens_read(group, computed, new)
            ticks += max(reading, self.attention[i] * query_pairs(group, computed, new))
        return ticks

    def decoding(self) -> tuple[int, ...]:
        """Ticks of one cached token that a decode reads and multiplies, for each group."""
        return tuple(map(max, self.kv, self.attention))

    def scaled(self, factor: float) -> "StepTime":
        def by(ticks: int) -> int:
            return round(ticks * factor)

        counts = ("large", "num_experts", "top_k")
        parts = {name: getattr(self, name) for name in self.__struct_fields__ if name not in counts}
        return replace(
            self,
            **{name: tuple(map(by, part)) if isinstance(part, tuple) else by(part) for name, part in parts.items()},
        )


def unit(groups: int) -> StepTime:
    """Every step takes one millisecond: results are then in steps."""
    return StepTime(MILLISECOND, kv=(0,) * groups, attention=(0,) * groups)


@lru_cache(maxsize=65536)
def touched_share(experts: int, top_k: int, tokens: int) -> int:
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


def decode_series(time: StepTime, groups: tuple[Group, ...], tokens: int, count: int) -> int:
    """Attention of one request's next `count` decodes, the first of which has tokens + 1 in its cache."""
    ticks = 0
    for group, rate in zip(groups, time.decoding()):
        if group.kind in RECURRENT:
            ticks += rate * count
            continue
        growing = count if group.kind == "full" else max(0, min(count, group.span - tokens))
        ticks += rate * (growing * tokens + growing * (growing + 1) // 2 + (count - growing) * group.span)
    return ticks
