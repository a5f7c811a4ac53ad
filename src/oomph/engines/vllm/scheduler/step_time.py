"""What a plan's steps cost: bytes over bandwidth, FLOPs over peak, and what neither of them says.

Each part has a reason:

- linear layers and the output head read their weights once a step and multiply them with every token;
- experts read those that the batch touches, and multiply in small grouped products, which reach less of the peak;
- activations go through memory between kernels: a token's experts each read and write it, however narrow they are;
- two all-reduces for each layer move every token over the link between the GPUs;
- a kernel in a CUDA graph takes a few microseconds however small it is, and a layer has a dozen to forty of them;
- the scheduler, the sampler and the server work for each request in the batch;
- a request passes through the HTTP server and the tokenizer before the engine sees it.
"""

from collections.abc import Sequence

from oomph.engines.common.offload import host_memory, kept_in_host
from oomph.engines.vllm.kv.groups import Group as KvGroup
from oomph.engines.vllm.resolve.steps import Resolved
from oomph.errors import CannotPlan, OomphError
from oomph.facts.gpus import GpuRow, find
from oomph.ir import Attention, Deployment, Device, Experts, Linear, Model, Plan
from oomph.simulate.config import Group
from oomph.simulate.links import LARGE, all_reduce
from oomph.simulate.speed import slowest
from oomph.simulate.step_costs import Factors, input_bits, layer_kernels
from oomph.simulate.timing import RECURRENT, SECOND, StepTime

HALF_WIDTH = 128  # columns of an expert on one rank at which its products reach half of their share: one tile of them
DEQUANTISED = 0.8  # weights alone in few bits are unpacked before they are multiplied


def step_time(
    deployment: Deployment, model: Model, plan: Plan, resolved: Resolved, groups: tuple[Group, ...],
    sources: Sequence[Sequence[KvGroup]], factors: Factors,
) -> StepTime:  # fmt: skip
    device = slowest(deployment.gpus[: len(plan.ranks)] or deployment.gpus)
    card = _card(device)
    tp, shares = resolved.tensor_parallel_size, factors.shares(card)
    overhead = factors.overhead_ms - (min(factors.hidden_ms, factors.overhead_ms) if resolved.async_scheduling else 0.0)
    bandwidth = (device.bandwidth or card.bandwidth) * shares.bandwidth
    read = _weight_bytes(model, plan, tp)
    far, host = kept_in_host(plan, tp), host_memory(deployment, device, card)
    routed = next(
        (module for layer in model.layers for module in layer.block.modules if isinstance(module, Experts)), None
    )
    reduces = 2 * len(model.layers)
    count = deployment.flags.get("api_server_count")
    servers = count if isinstance(count, int) and count > 0 else 1
    reduce = all_reduce(card, tp, factors.link, factors.reduce_us)
    kv = []
    for group, origin in zip(groups, sources, strict=True):
        tokens = 1 if group.kind in RECURRENT else group.block_size
        kv.append(sum(s.pages() for s in origin) / tokens / bandwidth)

    def ticks(seconds: float) -> int:
        return round(seconds * factors.scale * SECOND)

    return StepTime(
        base=ticks(overhead / 1e3 + _kernels(model, card, resolved, factors) + reduces * reduce.call),
        sequence=ticks(factors.sequence_us / 1e6),
        token=ticks(_activation_bytes(model, tp, resolved) / bandwidth),
        reduce=ticks(reduces * 2 * model.hidden_size * reduce.byte),
        reduce_large=ticks(reduces * 2 * model.hidden_size * reduce.large_byte),
        large=LARGE // (2 * model.hidden_size),
        weights=ticks((read["linear"] - far.linear) / bandwidth + far.linear / host.link),
        linear=ticks(_linear_seconds(model, card) / tp / shares.linear),
        head=ticks(read["head"] / bandwidth),
        head_linear=ticks(2.0 * model.hidden_size * model.vocab_size / tp / (card.fp16_flops * shares.linear)),
        experts=ticks((read["experts"] - far.experts) / bandwidth + far.experts / host.link) if routed else 0,
        expert_linear=ticks(_expert_seconds(model, card, resolved) / tp / shares.experts),
        num_experts=routed.count if routed is not None and read["experts"] else 0,
        top_k=min(routed.top_k, routed.count) if routed is not None and read["experts"] else 0,
        kv=tuple(map(ticks, kv)),
        attention=tuple(ticks(x / tp / (card.fp16_flops * shares.attention)) for x in _pair_flops(model, groups)),
        request=ticks(factors.request_ms / 1e3),
        prompt_token=ticks(1 / factors.tokenizer_rate),
        output=ticks(factors.output_us / 1e6 / servers),
        stream=ticks(factors.stream_us / 1e6 / servers),
        response=ticks(factors.response_ms / 1e3),
    )


def _card(device: Device) -> GpuRow:
    try:
        return find(device.name)
    except OomphError:
        unknown = f"{device.name} is not a known GPU: its speed is not known"
        raise CannotPlan(unknown, hint="--steps counts steps instead of time") from None


def _weight_bytes(model: Model, plan: Plan, tp: int) -> dict[str, int]:
    """What a step reads on the first rank of every pipeline stage, wherever it lies: linear layers, output head, all
    routed experts."""
    ranks = [rank for rank in plan.ranks if rank.rank % tp == 0]
    parts: dict[str, int] = {}
    for rank in ranks:
        for name, size in rank.terms["weights"].parts.items():
            parts[name] = parts.get(name, 0) + size
    head = parts.get("embed", 0) if model.tied else parts.get("lm_head", 0)
    idle = parts.get("multimodal", 0) + parts.get("buffers", 0) + parts.get("embed", 0)
    experts = parts.get("experts", 0)
    total = sum(rank.terms["weights"].bytes for rank in ranks) - parts.get("kept in host memory", 0)
    linear = total - experts - idle - (0 if model.tied else head)
    return {"linear": max(0, linear), "head": head, "experts": experts}


def _linear_seconds(model: Model, card: GpuRow) -> float:
    """Seconds of one token's products with the linear layers at the peak rate of their dtype."""
    seconds = 0.0
    for layer in model.layers:
        for module in layer.block.modules:
            if isinstance(module, Linear) and not module.alias:
                width = sum(p.out_features for p in module.parts if p.created)
                seconds += 2.0 * module.in_features * width / _rate(module, card)
    return seconds


def _expert_seconds(model: Model, card: GpuRow, resolved: Resolved) -> float:
    """The same of its experts, as if they were wide: a narrow one takes longer for each of its columns."""
    seconds = 0.0
    ranks = 1 if resolved.enable_expert_parallel else resolved.tensor_parallel_size
    for layer in model.layers:
        for module in layer.block.modules:
            if isinstance(module, Experts):
                flops = (
                    2.0
                    * (3 if module.gated else 2)
                    * module.hidden
                    * module.intermediate
                    * min(module.top_k, module.count)
                )
                seconds += flops / _rate(module, card) * (1 + HALF_WIDTH * ranks / module.intermediate)
    return seconds


def _rate(module: Linear | Experts, card: GpuRow) -> float:
    """Weights alone in few bits are multiplied in 16; activations in 8 or 4 bits use the faster units."""
    scheme, bits = module.scheme, input_bits(module, card)
    if bits <= 4 and card.fp4_flops:
        return float(card.fp4_flops)
    if bits <= 8 and card.fp8_flops:
        return float(card.fp8_flops)
    return card.fp16_flops * (DEQUANTISED if scheme is not None and scheme.bits < 16 else 1.0)


def _activation_bytes(model: Model, tp: int, resolved: Resolved) -> float:
    """Bytes that one token's activations move through memory between kernels, on one rank, two bytes an element.

    Of a layer: two norms with their residuals read and write 4 x hidden each; every linear layer's input and output
    once; and each of a token's experts reads it, writes and reads gate, up and their product, and writes it back."""
    elements = 0.0
    for layer in model.layers:
        elements += 8 * model.hidden_size
        for module in layer.block.modules:
            if isinstance(module, Linear) and not module.alias:
                width = sum(p.out_features for p in module.parts if p.created)
                elements += (module.in_features + 2 * width) / (tp if module.shard != "replicated" else 1)
            elif isinstance(module, Experts):
                inner = module.intermediate / (1 if resolved.enable_expert_parallel else tp)
                share = 1 / tp if resolved.enable_expert_parallel else 1
                elements += share * min(module.top_k, module.count) * (3 * module.hidden + 5 * inner)
    return 2.0 * elements


def _kernels(model: Model, card: GpuRow, resolved: Resolved, factors: Factors) -> float:
    """Seconds of a step's kernels beyond what they read and multiply."""
    count = sum(layer_kernels(layer, card) for layer in model.layers)
    return count * (factors.launch_us if resolved.enforce_eager else factors.kernel_us) / 1e6


def _pair_flops(model: Model, groups: tuple[Group, ...]) -> list[float]:
    """FLOPs of one query on one cached token over all layers, added to the first group of their kind."""
    kinds = {"sliding_window": "window", "chunked_local": "chunk"}
    flops = [0.0] * len(groups)
    for layer in model.layers:
        for mixer in layer.mixers:
            if not isinstance(mixer, Attention) or mixer.kind in ("cross", "encoder_only"):
                continue
            width = mixer.head_dim + mixer.head_dim_v
            if mixer.kind == "mla":
                width = mixer.qk_nope_head_dim + mixer.qk_rope_head_dim + mixer.head_dim_v
            kind = kinds.get(mixer.kind, "full")
            span = mixer.window if kind == "window" else mixer.chunk if kind == "chunk" else 0
            same = [i for i, group in enumerate(groups) if group.kind == kind and group.span == span]
            at = same or [i for i, group in enumerate(groups) if group.kind not in RECURRENT]
            if at:
                flops[at[0]] += 2.0 * mixer.num_heads * width
    return flops
