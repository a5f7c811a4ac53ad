"""A plan -> what the scheduler works with, and how long its steps take."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.kv import KvPlan, kv
from oomph.engines.vllm.kv_groups import Group as KvGroup
from oomph.engines.vllm.kv_specs import max_blocks
from oomph.engines.vllm.reading import as_read
from oomph.engines.vllm.resolve import Resolved, resolve
from oomph.errors import CannotPlan, OomphError
from oomph.facts.gpus import GpuRow, find
from oomph.facts.vllm.facts import at
from oomph.ir.deployment import Deployment
from oomph.ir.model import Attention, Experts, Linear, Model
from oomph.ir.plan import Plan
from oomph.simulate.config import Config, Group
from oomph.simulate.timing import MILLISECOND, RECURRENT, SECOND, StepTime, unit
from oomph.units import cdiv

UNSURE, WORST, POSTS = 1.3, 1.9, 19  # posted speeds (tools/accuracy_speed.py): nine of ten, and all, within a factor


class Factors(Struct, frozen=True):
    """How much of a card's peak a step reaches, and what it costs besides. Typical of published roofline studies of
    decoding (70-85 % of bandwidth) and of prefill (40-60 % of FLOP/s), fitted to nothing; --measured replaces them."""

    bandwidth: float = 0.75
    compute: float = 0.5
    link: float = 0.6
    overhead_ms: float = 1.5  # a step outside its kernels: scheduling, sampling, launches
    eager_layer_ms: float = 0.16  # more for each layer without CUDA graphs: about 11 calls of 15 us from Python
    reduce_us: float = 12.0  # latency of one all-reduce
    scale: float = 1.0  # by which --measured corrected all of it


class Built(Struct, frozen=True):
    config: Config
    time: StepTime
    resolved: Resolved
    cache: KvPlan
    notes: tuple[str, ...] = ()


def build(
    deployment: Deployment, model: Model, plan: Plan, factors: Factors, *, accepted: float = 0.6, timed: bool = True
) -> Built:
    """`accepted`: the share of drafted tokens that the model keeps."""
    if not plan.fits:
        text = plan.verdict.message.split("\n")[0]
        raise OomphError(f"it does not start, so it serves nobody: {text or plan.verdict.stage}", hint="oomph plan")
    model = as_read(model, at(deployment.engine.version), deployment.gpus[0].sm)
    resolved = resolve(model, deployment)
    cache = kv(resolved, _stage_bytes(plan, resolved))
    if cache.context is None or not cache.groups:
        raise CannotPlan(f"{model.name} has no KV cache to simulate")
    groups, sources = _groups(cache)
    config = _config(deployment, resolved, cache, groups, accepted)
    time = _time(deployment, model, plan, resolved, groups, sources, factors) if timed else unit(len(groups))
    return Built(config, time, resolved, cache, tuple(_notes(config, resolved, cache, accepted)))


def _stage_bytes(plan: Plan, resolved: Resolved) -> list[int]:
    tp = resolved.tensor_parallel_size
    bytes_ = [r.terms["available_kv"].bytes for r in plan.ranks]
    return [min(bytes_[s * tp : (s + 1) * tp]) for s in range(resolved.pipeline_parallel_size)]


def _groups(cache: KvPlan) -> tuple[tuple[Group, ...], list[list[KvGroup]]]:
    """Equal groups once, with the cache groups that each stands for."""
    assert cache.context is not None
    found: dict[Group, list[KvGroup]] = {}
    for source in cache.context.grouping.groups:
        found.setdefault(_group(source, cache), []).append(source)
    return tuple(replace(g, count=len(s)) for g, s in found.items()), list(found.values())


def _group(source: KvGroup, cache: KvPlan) -> Group:
    assert cache.context is not None
    spec, request = source.spec, cache.context.request
    size = spec.block_size
    if spec.is_full:
        return Group("full", size * request.cp)
    cap = max_blocks(spec, request, cache.context.rules)
    if spec.is_sliding:
        return Group("window", size, spec.window, cap)
    if spec.kind == "chunked_local":
        return Group("chunk", size, spec.chunk, cap)
    if spec.kind == "cross":
        return Group("state", size, first=cdiv(request.encoder_tokens, size))
    if request.mamba_mode == "none":
        return Group("state", size, first=1 + spec.speculative_blocks)
    # mamba_mixer2.py:1107 and kda_checkpoint.py:16 (0.32.0): where inside a chunk the kernel can write a state
    checkpoint = 0
    if spec.checkpoint_blocks and request.mamba_mode == "align":
        checkpoint = 1 if spec.role == "mamba2" else 16
    return Group(request.mamba_mode, size, drafts=spec.speculative_blocks, checkpoint=checkpoint)


def _config(
    deployment: Deployment, resolved: Resolved, cache: KvPlan, groups: tuple[Group, ...], accepted: float
) -> Config:
    row = resolved.facts.scheduler
    flags = deployment.flags
    drafts = resolved.num_speculative_tokens
    own_cache = resolved.speculative_method not in ("ngram", "ngram_gpu", "suffix", "medusa", "mlp_speculator")
    watermark = float(flags.get("watermark") or 0.0) if row.watermark else 0.0
    active = flags.get("max_num_active_seqs")
    gate = row.gate if resolved.reserve_full_isl or row.gate == "chunk" else "chunk"
    slots = 1 if resolved.speculative_method == "draft_model" else 0  # max_num_new_slots_for_drafting
    budget = int(flags.get("max_num_scheduled_tokens") or 0)
    if not budget and row.draft_slots == "seqs":
        budget = max(1, resolved.max_num_batched_tokens - slots * resolved.max_num_seqs)
    return Config(
        groups=groups,
        num_blocks=cache.num_blocks,
        max_num_seqs=active if isinstance(active, int) else resolved.max_num_seqs,
        max_num_batched_tokens=resolved.max_num_batched_tokens,
        max_model_len=cache.max_model_len,
        gate=gate,
        watermark_blocks=int(watermark * cache.num_blocks),
        lag=1 if resolved.async_scheduling else 0,
        known_end=row.known_end,
        settled=row.settled,
        stale_waits=row.stale_waits,
        max_scheduled=0 if budget == resolved.max_num_batched_tokens else budget,
        spec_tokens=drafts,
        lookahead=drafts if own_cache else 0,
        lookahead_first=row.lookahead_first,
        draft_slots=slots if row.draft_slots == "step" else 0,
        drafts_stay=row.drafts_stay,
        pad_drafts=row.pad_drafts,
        accepted=round(1000 * drafts * accepted),
        prefix_caching=resolved.enable_prefix_caching,
        drop_last_hit=bool(drafts and own_cache and resolved.speculative_method != "draft_model"),
        eagle=row.eagle,
        kept=row.kept,
        replays=row.replays,
        split=row.split,
        align_frees=row.align_frees,
        same_step_waits=row.same_step_waits,
        uncached_first=row.uncached_first,
        victim_by_place=row.victim_by_place,
        policy="priority" if flags.get("scheduling_policy") == "priority" else "fcfs",
        alone_unthrottled=row.alone_unthrottled,
        long_prefill_threshold=int(flags.get("long_prefill_token_threshold") or 0),
    )


def _notes(config: Config, resolved: Resolved, cache: KvPlan, accepted: float) -> list[str]:
    notes = []
    if resolved.pipeline_parallel_size > 1:
        notes.append("pipeline stages are taken one after the other: batches in flight do not overlap")
    if resolved.data_parallel_size > 1:
        notes.append("one data-parallel replica is simulated")
    if config.spec_tokens:
        notes.append(f"{accepted:.0%} of the drafted tokens are taken to be accepted (--accepted)")
    return notes


# --- time ---------------------------------------------------------------------------------------------------------


def _time(
    deployment: Deployment,
    model: Model,
    plan: Plan,
    resolved: Resolved,
    groups: tuple[Group, ...],
    sources: Sequence[Sequence[KvGroup]],
    f: Factors,
) -> StepTime:
    device = deployment.gpus[0]
    try:
        card = find(device.name)
    except OomphError:
        unknown = f"{device.name} is not a known GPU: its speed is not known"
        raise CannotPlan(unknown, hint="--steps counts steps instead of time") from None
    tp = resolved.tensor_parallel_size
    bandwidth = (device.bandwidth or card.bandwidth) * f.bandwidth
    ranks = [r for r in plan.ranks if r.rank % tp == 0]
    parts: dict[str, int] = {}
    for rank in ranks:
        for name, n in rank.terms["weights"].parts.items():
            parts[name] = parts.get(name, 0) + n
    experts = parts.get("experts", 0)
    idle = parts.get("multimodal", 0) + parts.get("buffers", 0) + (0 if model.tied else parts.get("embed", 0))
    weights = sum(r.terms["weights"].bytes for r in ranks) - experts - idle
    routed = next((m for layer in model.layers for m in layer.block.modules if isinstance(m, Experts)), None)
    layers = len(model.layers)
    overhead = f.overhead_ms + (f.eager_layer_ms * layers if resolved.enforce_eager else 0)
    reduces = 2 * layers if tp > 1 else 0
    linear = sum(flops / rate for flops, rate in _flops(model, card)) / (tp * f.compute)
    moved = reduces * 2 * (tp - 1) / tp * model.hidden_size * 2  # bytes of a token in all-reduces
    linear += moved / (_link(card) / 2 * f.link)
    kv = []
    for group, origin in zip(groups, sources, strict=True):
        tokens = 1 if group.kind in RECURRENT else group.block_size
        kv.append(sum(s.pages() for s in origin) / tokens / bandwidth)
    peak = card.fp16_flops * f.compute
    return StepTime(
        base=round((overhead * MILLISECOND + reduces * f.reduce_us * MILLISECOND / 1000) * f.scale),
        weights=_ticks(max(0, weights) / bandwidth, f),
        experts=_ticks(experts / bandwidth, f),
        num_experts=routed.count if routed is not None and experts else 0,
        top_k=min(routed.top_k, routed.count) if routed is not None and experts else 0,
        linear=_ticks(linear, f),
        kv=tuple(_ticks(s, f) for s in kv),
        attention=tuple(_ticks(x / tp / peak, f) for x in _pair_flops(model, groups)),
    )


def _ticks(seconds: float, f: Factors) -> int:
    return round(seconds * f.scale * SECOND)


def _flops(model: Model, card: GpuRow) -> list[tuple[float, float]]:
    """(FLOPs of one token, peak rate) of every layer's products; the output head works on sampled tokens only."""
    out = []
    for layer in model.layers:
        for m in layer.block.modules:
            if isinstance(m, Linear) and not m.alias:
                out.append((2.0 * m.in_features * sum(p.out_features for p in m.parts if p.created), _rate(m, card)))
            elif isinstance(m, Experts):
                matrices = 3 if m.gated else 2
                out.append((2.0 * matrices * m.hidden * m.intermediate * min(m.top_k, m.count), _rate(m, card)))
    return out


def _rate(module: Linear | Experts, card: GpuRow) -> float:
    """Weights alone in few bits are multiplied in 16; activations in 8 or 4 bits use the faster units."""
    scheme = module.scheme
    bits = 16 if scheme is None or scheme.activation == "none" else min(scheme.input_bits, 16)
    if bits <= 4 and card.fp4_flops:
        return float(card.fp4_flops)
    if bits <= 8 and card.fp8_flops:
        return float(card.fp8_flops)
    return float(card.fp16_flops)


def _pair_flops(model: Model, groups: tuple[Group, ...]) -> list[float]:
    """FLOPs of one query on one cached token over all layers, given to the first group of their kind."""
    kinds = {"sliding_window": "window", "chunked_local": "chunk"}
    out = [0.0] * len(groups)
    for layer in model.layers:
        for mixer in layer.mixers:
            if not isinstance(mixer, Attention) or mixer.kind in ("cross", "encoder_only"):
                continue
            width = mixer.head_dim + mixer.head_dim_v
            if mixer.kind == "mla":
                width = 2 * mixer.kv_lora_rank + mixer.qk_rope_head_dim
            wanted = kinds.get(mixer.kind, "full")
            span = mixer.window if wanted == "window" else mixer.chunk if wanted == "chunk" else 0
            same = [i for i, g in enumerate(groups) if g.kind == wanted and g.span == span]
            at = same or [i for i, g in enumerate(groups) if g.kind not in RECURRENT]
            if at:
                out[at[0]] += 2.0 * mixer.num_heads * width
    return out


def _link(card: GpuRow) -> float:
    """Bytes per second between two cards, both directions."""
    if found := re.search(r"(\d{1,9})\s{0,4}GB/s", card.link):
        return float(found[1]) * 1e9
    if found := re.search(r"PCIe (\d)", card.link):
        return 2 * 2.0 ** (int(found[1]) + 1) * 1e9  # x16: 16 GB/s a direction for 3.0, 32 for 4.0, 64 for 5.0
    return 400e9
