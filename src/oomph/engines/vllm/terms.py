"""What one rank's memory is made of: every term of the ledger, from the resolved settings to bytes."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.vllm.activation import activation
from oomph.engines.vllm.batch import Batch
from oomph.engines.vllm.encoder import encoder
from oomph.engines.vllm.expert_kernel import layer_kernels
from oomph.engines.vllm.graphs import Capture, Graphs, count_graphs, estimate
from oomph.engines.vllm.loaded import WeightsPlan, passes, weights_terms
from oomph.engines.vllm.online import online_scheme, quantised
from oomph.engines.vllm.resolve import Resolved
from oomph.engines.vllm.settings import build_for
from oomph.engines.vllm.shard import stage_layers
from oomph.engines.vllm.timeline import RankInput, Terms
from oomph.engines.vllm.weights import Build
from oomph.facts.dtypes import TORCH, nbytes
from oomph.facts.vllm import activation as facts
from oomph.facts.vllm import outside
from oomph.ir.deployment import Deployment
from oomph.ir.hardware import Device
from oomph.ir.ledger import Basis, Term
from oomph.ir.model import Attention, Model
from oomph.units import MIB, cdiv

# Chosen. Start-ups elsewhere than on an H200 printed contexts up to 35 % off the law of facts/vllm/outside.py.
_OFF_WHERE_MEASURED, _OFF_ELSEWHERE = 0.05, 0.4
_SMS = 132  # an H100's, where a card's multiprocessors are not known


class Rank(Struct, frozen=True):
    index: int
    tp_rank: int
    pp_rank: int
    device: Device

    @property
    def measured(self) -> bool:
        """Constants were measured on a Hopper card; elsewhere they are wider."""
        return self.device.sm == 90

    @property
    def off(self) -> float:
        return _OFF_WHERE_MEASURED if self.measured else _OFF_ELSEWHERE


def rank_input(model: Model, dep: Deployment, resolved: Resolved, rank: Rank, draft: Model | None) -> RankInput:
    build = build_for(
        model,
        resolved.facts,
        rank.device.sm,
        dep.flags,
        {"dtype": resolved.dtype, "quantization": resolved.quantization},
        tp_rank=rank.tp_rank,
        pp_rank=rank.pp_rank,
        environment=dep.environment,
    )
    weights, load_peak, loaded = _weights(model, dep, resolved, build, rank, draft)
    graphs = _graphs(dep, resolved)
    batch = _batch(model, dep, resolved, build, rank)
    act = activation(model, batch)
    layers = stage_layers(len(model.layers), build.layout)
    known = rank.measured and resolved.model_runner != "v2"
    terms = Terms(
        _pin(weights, dep),
        _pin(load_peak, dep),
        _pin(_context(resolved, rank), dep),
        _runner(model, resolved, batch, loaded),
        _pin(act, dep),
        _persistent(model, batch, act),
        _pin(_non_torch(dep, resolved, rank), dep),
        _pin(estimate(model, graphs, _capture(model, resolved, batch, len(layers)), known=known), dep),
        _sampler_buffers(model, batch),
    )
    terms = replace(terms, before_load=_before_load(resolved, terms.non_torch.bytes))
    taken = terms.context.bytes + terms.before_load + terms.runner.bytes
    room = rank.device.total_bytes - rank.device.used_bytes - taken
    died = passes(model, resolved, dep, build, rank.device, room, draft=draft) if terms.load_peak.bytes > room else None
    return RankInput(
        rank.device,
        resolved,
        terms,
        graphs,
        _estimate_applied(dep, resolved),
        rank.index,
        round(float(dep.flags.get("mm_ipc_gpu_memory_gb") or 0) * (1 << 30)),
        loaded.created_bytes,
        died,
        len(model.layers),
        graphs_profiled=_graphs_profiled(resolved),
        expert_kernels=_expert_kernels(model, resolved, build),
    )


def _expert_kernels(model: Model, resolved: Resolved, build: Build) -> tuple[str, ...]:
    scheme = online_scheme(model, resolved.quantization)
    built = quantised(model, scheme, build.habits) if scheme is not None else model
    return layer_kernels(built, build.layout, build.experts, build.table)


def _graphs(dep: Deployment, resolved: Resolved) -> Graphs:
    lora_cases = 2 if dep.flags.get("enable_lora") else 1
    return count_graphs(
        resolved.cudagraph_mode,
        resolved.cudagraph_capture_sizes,
        resolved.max_num_seqs,
        resolved.num_speculative_tokens,
        lora_cases,
    )


def _batch(model: Model, dep: Deployment, resolved: Resolved, build: Build, rank: Rank) -> Batch:
    seen = encoder(model, dep, resolved)
    return Batch(
        tokens=resolved.max_num_batched_tokens,
        seqs=resolved.max_num_seqs,
        length=resolved.max_model_len,
        dtype=TORCH[resolved.dtype],
        layout=build.layout,
        sm=rank.device.sm,
        sm_count=rank.device.sm_count or _SMS,
        rules=resolved.facts.profile,
        compiled=not resolved.enforce_eager,
        cold=dep.compile_cache == "cold",
        runner=resolved.model_runner,
        drafts=resolved.num_speculative_tokens,
        last_stage=rank.pp_rank == resolved.pipeline_parallel_size - 1,
        first_stage=rank.pp_rank == 0,
        encoder_bytes=seen.peak,
        encoder_kept=seen.kept,
        embeds=seen.embeds,
        triton_gdn=rank.device.sm != 90 or dep.flags.get("gdn_prefill_backend") == "triton",
        block_size=resolved.block_size,
        l2_bytes=facts.L2_MIB.get(rank.device.name, 0) * MIB,
    )


def _distributed(resolved: Resolved) -> bool:
    return resolved.tensor_parallel_size * resolved.pipeline_parallel_size > 1


def _context(resolved: Resolved, rank: Rank) -> Term:
    n = outside.context_bytes(rank.device.sm_count)
    if _distributed(resolved) and resolved.facts.budget.snapshot_after_nccl:
        n += outside.nccl_bytes(rank.device.sm)
    return _spread("context", n, rank.off, "measured", _where(rank))


def _non_torch(dep: Deployment, resolved: Resolved, rank: Rank) -> Term:
    """What grows outside PyTorch from the first snapshot to the end of profiling."""
    sm = rank.device.sm
    alone = outside.non_torch_bytes(resolved.facts.outside.non_torch, sm, eager=resolved.enforce_eager)
    parts = {"kernels and libraries": alone}
    if _distributed(resolved):
        inside = 0 if resolved.facts.budget.snapshot_after_nccl else outside.nccl_bytes(sm)
        parts["NCCL"] = outside.nccl_grows(sm) + inside
        parts[outside.FUSED] = _fused_all_reduce(dep, resolved, sm)
    parts = {name: n for name, n in parts.items() if n}
    term = _spread("non_torch", sum(parts.values()), rank.off, "measured", _where(rank))
    return replace(term, parts=parts)


def _fused_all_reduce(dep: Deployment, resolved: Resolved, sm: int) -> int:
    config = dep.flags.get("compilation_config")
    passes = config.get("pass_config") if isinstance(config, Mapping) else None
    asked = passes.get("fuse_allreduce_rms") if isinstance(passes, Mapping) else None
    alone = resolved.data_parallel_size == 1 and resolved.pipeline_parallel_size == 1
    if resolved.enforce_eager or asked is False or (resolved.facts.outside.all_reduce_alone and not alone):
        return 0
    return outside.fused_all_reduce_bytes(resolved.facts.outside.all_reduce_buffers, sm, resolved.tensor_parallel_size)


def _before_load(resolved: Resolved, non_torch: int) -> int:
    """Of several ranks NCCL_BYTES, found in a load that failed, has it already."""
    return 0 if _distributed(resolved) else min(outside.NON_TORCH_BEFORE_LOAD, non_torch)


def _where(rank: Rank) -> str:
    return "measured on an H200" if rank.measured else "from posted start-ups, not measured"


def _runner(model: Model, resolved: Resolved, batch: Batch, loaded: WeightsPlan) -> Term:
    """The model runner's own buffers: the input embeddings of one batch, and in the V2 runner the token counts that
    penalties need for every sequence (gpu/sample/penalties.py:41, 0.32.0)."""
    n = batch.tokens * model.hidden_size * nbytes(batch.dtype, 1) + loaded.after_load_bytes
    if resolved.model_runner == "v2" and not model.pooling:
        n += batch.seqs * (model.vocab_size + cdiv(model.vocab_size, 32)) * 4
    return _spread("runner", n, 0.05, "formula", "buffers of one batch")


def given(name: str, n: int) -> Term:
    return Term(name, n, n, n, "given", {}, "given")


def _pin(term: Term, dep: Deployment) -> Term:
    if term.name in dep.given:
        return given(term.name, dep.given[term.name])
    n = dep.measured.get(term.name)
    return term if n is None else Term(term.name, n, n, n, "measured", {}, "measured here")


def _spread(name: str, n: int, spread: float, basis: Basis, why: str) -> Term:
    slack = round(n * spread)
    return Term(name, n, n - slack, n + slack, basis, {}, why)


def _weights(
    model: Model, dep: Deployment, resolved: Resolved, build: Build, rank: Rank, draft: Model | None
) -> tuple[Term, Term, WeightsPlan]:
    w = weights_terms(model, resolved, dep, build, rank.device, draft=draft)
    why = "every tensor this rank keeps, as the allocator counts it"
    weights = Term("weights", w.loaded_bytes, w.low, w.high, w.basis, w.parts, why)
    peak = max(w.peak_bytes, w.loaded_bytes)
    load_peak = Term(
        "load_peak", peak, max(0, peak - (w.loaded_bytes - w.low)), peak + w.high - w.loaded_bytes, "formula"
    )
    return weights, load_peak, w


def _estimate_applied(dep: Deployment, resolved: Resolved) -> bool:
    switch = dep.environment.get("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS")
    if not _graphs_profiled(resolved):
        return False
    return switch == "1" if switch is not None else resolved.facts.budget.graph_estimate == "subtracted"


def _graphs_profiled(resolved: Resolved) -> bool:
    budget = resolved.facts.budget
    return budget.graph_estimate != "none" and (resolved.model_runner != "v2" or budget.v2_estimates)


def _persistent(model: Model, batch: Batch, act: Term) -> int:
    """What profiling leaves allocated: cuBLAS and expert workspaces, the sampler's buffer."""
    kept = act.parts.get("expert workspace", 0) + facts.CUBLAS_WORKSPACE_HOPPER
    if batch.runner != "v2" and not model.pooling:
        kept += 4 * model.vocab_size * min(batch.seqs, batch.sm_count)
    return min(kept, act.bytes)


def _sampler_buffers(model: Model, batch: Batch) -> int:
    """The warm-up after capture: logits and their float32 copies stay in the allocator (gpu_model_runner.py:6262)."""
    if model.pooling or batch.runner == "v2" or not batch.last_stage:
        return 0
    seqs = min(batch.seqs, batch.tokens)
    return seqs * model.vocab_size * (nbytes(batch.dtype, 1) + 12)


def _capture(model: Model, resolved: Resolved, batch: Batch, layers: int) -> Capture:
    """A captured pass, from two profiling passes that differ in tokens alone."""
    alone = replace(batch, seqs=1, cold=False, encoder_bytes=0, encoder_kept=0)
    small, large = (next(iter(activation(model, replace(alone, tokens=n)).parts.values())) for n in (4096, 8192))
    heads = [m for x in model.layers for m in x.mixers if isinstance(m, Attention)] if batch.sm == 90 else []
    splits = any(name.startswith("FLASH_ATTN") for name, _ in resolved.attention)
    wide = max((m.num_heads * (m.kv_lora_rank or m.head_dim_v) for m in heads), default=0) // batch.layout.tp
    cublas = facts.cublas_workspace(batch.sm)
    return Capture((large - small) // 4096, layers, cublas, wide if splits else 0, batch.sm)
