"""A plan of vLLM -> what its scheduler works with, and how long its steps take."""

from msgspec.structs import replace

from oomph.engines.vllm.kv.cache import KvPlan, kv
from oomph.engines.vllm.kv.groups import Group as KvGroup
from oomph.engines.vllm.kv.specs import max_blocks
from oomph.engines.vllm.resolve.steps import Resolved
from oomph.engines.vllm.run import Run
from oomph.engines.vllm.scheduler.loop import Loop
from oomph.engines.vllm.scheduler.pipeline import PipelineLoop
from oomph.engines.vllm.scheduler.step_time import step_time
from oomph.engines.vllm.start import with_draft
from oomph.engines.vllm.weights.online import online_scheme, quantised
from oomph.errors import CannotPlan
from oomph.ir import Deployment, Experts, Model, Plan
from oomph.simulate.accuracy import speed_error, taken_over
from oomph.simulate.build import Built, Factors, require_start
from oomph.simulate.config import Config, Group
from oomph.simulate.links import layout_of
from oomph.simulate.timing import unit
from oomph.text.tables import all_that_hold
from oomph.units import cdiv


def build(
    deployment: Deployment, model: Model, plan: Plan, factors: Factors, *, accepted: float = 0.6, timed: bool = True
) -> Built:
    """`accepted`: the share of drafted tokens that the model keeps."""
    require_start(plan)
    run, cache = planned_cache(deployment, model, plan)
    model, resolved = run.model, run.settings
    if cache.context is None or not cache.groups:
        raise CannotPlan(f"{model.name} has no KV cache to simulate")
    groups, sources = _groups(cache)
    config = _config(deployment, resolved, cache, groups, accepted)
    time = unit(len(groups))
    if timed:
        time = step_time(deployment, _quantised(run), plan, resolved, groups, sources, factors)
    has_experts = any(isinstance(module, Experts) for layer in model.layers for module in layer.block.modules)
    device = deployment.gpus[0]
    error_of = speed_error if device.vendor == "nvidia" else taken_over
    error = error_of(has_experts, layout_of(device.name, resolved.tensor_parallel_size))
    notes = (*deployment.notes, *_notes(deployment, config, resolved, accepted))
    return Built(
        config=config,
        time=time,
        error=error,
        max_concurrency=cache.max_concurrency,
        too_long=resolved.facts.scheduler.too_long,
        replicas=resolved.data_parallel_size,
        largest_graph=0 if resolved.enforce_eager else max(resolved.cudagraph_capture_sizes, default=0),
        loop=PipelineLoop if config.stages > 1 else Loop,
        notes=notes,
    )


def planned_cache(deployment: Deployment, model: Model, plan: Plan) -> tuple[Run, KvPlan]:
    """The deployment as it was planned, and the KV cache in the memory that its ranks have for it."""
    run = Run(model, deployment, with_draft(deployment)[1])
    return run, kv(run.settings, _stage_bytes(plan, run.settings))


def _quantised(run: Run) -> Model:
    """As it is multiplied: --quantization changes a checkpoint that has none."""
    scheme = online_scheme(run.model, run.settings.quantization)
    if scheme is None:
        return run.model
    return quantised(run.traits, scheme, run.facts.structure.habits(run.device.sm))


def _stage_bytes(plan: Plan, resolved: Resolved) -> list[int]:
    tp = resolved.tensor_parallel_size
    bytes_ = [rank.terms["available_kv"].bytes for rank in plan.ranks]
    return [min(bytes_[s * tp : (s + 1) * tp]) for s in range(resolved.pipeline_parallel_size)]


def _groups(cache: KvPlan) -> tuple[tuple[Group, ...], list[list[KvGroup]]]:
    """Equal groups once, with the cache groups that each stands for."""
    assert cache.context is not None
    sources: dict[Group, list[KvGroup]] = {}
    for source in cache.context.grouping.groups:
        sources.setdefault(_group(source, cache), []).append(source)
    return tuple(replace(g, count=len(s)) for g, s in sources.items()), list(sources.values())


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
        stages=resolved.pipeline_parallel_size,
        batches_in_flight=resolved.max_in_flight_batches if resolved.pipeline_parallel_size > 1 else 0,
        refills=row.refills,
        decode_stagger=resolved.pipeline_parallel_size if resolved.async_scheduling and row.staggers else 1,
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
        kept=row.hashes,
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


def _notes(deployment: Deployment, config: Config, resolved: Resolved, accepted: float) -> list[str]:
    return all_that_hold(
        (
            not resolved.facts.scheduler.compared,
            f"the scheduler of vLLM {deployment.engine.version} is simulated by the rules of 0.12.0, the oldest"
            " one that was compared with the real scheduler",
        ),
        (
            resolved.data_parallel_size > 1,
            f"{resolved.data_parallel_size} data-parallel replicas with a KV cache and a scheduler each: the fullest is"
            " simulated and counted as many times; a user's turns are taken to reach the same replica",
        ),
        (config.spec_tokens, f"{accepted:.0%} of the drafted tokens are taken to be accepted (--accepted)"),
    )
