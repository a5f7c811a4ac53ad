"""Model and deployment -> Plan, for vLLM: resolve, weigh, profile, size the KV cache, walk the stages."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from oomph.engines.common.ranks import Rank, ranks_on
from oomph.engines.common.shard import local_experts
from oomph.engines.vllm.kv.budget import RankInput, available_kv, image_transfer, requested
from oomph.engines.vllm.kv.cache import KvPlan, kv
from oomph.engines.vllm.kv.check import Refusal
from oomph.engines.vllm.resolve.card_notes import card_notes
from oomph.engines.vllm.resolve.steps import Resolved
from oomph.engines.vllm.run import Alike, Run
from oomph.engines.vllm.serving.safe_utilization import safe_utilization
from oomph.engines.vllm.terms import rank_input
from oomph.engines.vllm.timeline import few_states_text, stages, verdict
from oomph.engines.vllm.traits import REMEMBERED
from oomph.engines.vllm.weights.build import layout_of, scaled_rotary
from oomph.facts.transformers import REMOTE_TYPES, TRUST
from oomph.facts.vllm.known import GGUF, GGUF_NOTE, GGUF_REFUSAL
from oomph.facts.vllm.measured import grounds
from oomph.ir import STAGES, Deployment, KvSummary, Model, Plan, RankPlan, Term, Verdict, term
from oomph.ir.gate import worst
from oomph.ir.plan import Asleep
from oomph.text.tables import all_that_hold
from oomph.units import cdiv

_REMOTE_CODE = (
    "this model's configuration is code of its repository, which vLLM runs only with --trust-remote-code: without it "
    "the start ends before anything is loaded"
)


def plan_vllm(model: Model, deployment: Deployment, draft: Model | None = None) -> Plan:
    """`draft`: the model that --speculative-config names, where it is another one."""
    run = Run(model, deployment, draft)
    model, resolved = run.model, run.settings
    notes = (*deployment.notes, *resolved.notes, *model.warnings, *card_notes(deployment, model, resolved.dtype))
    if model.model_type in REMOTE_TYPES and not deployment.flags.get(TRUST):
        notes = (*notes, _REMOTE_CODE)
    if resolved.refusal is not None:
        notes = (*notes, *refusal_notes(resolved.refusal, model, resolved))
        refused = Verdict(False, "other", 0, refusal_text(resolved.refusal))
        settings = _settled(deployment, resolved)
        return Plan(deployment, model.name, refused, resolved=settings, warnings=notes)
    notes = (*notes, *_node_notes(run))
    ranks = _ranks(run)
    inputs = _inputs(run, ranks)
    budgets = _budgets(inputs)
    pinned = deployment.given.get("available_kv")
    if pinned is not None:
        inputs = [replace(i, observed=True, judged=pinned <= b.high) for i, b in zip(inputs, budgets, strict=True)]
        if not all(i.judged for i in inputs):
            notes = (*notes, "the given KV memory is more than this plan can explain: what follows it is not judged")
        budgets = [term("available_kv", pinned, "given", why="given") for _ in inputs]
    cache = _cache(resolved, ranks, budgets)
    if pinned is not None and (few := few_states_text(inputs[0], cache)):
        notes = (*notes, f"with this KV memory vLLM then stops: {few}")
    plans = _rank_plans(inputs, ranks, budgets, cache)
    decisive = worst([p.verdict for p in plans], STAGES)
    plan = Plan(
        deployment,
        model=model.name,
        verdict=decisive,
        ranks=plans,
        kv=_kv_summary(cache),
        resolved=summary(resolved, cache, inputs[0].expert_kernels),
        assumptions=_assumptions(inputs),
        warnings=(*notes, *failure_notes(decisive, model, resolved, inputs)),
        asleep=_asleep(inputs[0], cache),
        grounds=grounds(deployment.engine.version, inputs[0].device.name),
    )
    return replace(plan, warnings=(*plan.warnings, *utilization_notes(plan)))


def captured_graphs(model: Model, deployment: Deployment) -> Term | None:
    """The CUDA graphs of the first rank once they are captured; None: the command is refused."""
    run = Run(model, deployment, None)
    return None if run.settings.refusal is not None else rank_input(run, _ranks(run)[0]).terms.captured


def _asleep(first: RankInput, cache: KvPlan) -> Asleep | None:
    flags = first.resolved.flags
    if not flags.sleeps or cache.refusal is not None:
        return None
    from oomph.engines.vllm.serving.asleep import asleep

    return asleep(first.terms, cache, has_experts=bool(first.expert_kernels), graphs_stay=not flags.offloads_graphs)


def _ranks(run: Run) -> list[Rank]:
    sizes = run.settings
    return ranks_on(
        run.deployment.gpus, sizes.tensor_parallel_size, sizes.pipeline_parallel_size, sizes.data_parallel_size
    )


def _node_notes(run: Run) -> tuple[str, ...]:
    """A tensor-parallel group that spans nodes exchanges every layer over the network."""
    gpus, tp = run.deployment.gpus, run.settings.tensor_parallel_size
    nodes, here = len({device.node for device in gpus}), sum(device.node == 0 for device in gpus)
    if nodes == 1 or tp <= here:
        return ()
    inside = f"--tensor-parallel-size {here} --pipeline-parallel-size {cdiv(tp, here)}"
    return (f"a tensor-parallel group of {tp} spans nodes of {here} GPUs: {inside} keeps it inside one",)


def _inputs(run: Run, ranks: Sequence[Rank]) -> list[RankInput]:
    """Ranks of one stage on equal cards are alike, except where experts do not divide: of a rank's number only that
    counts how many experts it has."""
    distinct: dict[tuple[Any, ...], RankInput] = {}
    counts = {count for traits in (run.traits, run.draft) if traits is not None for count in traits.expert_counts}
    out = []
    for rank in ranks:
        experts: tuple[int, ...] = ()
        if run.settings.enable_expert_parallel:
            layout = layout_of(run, rank)
            experts = tuple(local_experts(count, layout) for count in counts)
        key = (rank.pp_rank, rank.device, experts)
        if key not in distinct:
            alike = run.alike_in_terms
            terms = rank_input(run, rank) if alike is None else _shared_input(alike, rank)
            distinct[key] = replace(terms, like=rank.index)
        out.append(replace(distinct[key], index=rank.index, resolved=run.settings))
    return out


@lru_cache(REMEMBERED)
def _shared_input(alike: Alike, rank: Rank) -> RankInput:
    """The same for every share of the GPU: the share is read where the budget is computed from these terms."""
    return rank_input(alike.run, rank)


def _budgets(inputs: Sequence[RankInput]) -> list[Term]:
    """Ranks that are alike share their terms, and so what is left of them."""
    distinct: dict[int, Term] = {}
    for one in inputs:
        if one.like not in distinct:
            distinct[one.like] = available_kv(one)
    return [distinct[one.like] for one in inputs]


def _cache(resolved: Resolved, ranks: Sequence[Rank], budgets: Sequence[Term]) -> KvPlan:
    """Every stage has its tightest rank's bytes."""
    by_stage = [
        min(b.bytes for rank, b in zip(ranks, budgets, strict=True) if rank.pp_rank == stage)
        for stage in range(resolved.pipeline_parallel_size)
    ]
    return kv(resolved, by_stage)


def _rank_plans(
    inputs: Sequence[RankInput], ranks: Sequence[Rank], budgets: Sequence[Term], cache: KvPlan
) -> tuple[RankPlan, ...]:
    """Of ranks that are alike the first is planned: the others have its stages, and its verdict with their number."""
    distinct: dict[int, RankPlan] = {}
    plans = []
    for i, rank, budget in zip(inputs, ranks, budgets, strict=True):
        first = distinct.get(i.like)
        if first is None:
            first = distinct[i.like] = _rank_plan(i, rank, budget, cache)
            plans.append(first)
        else:
            plans.append(replace(first, rank=rank.index, verdict=replace(first.verdict, rank=rank.index)))
    return tuple(plans)


def _rank_plan(i: RankInput, rank: Rank, budget: Term, cache: KvPlan) -> RankPlan:
    points = stages(i, cache)
    own = i.terms
    parts = (own.weights, own.load_peak, own.context, own.runner, own.activation, own.non_torch, own.cudagraph, budget)
    terms = {term.name: term for term in (*parts, *((image_transfer(i.ipc_bytes),) if i.ipc_bytes else ()))}
    return RankPlan(
        rank.index,
        gpu=rank.device.name,
        total_bytes=rank.device.total_bytes,
        used_by_others_bytes=rank.device.used_bytes,
        terms=terms,
        stages=tuple(p.stage for p in points),
        verdict=verdict(i, cache, points),
        created_bytes=i.created_bytes,
        requested_bytes=requested(rank.device, i.resolved),
    )


def _kv_summary(cache: KvPlan) -> KvSummary:
    return KvSummary(
        cache.widest_available_bytes or cache.available_bytes,
        num_blocks=cache.num_blocks,
        bytes_per_block=cache.bytes_per_block,
        block_size=cache.block_size,
        logged_tokens=cache.logged_tokens,
        max_concurrency=cache.max_concurrency,
        groups=cache.groups,
        need_bytes=cache.need_bytes,
        longest_request=cache.longest_request if cache.refusal is None else 0,
        log_lines=cache.log_lines,
    )


def _settled(deployment: Deployment, resolved: Resolved) -> dict[str, Any]:
    """Of a command that is refused: what vLLM had settled by then. Before that there is only what the user set."""
    settings = summary(resolved)
    if resolved.refusal is not None and resolved.refusal.stage == "engine_config":
        return {name: deployment.flags[name] for name in settings if name in deployment.flags}
    later = {"block_size", "mamba_block_size", "attention_backends"} - deployment.flags.keys()
    return {name: value for name, value in settings.items() if name not in later}


def summary(resolved: Resolved, cache: KvPlan | None = None, kernels: Sequence[str] = ()) -> dict[str, Any]:
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
        "data_parallel_size",
        "enable_expert_parallel",
    )
    out: dict[str, Any] = {n: getattr(resolved, n) for n in names}
    if cache is not None:  # auto-fit and the grouping have the last word
        out["max_model_len"], out["block_size"] = cache.max_model_len, cache.block_size or resolved.block_size
    out["cudagraph_capture_sizes"] = list(resolved.cudagraph_capture_sizes)
    out["attention_backends"] = dict(resolved.attention)
    if kernels:
        out["expert_kernels"] = list(kernels)
    return out


def _assumptions(inputs: Sequence[RankInput]) -> tuple[str, ...]:
    first = inputs[0]
    lines = all_that_hold(
        (
            not first.context_measured,
            "CUDA context and driver memory: as start-ups on such cards printed it, not measured here",
        ),
        (
            first.device.vendor != "nvidia",
            f"{first.device.name}: kernels as on NVIDIA cards, overheads as a few posted starts show them",
        ),
        (
            first.peak == "encoder",
            "vision encoder's peak: from its dimensions, not measured (half to twice as much)",
        ),
        (
            first.graphs.largest,
            "CUDA graph memory: from captures traced on an H200, good to 25 % there, taken as 50 % elsewhere",
        ),
    )
    return tuple(lines)


# What a plan says beside its figures: where the engine itself turns a saving into a failure, and bare refusals.

_AFTER_KV = ("kv_alloc", "cudagraph_capture", "sampler_warmup")


def failure_notes(worst: Verdict, model: Model, resolved: Resolved, inputs: Sequence[RankInput]) -> tuple[str, ...]:
    """Why less context, fewer sequences or an eager start may have made it worse."""
    if worst.fits:
        return ()
    longest = max((m.max_tokens for m in model.modalities), default=0)
    notes = all_that_hold(
        (
            worst.stage in _AFTER_KV and resolved.kv_cache_memory_bytes is None,
            "the KV cache takes all that the budget leaves: what is saved before it makes the cache larger, not the "
            "room behind it; --gpu-memory-utilization does",
        ),
        (
            inputs[0].peak == "encoder" and resolved.max_model_len < longest,
            "profiling encodes as many items as a batch holds, none longer than the context: a shorter context packs "
            "more of them",
        ),
        (
            resolved.enforce_eager and scaled_rotary(model),
            "an eager start keeps this model's rotary tables in 32 bits: twice what a compiled one holds",
        ),
    )
    return tuple(notes)


def utilization_notes(plan: Plan) -> tuple[str, ...]:
    """A start that fits, with less room for what follows it than is safe on such cards."""
    if plan.verdict.outcome != "fits" or "gpu_memory_utilization" not in plan.deployment.flags:
        return ()
    safe, share = safe_utilization(plan), plan.resolved["gpu_memory_utilization"]
    if share <= safe.value:
        return ()
    return (f"--gpu-memory-utilization {share:g} is above {safe.value:.2f}, the highest safe here: {safe.reason}",)


def refusal_text(refusal: Refusal) -> str:
    """An assertion without words has only its type to print."""
    return refusal.message or refusal.type


def refusal_notes(refusal: Refusal, model: Model, resolved: Resolved) -> tuple[str, ...]:
    if model.quantization is not None and model.quantization.method == GGUF:
        return (GGUF_NOTE,) if refusal.message == GGUF_REFUSAL.format(model=model.name) else ()
    tp, heads = resolved.tensor_parallel_size, model.num_kv_heads
    if refusal.message or not heads or tp % heads == 0 or heads % tp == 0:
        return ()
    return (f"{heads} KV heads and tensor parallel size {tp} do not divide: vLLM stops at a bare assertion",)
