"""Model and deployment -> Plan, for vLLM: resolve, weigh, profile, size the KV cache, walk the stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.activation import Batch, activation
from oomph.engines.vllm.graphs import count_graphs, estimate
from oomph.engines.vllm.kv import KvPlan, kv
from oomph.engines.vllm.loaded import WeightsPlan, passes, weights_terms
from oomph.engines.vllm.resolve import Resolved, resolve
from oomph.engines.vllm.settings import build_for, text_only
from oomph.engines.vllm.shard import stage_layers
from oomph.engines.vllm.timeline import RankInput, Terms, available_kv, requested, stages, verdict
from oomph.engines.vllm.weights import Build
from oomph.facts.dtypes import TORCH, nbytes
from oomph.facts.vllm import activation as facts
from oomph.facts.vllm.texts import TEXTS
from oomph.facts.vllm.versions import pick
from oomph.ir.deployment import Deployment
from oomph.ir.hardware import Device
from oomph.ir.ledger import Basis, Term
from oomph.ir.model import Model
from oomph.ir.plan import KvGroup, KvSummary, Plan, RankPlan
from oomph.ir.timeline import Verdict


class _Rank(Struct, frozen=True):
    index: int
    tp_rank: int
    pp_rank: int
    device: Device


def plan_vllm(model: Model, deployment: Deployment, draft: Model | None = None) -> Plan:
    """`draft`: the model that --speculative-config names, where it is another one."""
    resolved = resolve(model, deployment)
    notes = (*deployment.notes, *resolved.notes, *model.warnings)
    if resolved.refusal is not None:
        refused = Verdict(False, "other", 0, resolved.refusal.message)
        return Plan(deployment, model.name, refused, resolved=summary(resolved), warnings=notes)
    ranks = _ranks(resolved, deployment)
    inputs = _inputs(model, deployment, resolved, ranks, draft)
    budgets = [available_kv(i) for i in inputs]
    pinned = deployment.given.get("available_kv")
    if pinned is not None:
        inputs = [replace(i, observed=True, judged=pinned <= b.high) for i, b in zip(inputs, budgets, strict=True)]
        if not all(i.judged for i in inputs):
            notes = (*notes, "the given KV memory is more than this plan can explain: what follows it is not judged")
        budgets = [_given("available_kv", pinned) for _ in inputs]
    cache = _cache(resolved, ranks, budgets)
    plans = tuple(_rank_plan(i, r, b, cache) for i, r, b in zip(inputs, ranks, budgets, strict=True))
    worst = _worst([p.verdict for p in plans])
    return Plan(
        deployment,
        model.name,
        worst,
        plans,
        _kv_summary(cache),
        summary(resolved, cache),
        _assumptions(inputs),
        notes,
    )


def _ranks(resolved: Resolved, deployment: Deployment) -> list[_Rank]:
    """vLLM gives GPUs to ranks in order: tensor-parallel ranks of the first stage, then the next stage."""
    tp, pp = resolved.tensor_parallel_size, resolved.pipeline_parallel_size
    gpus = deployment.gpus
    return [_Rank(i, i % tp, i // tp, gpus[min(i, len(gpus) - 1)]) for i in range(tp * pp)]


def _inputs(
    model: Model, dep: Deployment, resolved: Resolved, ranks: Sequence[_Rank], draft: Model | None
) -> list[RankInput]:
    """Ranks of one stage on equal cards are alike, except where experts do not divide."""
    made: dict[tuple[Any, ...], RankInput] = {}
    out = []
    for rank in ranks:
        key = (rank.pp_rank, rank.device, rank.tp_rank if resolved.enable_expert_parallel else 0)
        if key not in made:
            made[key] = _rank_input(model, dep, resolved, rank, draft)
        out.append(replace(made[key], index=rank.index))
    return out


def _given(name: str, n: int) -> Term:
    return Term(name, n, n, n, "given", {}, "given")


def _pin(term: Term, dep: Deployment) -> Term:
    if term.name in dep.given:
        return _given(term.name, dep.given[term.name])
    n = dep.measured.get(term.name)
    return term if n is None else Term(term.name, n, n, n, "measured", {}, "measured here")


def _spread(name: str, n: int, spread: float, basis: Basis, why: str) -> Term:
    slack = round(n * spread)
    return Term(name, n, n - slack, n + slack, basis, {}, why)


def _rank_input(model: Model, dep: Deployment, resolved: Resolved, rank: _Rank, draft: Model | None) -> RankInput:
    version = resolved.version
    build = build_for(
        model, version, rank.device.sm, dep.flags, {"dtype": resolved.dtype}, tp_rank=rank.tp_rank, pp_rank=rank.pp_rank
    )
    weights, load_peak, loaded = _weights(model, dep, resolved, build, rank, draft)
    layers = stage_layers(len(model.layers), build.layout)
    graphs = count_graphs(
        resolved.cudagraph_mode,
        resolved.cudagraph_capture_sizes,
        resolved.max_num_seqs,
        resolved.num_speculative_tokens,
        2 if dep.flags.get("enable_lora") else 1,
    )
    batch = Batch(
        resolved.max_num_batched_tokens,
        resolved.max_num_seqs,
        resolved.max_model_len,
        TORCH[resolved.dtype],
        build.layout,
        rank.device.sm,
        rank.device.sm_count,
        pick(facts.PROFILE, version),
        not resolved.enforce_eager,
        dep.compile_cache == "cold",
        resolved.model_runner,
        resolved.num_speculative_tokens,
        rank.pp_rank == resolved.pipeline_parallel_size - 1,
        rank.pp_rank == 0,
        _encoder_bytes(model, dep, resolved),
        rank.device.sm != 90 or dep.flags.get("gdn_prefill_backend") == "triton",
    )
    act = activation(model, batch)
    per_token = _per_token(model, batch)
    h200 = rank.device.sm == 90
    cg = estimate(model, graphs, per_token, len(layers), known=h200 and resolved.model_runner != "v2")
    distributed = resolved.tensor_parallel_size * resolved.pipeline_parallel_size > 1
    context = facts.context_bytes(rank.device.sm_count) + (facts.NCCL_BYTES if distributed else 0)
    non_torch = facts.NON_TORCH_EAGER if resolved.enforce_eager else facts.NON_TORCH_COMPILED
    where = "measured on an H200" if h200 else "measured on an H200, this card not"
    budget = pick(facts.BUDGET, version)
    width = nbytes(TORCH[resolved.dtype], 1)
    runner = resolved.max_num_batched_tokens * model.hidden_size * width + loaded.after_load_bytes
    terms = Terms(
        _pin(weights, dep),
        _pin(load_peak, dep),
        _pin(_spread("context", context, 0.05 if h200 else 0.4, "measured", where), dep),
        _spread("runner", runner, 0.05, "formula", "input embeddings of one batch"),
        _pin(act, dep),
        _persistent(model, batch, act),
        _pin(_spread("non_torch", non_torch, 0.05 if h200 else 0.4, "measured", where), dep),
        _pin(cg, dep),
        _sampler_buffers(model, batch),
    )
    applied = _estimate_applied(budget, dep)
    ipc = round(float(dep.flags.get("mm_ipc_gpu_memory_gb") or 0) * (1 << 30))
    room = rank.device.total_bytes - rank.device.used_bytes - terms.context.bytes - terms.runner.bytes
    died = passes(model, resolved, dep, build, rank.device, room, draft=draft) if terms.load_peak.bytes > room else None
    return RankInput(
        rank.device,
        resolved,
        terms,
        graphs,
        budget,
        applied,
        pick(TEXTS, version),
        rank.index,
        ipc,
        loaded.created_bytes,
        died,
        len(model.layers),
    )


def _weights(
    model: Model, dep: Deployment, resolved: Resolved, build: Build, rank: _Rank, draft: Model | None
) -> tuple[Term, Term, WeightsPlan]:
    w = weights_terms(model, resolved, dep, build, rank.device, draft=draft)
    why = "every tensor this rank keeps, as the allocator counts it"
    weights = Term("weights", w.loaded_bytes, w.low, w.high, w.basis, w.parts, why)
    peak = max(w.peak_bytes, w.loaded_bytes)
    load_peak = Term(
        "load_peak", peak, max(0, peak - (w.loaded_bytes - w.low)), peak + w.high - w.loaded_bytes, "formula"
    )
    return weights, load_peak, w


def _estimate_applied(budget: facts.BudgetRules, dep: Deployment) -> bool:
    switch = dep.environment.get("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS")
    if budget.graph_estimate == "none":
        return False
    return switch == "1" if switch is not None else budget.graph_estimate == "subtracted"


def _persistent(model: Model, batch: Batch, act: Term) -> int:
    """What profiling leaves allocated: cuBLAS and expert workspaces, the sampler's buffer."""
    kept = act.parts.get("expert workspace", 0) + facts.CUBLAS_WORKSPACE_HOPPER
    if batch.runner != "v2" and not model.pooling:
        kept += 4 * model.vocab_size * min(batch.seqs, batch.sm_count or 132)
    return min(kept, act.bytes)


def _sampler_buffers(model: Model, batch: Batch) -> int:
    """The warm-up after capture: logits and their float32 copies stay in the allocator (gpu_model_runner.py:6262)."""
    if model.pooling or batch.runner == "v2" or not batch.last_stage:
        return 0
    seqs = min(batch.seqs, batch.tokens)
    return seqs * model.vocab_size * (nbytes(batch.dtype, 1) + 12)


def _per_token(model: Model, batch: Batch) -> int:
    """Live bytes of one token inside a captured graph."""
    one = activation(model, replace(batch, tokens=4096, seqs=1, cold=False, encoder_bytes=0))
    return next(iter(one.parts.values())) // 4096


def _encoder_bytes(model: Model, dep: Deployment, resolved: Resolved) -> int:
    """The vision encoder's share of profiling (multimodal/encoder_budget.py): as many items of the most expensive
    modality as the budget holds. Not measured: an encoder holds its MLP and a few hidden states for every patch, and
    four patches make a token in most models."""
    limits = dep.flags.get("limit_mm_per_prompt")
    allowed = [m for m in model.modalities if not isinstance(limits, dict) or limits.get(m.name, 1) != 0]
    towers = [t for t in model.towers if t.layers and t.hidden]
    if not allowed or not towers or text_only(model, dep.flags) or dep.flags.get("skip_mm_profiling"):
        return 0
    item = min(max(m.max_tokens for m in allowed), resolved.max_model_len)
    budget = max(resolved.max_num_batched_tokens, item)
    items = max(1, min(budget // max(1, item), resolved.max_num_seqs))
    tower = max(towers, key=lambda t: t.hidden)
    tp = 1 if dep.flags.get("mm_encoder_tp_mode") == "data" else resolved.tensor_parallel_size
    width = nbytes(TORCH[resolved.dtype], 1)
    per_patch = 3 * tower.intermediate // tp + 5 * tower.hidden
    tokens = items * item
    return tokens * (PATCHES_PER_TOKEN * per_patch + model.hidden_size) * width


PATCHES_PER_TOKEN = 4  # a 2 x 2 merge, as in Qwen-VL, Pixtral and Llama 4


def _cache(resolved: Resolved, ranks: Sequence[_Rank], budgets: Sequence[Term]) -> KvPlan:
    """Every stage has its tightest rank's bytes."""
    by_stage = [
        min(b.bytes for r, b in zip(ranks, budgets, strict=True) if r.pp_rank == stage)
        for stage in range(resolved.pipeline_parallel_size)
    ]
    return kv(resolved, by_stage)


def _rank_plan(i: RankInput, rank: _Rank, budget: Term, cache: KvPlan) -> RankPlan:
    points = stages(i, cache)
    t = i.terms
    terms = {x.name: x for x in (t.weights, t.load_peak, t.context, t.activation, t.non_torch, t.cudagraph, budget)}
    return RankPlan(
        rank.index,
        rank.device.name,
        rank.device.total_bytes,
        rank.device.used_bytes,
        terms,
        tuple(p.stage for p in points),
        verdict(i, cache, points),
        i.created_bytes,
        requested(rank.device, i.resolved),
    )


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    failing = [v for v in verdicts if not v.fits]
    if not failing:
        return min(verdicts, key=lambda v: v.sure)
    order = ["startup_free_memory", "weights_load", "profile_run", "cudagraph_profile", "kv_check", "kv_alloc"]
    return min(failing, key=lambda v: (order.index(v.stage) if v.stage in order else 99, -v.short_bytes))


def _kv_summary(cache: KvPlan) -> KvSummary:
    groups = tuple(KvGroup(g.kind, g.layers, g.block_size, g.page_bytes, g.blocks_per_request) for g in cache.groups)
    return KvSummary(
        cache.available_bytes,
        cache.num_blocks,
        cache.bytes_per_block,
        cache.block_size,
        cache.logged_tokens,
        cache.max_concurrency,
        groups,
        cache.need_bytes,
        cache.longest_request if cache.refusal is None else 0,
        cache.log_lines,
    )


def summary(resolved: Resolved, cache: KvPlan | None = None) -> dict[str, Any]:
    """The settings people ask for, by the engine's names."""
    names = (
        "max_model_len",
        "max_num_batched_tokens",
        "max_num_seqs",
        "gpu_memory_utilization",
        "block_size",
        "dtype",
        "kv_cache_dtype",
        "quantization",
        "enable_prefix_caching",
        "async_scheduling",
        "model_runner",
        "cudagraph_mode",
        "disable_hybrid_kv_cache_manager",
        "mamba_block_size",
        "mamba_cache_mode",
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "enable_expert_parallel",
    )
    out: dict[str, Any] = {n: getattr(resolved, n) for n in names}
    if cache is not None:  # auto-fit and the grouping have the last word
        out["max_model_len"], out["block_size"] = cache.max_model_len, cache.block_size or resolved.block_size
    out["cudagraph_capture_sizes"] = list(resolved.cudagraph_capture_sizes)
    out["attention_backends"] = dict(resolved.attention)
    return out


def _assumptions(inputs: Sequence[RankInput]) -> tuple[str, ...]:
    t = inputs[0].terms
    lines = []
    if "not" in t.context.why:
        lines.append("CUDA context and driver memory: measured on an H200 only, taken as the same here")
    if "encoder" in t.activation.why:
        lines.append("vision encoder's peak: from its dimensions, not measured (half to twice as much)")
    if inputs[0].graphs.largest:
        lines.append("CUDA graph memory: a law measured on ten start-ups, good to about 25 %")
    return tuple(lines)
