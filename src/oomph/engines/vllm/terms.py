"""What one rank's memory is made of: every term of the ledger, from the resolved settings to bytes."""

import re
from functools import lru_cache

from msgspec.structs import replace

from oomph.engines.common.created import Build
from oomph.engines.common.expert_kernel import layer_kernels
from oomph.engines.common.ranks import Rank
from oomph.engines.common.shard import stage_layers
from oomph.engines.vllm.graphs.memory import Capture, Graphs, count_graphs, estimate
from oomph.engines.vllm.graphs.modes import breaks_graphs, compiles
from oomph.engines.vllm.graphs.sampled import Sampled, sampled
from oomph.engines.vllm.kv.budget import RankInput, Terms
from oomph.engines.vllm.profile.activation import activation, draft_tensors
from oomph.engines.vllm.profile.batch import Batch
from oomph.engines.vllm.profile.encoder import Encoder, encoder
from oomph.engines.vllm.resolve.steps import Resolved
from oomph.engines.vllm.run import Run
from oomph.engines.vllm.serving.after_start import after_start, captured
from oomph.engines.vllm.traits import REMEMBERED, Traits
from oomph.engines.vllm.vendors import Start, on_its_card
from oomph.engines.vllm.weights.build import build_for, layout_of
from oomph.engines.vllm.weights.loaded import WeightsPlan, first_failing_allocation, weights_terms
from oomph.engines.vllm.weights.online import online_scheme, quantised
from oomph.facts import unified
from oomph.facts.dtypes import TORCH, nbytes
from oomph.facts.gpus import named
from oomph.facts.vllm import activation as facts, outside
from oomph.facts.vllm.running import is_eagle_head
from oomph.facts.vllm.serving import v2_sampler_state
from oomph.facts.vllm.vendors import HPU_GRAPHS, HPU_GRAPHS_VARIABLE
from oomph.ir import Device, Experts, Model, Term, term
from oomph.units import MIB

# Chosen. Start-ups elsewhere than on an H200 printed contexts up to 35 % off the formula of facts/vllm/outside.py.
_OFF_WHERE_MEASURED, _OFF_ELSEWHERE = 0.05, 0.4
# Chosen. Only start-ups on one GPU were measured; of 24 posted ones with NCCL between ranks on an H200 a quarter either
# side holds nine in ten.
_OFF_WITH_NCCL = 0.25
# Chosen: the pool of gpt-oss-120b's load was 0.4 % larger than played; small segments are not played.
_POOL_OFF = 0.02
# gpu_worker.py (since 0.27.0) counts what PyTorch has reserved, not what is allocated: rests of segments too. Measured
# beside the played load: 10 to 15 MiB of small segments in most of sixteen starts, up to 60 more.
_SMALL_SEGMENTS, _SEGMENTS_OFF = 12 * MIB, 64 * MIB
_RUNNER_WHY = "buffers of one batch, rests of segments"
_TUNED_STATES = 7
_SMS = 132  # an H100's, where a card's multiprocessors are not known


def is_measured(device: Device) -> bool:
    """Constants were measured on a Hopper card; elsewhere their intervals are wider."""
    return device.sm == 90 and device.vendor == "nvidia"


def rank_input(run: Run, rank: Rank) -> RankInput:
    settings, model, device, pin = run.settings, run.model, rank.device, run.deployment.pin
    weights, load_peak, loaded = _weights(run, rank)
    graphs = _graphs(settings)
    encoded = encoder(run)
    batch = _batch(run, rank, encoded)
    peak = activation(run.traits, batch)
    layers = stage_layers(len(model.layers), batch.layout)
    is_known = is_measured(device) and settings.model_runner != "v2"
    capture = _capture(run, batch, sum(1 for layer in model.layers[layers.start : layers.stop] if layer.mixers))
    taken = _sampled(run, graphs, capture) if _is_sampled(settings) else None
    estimated = taken.estimate if taken else estimate(model, graphs, capture, known=is_known)
    graph_estimate = pin(_on_shared_memory(estimated, device))
    is_sampled = taken is not None and graph_estimate.basis != "given"
    warm_up, serving = after_start(run.traits, batch, run.facts.after_start, graphs, encoded)
    terms = Terms(
        weights=pin(weights),
        load_peak=pin(load_peak),
        context=pin(_context(run, rank)),
        runner=_runner(run, batch, loaded),
        activation=pin(peak.term),
        persistent=_persistent(model, batch, peak.term),
        non_torch=pin(_non_torch(run, rank)),
        cudagraph=graph_estimate,
        captured=taken.captured if taken is not None and is_sampled else captured(graph_estimate, graphs, batch),
        warm_up=warm_up,
        serving=serving,
    )
    ranks = settings.tensor_parallel_size * settings.pipeline_parallel_size
    restart_bytes = _restart_bytes(run, batch, peak.term)
    compiles = batch.compiled and batch.cold
    online = online_scheme(model, settings.quantization) is not None
    unquantised = model.nbytes // ranks if online else 0
    start = Start(ranks, len(layers), compiles, restart_bytes, run.facts.estimates.sorts_logits, unquantised)
    terms = on_its_card(terms, device, model, start)
    residue = taken.residue if taken is not None and is_sampled else 0
    terms = replace(terms, before_load=_before_load(run, terms.non_torch.bytes), graphs_kept=residue)
    room = device.total_bytes - device.used_bytes - terms.context.bytes - terms.before_load - terms.runner.bytes
    return RankInput(
        device,
        resolved=settings,
        terms=terms,
        graphs=graphs,
        estimate_applied=_estimate_applied(run),
        index=rank.index,
        ipc_bytes=settings.flags.multimodal.ipc_bytes,
        created_bytes=loaded.created_bytes,
        died=first_failing_allocation(run, rank, room) if terms.load_peak.bytes > room else None,
        layers=len(model.layers),
        graphs_profiled=_graphs_profiled(settings) and device.vendor in run.facts.estimates.vendors,
        peak=None if _is_pinned("activation_peak", run) else peak.phase.kind,
        context_measured=is_measured(device) or _is_pinned("context", run),
        expert_kernels=_expert_kernels(run.traits, settings.quantization, build_for(run, rank)),
        graph_share=_graph_share(run),
        restart_bytes=restart_bytes,
    )


def _is_sampled(settings: Resolved) -> bool:
    return settings.model_runner == "v2" and settings.facts.budget.v2_estimates


def _sampled(run: Run, graphs: Graphs, capture: Capture) -> Sampled:
    return sampled(run.model, graphs, capture, known=is_measured(run.device))


def _graph_share(run: Run) -> float:
    text = run.deployment.environment.get(HPU_GRAPHS_VARIABLE, "")
    stated = float(text) if text and re.fullmatch(r"0?\.[0-9]{1,6}|0|1", text) else HPU_GRAPHS
    return 0.0 if run.settings.enforce_eager else stated


def _restart_bytes(run: Run, batch: Batch, peak: Term) -> int:
    """A start with an empty compile cache profiles a higher peak than the next one, whose KV cache gains that."""
    if not (batch.compiled and batch.cold) or run.settings.kv_cache_memory_bytes is not None:
        return 0
    if _is_pinned("activation_peak", run) or _is_pinned("available_kv", run):
        return 0
    return max(0, peak.bytes - activation(run.traits, replace(batch, cold=False)).term.bytes)


@lru_cache(REMEMBERED)
def _expert_kernels(traits: Traits, quantization: str | None, build: Build) -> tuple[str, ...]:
    scheme = online_scheme(traits.model, quantization)
    model = quantised(traits, scheme, build.habits) if scheme is not None else traits.model
    return layer_kernels(model, build.layout, build.experts, build.table)


def _graphs(settings: Resolved) -> Graphs:
    return count_graphs(
        settings.cudagraph_mode,
        settings.cudagraph_capture_sizes,
        settings.max_num_seqs,
        settings.num_speculative_tokens,
        2 if settings.flags.lora else 1,
        v2=settings.model_runner == "v2",
    )


def _batch(run: Run, rank: Rank, encoded: Encoder) -> Batch:
    settings, device = run.settings, rank.device
    broken = breaks_graphs(run.model.architecture, run.deployment.environment, run.facts.capture, device.vendor)
    profiled = not encoded.skipped and (settings.model_runner != "v2" or run.facts.after_start.v2_profiles_encoder)
    batch = Batch(
        tokens=settings.max_num_batched_tokens,
        seqs=settings.max_num_seqs,
        length=settings.max_model_len,
        dtype=TORCH[settings.dtype],
        layout=layout_of(run, rank),
        sm=device.sm,
        sm_count=device.sm_count or _SMS,
        rules=run.facts.profile,
        compiled=compiles(run.deployment.flags, breakable=broken),
        cold=run.deployment.compile_cache == "cold",
        runner=settings.model_runner,
        drafts=settings.num_speculative_tokens,
        last_stage=rank.pp_rank == settings.pipeline_parallel_size - 1,
        first_stage=rank.pp_rank == 0,
        encoder_bytes=encoded.peak if profiled else 0,
        encoder_kept=encoded.resident if profiled else 0,
        encoder_traced=encoded.traced,
        embeds=encoded.embeds,
        triton_gdn=device.sm != 90 or settings.flags.gdn_prefill_backend == "triton",
        block_size=settings.block_size,
        l2_bytes=card.l2_bytes if (card := named(device.name)) is not None else 0,
    )
    if not batch.drafts:
        return batch
    return replace(batch, draft_pass=_draft_pass(run, batch), tuned_states=_tuned_states(run))


def _tuned_states(run: Run) -> int:
    """Measured on an H200 with 0.32.0: seven batches of hidden states for a layer of the model's own (Qwen3.6-27B),
    eleven for an EAGLE-3 head, which reads four more (Llama-3.1-8B)."""
    if run.draft is not None:
        return _TUNED_STATES + facts.EAGLE3_STATES + 1 if is_eagle_head(run.draft.model.architecture) else 0
    return _TUNED_STATES if run.model.drafts and run.settings.uses_drafts else 0


def _draft_pass(run: Run, batch: Batch) -> tuple[int, ...]:
    """Profiling runs the drafter on the same batch (gpu_model_runner.py _dummy_run). An EAGLE-3 head finds the states
    that it reads; the V2 runner has the last ones too. A layer of the model's own finds the last ones, which are its
    input once it is compiled."""
    if run.draft is not None and is_eagle_head(run.draft.model.architecture):
        states = facts.EAGLE3_STATES + (batch.runner == "v2")
        return draft_tensors(run.draft.model, run.draft.model.layers, batch, states)
    if run.draft is None and run.model.drafts and run.settings.uses_drafts:
        return draft_tensors(run.model, run.model.drafts, batch, 0 if batch.compiled else 1)
    return ()


def _context(run: Run, rank: Rank) -> Term:
    if rank.device.sees_system:
        low, n, high = unified.share(rank.device.total_bytes, unified.CONTEXT)
        if not run.facts.budget.reads_available:  # the page cache of an earlier load may count as used
            high += run.model.nbytes
        return Term("context", n, low, high, "measured", {}, why="container and CUDA context, from posted starts")
    n = outside.context_bytes(rank.device.sm_count)
    if run.is_distributed and run.facts.budget.snapshot_after_nccl:
        n += outside.nccl_bytes(rank.device.sm)
    return _measured("context", n, rank.device)


def _non_torch(run: Run, rank: Rank) -> Term:
    """What grows outside PyTorch from the first snapshot to the end of profiling."""
    if rank.device.system is not None:
        low, n, high = unified.share(rank.device.total_bytes, unified.NON_TORCH)
        return Term(
            "non_torch", n, low, high, "measured", {}, why="read off the whole machine, the host's own included"
        )
    sm = rank.device.sm
    alone = outside.non_torch_bytes(run.facts.outside.non_torch, sm, eager=run.settings.enforce_eager)
    parts = {"kernels and libraries": alone}
    if run.is_distributed:
        inside = 0 if run.facts.budget.snapshot_after_nccl else outside.nccl_bytes(sm)
        parts["NCCL"] = outside.nccl_grows(sm) + inside
        parts[outside.FUSED] = _fused_all_reduce(run, sm)
    parts["DeepEP buffers"] = _deepep_bytes(run)
    parts = {name: n for name, n in parts.items() if n}
    return replace(_measured("non_torch", sum(parts.values()), rank.device, run.is_distributed), parts=parts)


def _measured(name: str, n: int, device: Device, is_distributed: bool = False) -> Term:
    if is_measured(device) and is_distributed:
        return term(
            name, n, "measured", spread=_OFF_WITH_NCCL, why="measured on one H200, with NCCL from posted starts"
        )
    if is_measured(device):
        return term(name, n, "measured", spread=_OFF_WHERE_MEASURED, why="measured on an H200")
    return term(name, n, "measured", spread=_OFF_ELSEWHERE, why="from posted start-ups, not measured")


def _deepep_bytes(run: Run) -> int:
    """device_communicators/all2all.py (0.32.0): a buffer of VLLM_DEEPEP_BUFFER_SIZE_MB between the GPUs of a node; for
    the high-throughput kernels one more between nodes, for the low-latency kernels one of DeepEP's own size."""
    backend = run.settings.flags.all2all_backend
    if not backend.startswith("deepep") or not run.settings.enable_expert_parallel:
        return 0
    one = _variable(run, "VLLM_DEEPEP_BUFFER_SIZE_MB", 1024) * MIB
    if "high_throughput" in backend:
        several = len({device.node for device in run.deployment.gpus}) > 1
        return one * (2 if several else 1)
    modules = (module for block in run.traits.blocks for module in block.modules)
    experts = max((module.count for module in modules if isinstance(module, Experts)), default=0)
    chunk = run.facts.outside.dispatch_tokens
    tokens = _variable(run, "VLLM_MOE_DP_CHUNK_SIZE", chunk) if chunk else run.settings.max_num_batched_tokens
    return one + outside.low_latency_bytes(tokens, run.model.hidden_size, experts)


def _variable(run: Run, name: str, default: int) -> int:
    text = run.deployment.environment.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else default


def _fused_all_reduce(run: Run, sm: int) -> int:
    settings, rules = run.settings, run.facts.outside
    alone = settings.data_parallel_size == 1 and settings.pipeline_parallel_size == 1
    if settings.enforce_eager or not settings.flags.fuses_all_reduce or (rules.all_reduce_alone and not alone):
        return 0
    return outside.fused_all_reduce_bytes(rules.all_reduce_buffers, sm, settings.tensor_parallel_size)


def _before_load(run: Run, non_torch: int) -> int:
    """Of several ranks NCCL_BYTES, found in a load that failed, has it already."""
    return 0 if run.is_distributed else min(outside.NON_TORCH_BEFORE_LOAD, non_torch)


def _runner(run: Run, batch: Batch, loaded: WeightsPlan) -> Term:
    """The model runner's own buffers. V1 keeps the input embeddings of one batch; V2 only for a model that is given
    images or embeddings (gpu/mm/encoder_runner.py:58, gpu/model_states/default.py:49, 0.32.0), and beside them what its
    sampler knows of every sequence."""
    model, n = run.model, loaded.after_load_bytes
    if batch.runner != "v2" or batch.embeds or run.settings.flags.prompt_embeds:
        n += batch.tokens * model.hidden_size * nbytes(batch.dtype, 1)
    n += _sampler_state(run)
    if run.facts.budget.formula != "consumed":
        return term("runner", n, "formula", spread=0.05, why="buffers of one batch")
    n += loaded.unused_bytes + _SMALL_SEGMENTS
    return Term("runner", n, n - _SEGMENTS_OFF // 2, n + _SEGMENTS_OFF, "formula", {}, why=_RUNNER_WHY)


def _sampler_state(run: Run) -> int:
    """The V2 runner makes it as a part of the load (gpu/model_runner.py load_model)."""
    settings = run.settings
    if settings.model_runner != "v2" or run.model.pooling:
        return 0
    return settings.max_num_seqs * v2_sampler_state(run.model.vocab_size, settings.num_speculative_tokens)


def _is_pinned(name: str, run: Run) -> bool:
    return name in run.deployment.given or name in run.deployment.measured


def _weights(run: Run, rank: Rank) -> tuple[Term, Term, WeightsPlan]:
    created = weights_terms(run, rank)
    why = "every tensor this rank keeps, as the allocator counts it"
    weights = Term("weights", created.loaded_bytes, created.low, created.high, created.basis, created.parts, why=why)
    peak, slack = max(created.peak_bytes, created.loaded_bytes), 0
    if run.settings.flags.pools_memory:
        peak = max(peak, created.pool_bytes + _sampler_state(run))
        slack = round(_POOL_OFF * peak)
    low = max(0, peak - (created.loaded_bytes - created.low) - slack)
    high = peak + created.high - created.loaded_bytes + slack
    return weights, Term("load_peak", peak, low, high, "formula"), created


def _on_shared_memory(graphs: Term, device: Device) -> Term:
    """There the estimate is a difference of the machine's available memory: what the host does meanwhile counts."""
    if not device.sees_system or not graphs.bytes:
        return graphs
    low, more, high = unified.share(device.total_bytes, unified.GRAPH_ESTIMATE)
    return replace(graphs, bytes=graphs.bytes + more, low=graphs.low + low, high=graphs.high + high, parts={})


def _estimate_applied(run: Run) -> bool:
    switch = run.deployment.environment.get("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS")
    if not _graphs_profiled(run.settings) or run.device.vendor not in run.facts.estimates.vendors:
        return False
    return switch == "1" if switch is not None else run.facts.budget.graph_estimate == "subtracted"


def _graphs_profiled(settings: Resolved) -> bool:
    budget = settings.facts.budget
    return budget.graph_estimate != "none" and (settings.model_runner != "v2" or budget.v2_estimates)


def _persistent(model: Model, batch: Batch, act: Term) -> int:
    """What profiling leaves allocated: cuBLAS and expert workspaces, the sampler's buffer."""
    stays = act.parts.get("expert workspace", 0) + facts.CUBLAS_WORKSPACE_HOPPER
    if batch.runner != "v2" and not model.pooling:
        stays += 4 * model.vocab_size * min(batch.seqs, batch.sm_count)
    return min(stays, act.bytes)


def _capture(run: Run, batch: Batch, layers: int) -> Capture:
    """A captured pass, from two profiling passes that differ in tokens alone."""
    alone = replace(batch, seqs=1, cold=False, encoder_bytes=0, encoder_kept=0)
    small, large = (activation(run.traits, replace(alone, tokens=n)).phase.bytes for n in (4096, 8192))
    heads = run.traits.attention if batch.sm == 90 else ()
    splits = any(name.startswith("FLASH_ATTN") for name, _ in run.settings.attention)
    wide = max((m.num_heads * (m.kv_lora_rank or m.head_dim_v) for m in heads), default=0) // batch.layout.tp
    cublas = facts.cublas_workspace(batch.sm)
    mxfp4 = run.settings.facts.capture.mxfp4_graph_bytes
    return Capture(
        (large - small) // 4096,
        layers,
        cublas,
        wide if splits else 0,
        batch.sm,
        mxfp4,
        drafts=bool(batch.draft_pass),
        lora=run.settings.flags.lora is not None,
        # a row for every drafted token: 121 MiB of float32 in the one start that was measured (64 sequences, 2 drafts)
        draft_logits=4 * batch.seqs * batch.drafts * run.model.vocab_size,
        hands_states=run.draft is not None and is_eagle_head(run.draft.model.architecture),
    )
