"""Tokens per second of a plan, from the same step times as `oomph simulate`, for commands that compare many plans.

A reference request has a prompt of 2,048 tokens. One user: it decodes alone. All users: as many decode in one batch,
each behind such a prompt. The first token comes after the prompt's chunks. What a queue adds, only a simulation says.
"""

from collections.abc import Iterable, Sequence
from math import ceil

from msgspec import Struct

from oomph.engines.common.offload import OnHost, host_memory, kept_in_host
from oomph.errors import OomphError
from oomph.facts.gpus import GpuRow, find
from oomph.ir import Device, Experts, Layer, Linear, Model, Plan, State
from oomph.simulate.accuracy import SpeedError
from oomph.simulate.config import Group
from oomph.simulate.links import LARGE, all_reduce
from oomph.simulate.step_costs import Factors, layer_kernels, shares_of
from oomph.simulate.timing import SECOND, StepTime

PROMPT = 2048


class Timing(Struct, frozen=True):
    """How long the steps of one deployment take."""

    time: StepTime
    groups: tuple[Group, ...]
    chunk: int  # tokens of a prefill step at most
    error: SpeedError  # how far such times were from published ones
    per_step: float = 1.0  # tokens of one request in a step: more than one with drafts
    graph_batch: int = 0  # requests beyond which a step has no CUDA graph; 0 = it always has one, or never
    launches: int = 0  # ticks of such a step more


class Speed(Struct, frozen=True):
    one_user: float  # tokens per second that one user sees
    all_users: float  # tokens per second of all users together
    users: int
    first_token_seconds: float  # for a prompt of `prompt` tokens, with nobody else there
    prompt: int
    factor: float  # nine of ten published speeds were within this factor of such a figure
    published: int  # how many published speeds that is from; 0 = taken over from another engine
    error: SpeedError | None = None  # how far such figures were from published ones


def speed_of(timing: Timing, users: int, prompt: int = PROMPT) -> Speed:
    alone = timing.time.fixed(1, 1) + timing.time.chunk(timing.groups, prompt, 1)
    batch = timing.time.fixed(users, users) + users * timing.time.chunk(timing.groups, prompt, 1)
    batch += timing.launches if 0 < timing.graph_batch < users else 0
    return Speed(
        one_user=timing.per_step * SECOND / alone,
        all_users=users * timing.per_step * SECOND / batch,
        users=users,
        first_token_seconds=_first_token(timing, prompt) / SECOND,
        prompt=prompt,
        factor=timing.error.nine_of_ten,
        published=timing.error.numbers,
        error=timing.error,
    )


def _first_token(timing: Timing, prompt: int) -> int:
    time, ticks, done = timing.time, 0, 0
    for _ in range(ceil(prompt / timing.chunk)):
        new = min(timing.chunk, prompt - done)
        ticks += time.fixed(new, 1) + time.chunk(timing.groups, done, new)
        done += new
    return ticks + time.request + time.prompt_token * prompt + time.response


def worst_error(speeds: Sequence[Speed]) -> str:
    """How far such figures were from published ones, in words: of the kind among them that is least certain."""
    errors = [speed.error for speed in speeds if speed.error is not None]
    return max(errors, key=lambda error: error.nine_of_ten).sentence() if errors else ""


# Step times of an engine whose scheduler is not simulated: from the plan's weights and the model's caches alone.


class PlainFactors(Struct, frozen=True):
    """How much of a card's peak one engine reaches, and what a step costs besides. A share of 0 is vLLM's on that
    card (step_costs.py)."""

    overhead_ms: float
    bandwidth: float = 0.0
    expert_bandwidth: float = 0.0  # the same of routed experts, whose matrices are small
    compute: float = 0.0  # of the dense FP16 peak; above 1 where the kernels multiply in 8 bits
    experts: float = 0.0
    attention: float = 0.0
    # What kernels that are the same on every card do at most, in one SM and clock; 0 = no limit is known
    tile_flops: int = 0  # of large products
    vector_weights: float = 0.0  # quantised weights times the tokens of a small batch
    kernel_us: float = 2.5
    kernel_clocks: int = 0  # instead, where the card's clock is known
    sequence_us: float = 20.0
    request_ms: float = 3.5
    response_ms: float = 8.0
    tokenizer_rate: float = 500_000.0

    def kernel(self, card: GpuRow) -> float:
        """Seconds of a kernel of a captured graph, beyond what it reads."""
        return self.kernel_clocks / card.clock if self.kernel_clocks and card.clock else self.kernel_us / 1e6


# FLOP/s of 16-bit products for each byte per second of bandwidth: M1 Max 10.4 T beside 400 GB/s, M4 Pro 9.2 T beside
# 273, M2 Ultra 27.2 T beside 800 (Apple's core counts and clocks).
APPLE_INTENSITY = 30


def card_of(device: Device) -> GpuRow | None:
    try:
        return find(device.name)
    except OomphError:
        return _apple(device) if device.vendor == "apple" and device.bandwidth else None


def _apple(device: Device) -> GpuRow:
    """A chip of Apple's, whose bandwidth is known: a row of its own."""
    return GpuRow(
        device.name,
        driver_name=device.driver_name,
        nominal_gb=0,
        smi_bytes=0,
        total_bytes=device.total_bytes,
        basis="assumed",
        source="",
        capability=device.capability,
        bandwidth=device.bandwidth,
        sm_count=device.sm_count,
        fp16_flops=APPLE_INTENSITY * device.bandwidth,
        fp8_flops=0,
        fp4_flops=0,
        link="SoC",
        unified=True,
        vendor="apple",
        also="",
    )


class _Pace(Struct, frozen=True):
    """Of all GPUs that hold weights: the slowest of them, and what one after the other they reach together."""

    device: Device
    card: GpuRow
    bandwidth: float  # of what is reached
    flops: float  # of the dense FP16 peak, and no more than the tiles do
    weights: float = 0.0  # that small batches multiply in a second; 0 = as many as are read


def slowest(devices: Sequence[Device]) -> Device:
    """GPUs that share every layer wait for the one that reads slowest; of an unknown one nobody knows."""
    if len({device.name for device in devices}) == 1:
        return devices[0]
    return min(devices, key=lambda device: device.bandwidth or (row.bandwidth if (row := card_of(device)) else 0))


def _pace(plan: Plan, factors: PlainFactors, parallel: int) -> _Pace | None:
    gpus, weights = plan.deployment.gpus, dict[Device, int]()
    for first in range(0, len(plan.ranks), parallel):
        group = [gpus[rank.rank] for rank in plan.ranks[first : first + parallel] if rank.rank < len(gpus)]
        size = plan.ranks[first].terms["weights"].bytes
        if group and size:
            device = slowest(group)
            weights[device] = weights.get(device, 0) + size
    cards = {device: card_of(device) for device in weights or gpus[:1]}
    rates: dict[Device, tuple[float, float, float]] = {}
    for device, card in cards.items():
        if card is None or not card.fp16_flops:
            return None
        share = factors.bandwidth or shares_of(card).bandwidth
        clocks = float(card.clock * card.sm_count)
        flops = min(float(card.fp16_flops), factors.tile_flops * clocks or float(card.fp16_flops))
        rates[device] = (device.bandwidth or card.bandwidth) * share, flops, factors.vector_weights * clocks
    if not plan.ranks or not rates or not all(all(rate[:2]) for rate in rates.values()):
        return None
    device = slowest(tuple(rates))
    card = cards[device]
    assert card is not None
    if len(rates) == 1:
        return _Pace(device, card, *rates[device])
    total = sum(weights.values())
    limits = range(3) if all(rate[2] for rate in rates.values()) else range(2)
    together = [total / sum(weights[d] / rates[d][which] for d in rates) for which in limits]
    return _Pace(device, card, *together)


def plain_timing(
    plan: Plan, model: Model, factors: PlainFactors, error: SpeedError, *, parallel: int = 1, chunk: int = 512,
    kv_bytes: float = 2.0, on_cpu: OnHost | None = None, copies_experts: bool = False, eager: bool = False,
) -> Timing | None:  # fmt: skip
    """`parallel`: GPUs that share every layer; the others hold layers of their own and work one after the other.
    `on_cpu`: weights that the CPU multiplies; `copies_experts`: of experts in host memory all cross the link; `eager`:
    without CUDA graphs, as vLLM launches its kernels then.
    None: nobody knows how fast the card is."""
    pace = _pace(plan, factors, parallel)
    if pace is None:
        return None
    device, card, bandwidth = pace.device, pace.card, pace.bandwidth
    shares = shares_of(card)
    share = factors.bandwidth or shares.bandwidth
    compute, attention = factors.compute or shares.linear, factors.attention or shares.attention
    read, host = _weights(plan, parallel), host_memory(plan.deployment, device, card)
    far, reach = (kept_in_host(plan, parallel), host.link) if on_cpu is None else (on_cpu, host.cpu)
    copied = far.experts / reach if copies_experts else 0.0
    touched = 0.0 if copies_experts else far.experts / reach
    expert_share = share / (factors.expert_bandwidth or share)
    active, routed, experts = _parameters(model)
    flops = pace.flops * parallel
    all_routed = routed * experts[0] / experts[1] if experts else 0.0
    head = model.hidden_size * model.vocab_size

    def ticks(seconds: float) -> int:
        return round(seconds * SECOND)

    def reading(size: float, weights: float, elsewhere: float = 0.0, factor: float = 1.0) -> float:
        """Seconds for `size` bytes of so many weights in a small batch; other bytes of them lie elsewhere."""
        here = weights / parallel * size / (size + elsewhere) if size else 0.0
        return max(size / bandwidth * factor, here / pace.weights if pace.weights else 0.0)

    groups = _groups(model.layers, kv_bytes / parallel)
    reduces, reduce = 2 * len(model.layers), all_reduce(card, parallel)
    kernel = Factors().launch_us / 1e6 if eager else factors.kernel(card)
    kernels = kernel * sum(layer_kernels(layer, card) for layer in model.layers)
    return Timing(
        StepTime(
            base=ticks(factors.overhead_ms / 1e3 + kernels + reduces * reduce.call),
            sequence=ticks(factors.sequence_us / 1e6),
            reduce=ticks(reduces * 2 * model.hidden_size * reduce.byte),
            reduce_large=ticks(reduces * 2 * model.hidden_size * reduce.large_byte),
            large=LARGE // (2 * model.hidden_size),
            weights=ticks(reading(read["linear"], active, far.linear) + far.linear / reach + copied),
            linear=ticks(2.0 * active / (flops * compute)),
            head=ticks(reading(read["head"], head)),
            head_linear=ticks(2.0 * head / (flops * compute)),
            experts=ticks(reading(read["experts"], all_routed, far.experts, expert_share) + touched) if experts else 0,
            expert_linear=ticks(2.0 * routed / (flops * (factors.experts or shares.experts))),
            num_experts=experts[0] if experts else 0,
            top_k=experts[1] if experts else 0,
            kv=tuple(ticks(size / bandwidth) for _, size, _ in groups),
            attention=tuple(ticks(pair / (flops * attention)) for _, _, pair in groups),
            request=ticks(factors.request_ms / 1e3),
            prompt_token=ticks(1 / factors.tokenizer_rate),
            response=ticks(factors.response_ms / 1e3),
        ),
        tuple(group for group, _, _ in groups),
        chunk,
        error,
    )


def _weights(plan: Plan, parallel: int) -> dict[str, float]:
    """Bytes that a step reads of GPU memory, of the ranks that work one after the other."""
    parts: dict[str, int] = {}
    total = 0
    for rank in plan.ranks[::parallel]:
        total += rank.terms["weights"].bytes
        for name, size in rank.terms["weights"].parts.items():
            parts[name] = parts.get(name, 0) + size
    head = parts.get("lm_head", 0)
    idle = parts.get("multimodal", 0) + parts.get("buffers", 0) + parts.get("projector", 0) + parts.get("embed", 0)
    experts = parts.get("experts", 0)
    if not head:  # a tied output head is the embedding
        head, idle = parts.get("embed", 0), idle - parts.get("embed", 0)
    on_host = kept_in_host(plan, parallel)  # the total is without it, the parts are not
    linear = max(0.0, total + on_host.experts - experts - idle - head)
    return {"linear": linear, "head": float(head), "experts": experts - on_host.experts}


def _parameters(model: Model) -> tuple[float, float, tuple[int, int] | None]:
    """(of the linear layers, of a token's experts, (experts, chosen))."""
    linear = routed = 0.0
    experts = None
    for layer in model.layers:
        for module in layer.block.modules:
            if isinstance(module, Linear) and not module.alias:
                linear += module.in_features * sum(p.out_features for p in module.parts if p.created)
            elif isinstance(module, Experts):
                routed += (
                    min(module.top_k, module.count) * module.hidden * module.intermediate * (3 if module.gated else 2)
                )
                experts = (module.count, min(module.top_k, module.count))
    return linear, routed, experts


def _groups(layers: Iterable[Layer], element: float) -> list[tuple[Group, float, float]]:
    """(group, bytes of one cached token, FLOPs of one query on it) for each kind of cache."""
    sizes: dict[tuple[str, int], list[float]] = {}
    for layer in layers:
        for mixer in layer.mixers:
            if isinstance(mixer, State):
                width = mixer.num_heads * mixer.head_dim * max(mixer.state_size, mixer.key_dim, 1)
                row = sizes.setdefault(("state", 0), [0.0, 0.0])
                row[0] += 4.0 * (width or mixer.intermediate * max(mixer.state_size, 1)) * element / 2
                continue
            if mixer.kind in ("cross", "encoder_only") or mixer.shares_cache_of is not None:
                continue
            span = mixer.window or mixer.chunk
            row = sizes.setdefault(("window" if span else "full", span), [0.0, 0.0])
            if mixer.kind == "mla":
                row[0] += element * (mixer.kv_lora_rank + mixer.qk_rope_head_dim)
                width = mixer.qk_nope_head_dim + mixer.qk_rope_head_dim + mixer.head_dim_v
            else:
                row[0] += element * mixer.num_kv_heads * (mixer.head_dim + mixer.head_dim_v)
                width = mixer.head_dim + mixer.head_dim_v
            row[1] += 2.0 * mixer.num_heads * width
    out = []
    for (kind, span), (size, pair) in sizes.items():
        group = Group("state", 1, first=1) if kind == "state" else Group("window" if span else "full", 1, span)
        out.append((group, size, pair))
    return out
