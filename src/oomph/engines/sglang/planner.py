"""Model and deployment -> Plan, for SGLang: resolve, weigh, size the pools, walk the stages."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from oomph.engines.common.ranks import Rank, ranks_on
from oomph.engines.common.shard import Layout, stage_layers
from oomph.engines.sglang.drafts import drafter_row
from oomph.engines.sglang.kv.buffers import Buffers, buffers_of, fixed_workspace
from oomph.engines.sglang.kv.pools import Pools, Stage, size_pools
from oomph.engines.sglang.resolve.refusals import refusal_before_load
from oomph.engines.sglang.resolve.settings import ModelShape, Settings, is_window
from oomph.engines.sglang.resolve.steps import resolve
from oomph.engines.sglang.safe_fraction import decoding_without_graph, safe_fraction
from oomph.engines.sglang.terms import DEFAULT_MULTIPROCESSORS, Terms, rank_terms
from oomph.engines.sglang.timeline import LIBRARIES, RankState, steps, verdict_of
from oomph.engines.sglang.weights.lora import lora_of
from oomph.engines.sglang.world import own_gpus
from oomph.facts.sglang.facts import Facts, at as facts_at
from oomph.ir import STAGES, Attention, Deployment, Device, KvGroup, KvSummary, Model, Plan, RankPlan, Term, Verdict
from oomph.ir.gate import quadrature, worst
from oomph.text.tables import all_that_hold
from oomph.units import GIB, MIB, cdiv


def plan_sglang(model: Model, deployment: Deployment, draft: Model | None = None) -> Plan:
    """`draft`: the model that --speculative-draft-model-path names, where it is another one."""
    facts = facts_at(deployment.engine.version)
    settings, shape = resolve(model, deployment, draft)
    notes = (*deployment.notes, *model.warnings)
    refusal = settings.refusal or refusal_before_load(model, shape, settings, facts, deployment)
    if refusal:
        resolved = settings.summary() | {"max_num_seqs": settings.max_running_requests or 0}
        return Plan(deployment, model.name, Verdict(False, "other", 0, refusal), resolved=resolved, warnings=notes)
    ranks = ranks_on(own_gpus(deployment), settings.tp_size, settings.pp_size, settings.dp_size)
    terms = [rank_terms(model, shape, settings, facts, deployment, rank, draft) for rank in _distinct(ranks)]
    terms = _every_rank(ranks, terms)
    pools = _pools(model, shape, settings, facts, ranks, terms, deployment)
    observed = "free_before_load" in deployment.given and "weights" in deployment.given
    states = [
        _rank_state(model, shape, settings, facts, rank, own, sized, draft, observed=observed)
        for rank, own, sized in zip(ranks, terms, pools, strict=True)
    ]
    plans = tuple(_rank_plan(state) for state in states)
    tightest = min(pools, key=lambda p: (not p.refusal, p.tokens))
    plan = Plan(
        deployment,
        model=model.name,
        verdict=worst([p.verdict for p in plans], STAGES),
        ranks=plans,
        kv=_kv_summary(model, shape, settings, tightest),
        resolved=_summary(settings, tightest),
        assumptions=_assumptions(deployment),
        warnings=(*notes, *_notes(model, shape, settings, tightest)),
    )
    return _with_adapters(replace(plan, warnings=(*plan.warnings, *_share_notes(plan))), model)


def _with_adapters(plan: Plan, model: Model) -> Plan:
    lora = lora_of(model, plan.deployment.flags)
    if lora is None:
        return plan
    if lora.is_assumed:
        note = f"an adapter is not on this machine: rank {lora.rank} and every linear layer are assumed for its slots"
        plan = replace(plan, warnings=(*plan.warnings, note))
    if lora.risk and plan.verdict.outcome == "fits":
        plan = replace(plan, verdict=replace(plan.verdict, risk=lora.risk))
    return plan


def _share_notes(plan: Plan) -> tuple[str, ...]:
    """A start that fits, with less room for what follows it than is safe."""
    share = plan.deployment.flags.get("mem_fraction_static")
    if plan.verdict.outcome != "fits" or share is None:
        return ()
    safe = safe_fraction(plan)
    if float(share) <= safe.value:
        return ()
    return (f"--mem-fraction-static {share:g} is above {safe.value:.2f}, the highest safe here: {safe.reason}",)


def _rank_state(
    model: Model,
    shape: ModelShape,
    settings: Settings,
    facts: Facts,
    rank: Rank,
    terms: Terms,
    pools: Pools,
    draft: Model | None,
    *,
    observed: bool,
) -> RankState:
    multiprocessors = rank.device.sm_count or DEFAULT_MULTIPROCESSORS
    buffers = buffers_of(model, shape, settings, facts, pools, multiprocessors)
    beside = {LIBRARIES: _after_load(facts, rank.device)}
    if settings.drafts and not facts.drafts.counted:  # both come after the pools, out of the unreserved rest
        row = drafter_row(model, draft, settings, pools.cells.full // max(1, pools.cells.full_layers))
        beside |= {"drafter": terms.drafter_bytes, "drafter's cache": row * (pools.tokens + settings.page_size)}
    workspace = _workspace(settings, buffers, beside)
    decoding = decoding_without_graph(model, shape, settings, facts, pools, multiprocessors)
    return RankState(
        rank,
        settings=settings,
        terms=terms,
        pools=pools,
        buffers=buffers,
        workspace=workspace,
        decoding=decoding,
        observed=observed,
    )


def _workspace(settings: Settings, buffers: Buffers, beside: dict[str, int]) -> Term:
    fixed = fixed_workspace(settings)
    parts = {**buffers.parts, **{name: size for name, size in beside.items() if size}, "kernels' own": fixed}
    total = sum(parts.values())
    why = "buffers by the settings; what kernels take from posted start-ups"
    return Term(
        "non_torch",
        total,
        total - round(0.3 * fixed),
        total + round(0.3 * fixed) + total // 50,
        "formula",
        parts,
        why=why,
    )


def _distinct(ranks: Sequence[Rank]) -> list[Rank]:
    """Ranks of one stage on equal cards are alike."""
    seen: dict[tuple[Any, ...], Rank] = {}
    for rank in ranks:
        seen.setdefault((rank.pp_rank, rank.device), rank)
    return list(seen.values())


def _every_rank(ranks: Sequence[Rank], terms: Sequence[Terms]) -> list[Terms]:
    terms_of = {(rank.pp_rank, rank.device): t for rank, t in zip(_distinct(ranks), terms, strict=True)}
    return [terms_of[rank.pp_rank, rank.device] for rank in ranks]


def _pools(
    model: Model,
    shape: ModelShape,
    settings: Settings,
    facts: Facts,
    ranks: Sequence[Rank],
    terms: Sequence[Terms],
    deployment: Deployment,
) -> list[Pools]:
    """Both readings of free memory are the smallest of all ranks (get_available_gpu_memory, distributed), and the
    stages agree on the smallest number of tokens."""
    before = min(t.free_before_load.bytes for t in terms)
    after = min(t.free_before_load.bytes - t.weights.bytes for t in terms) - _after_load(facts, ranks[0].device)
    pinned = deployment.given.get("available_kv")
    if pinned is not None:  # what a log says of the pools: the weights are what is left of the share
        after = round(pinned + before * (1 - settings.mem_fraction_static) + (settings.image_cache_mib << 20))
    stages = [_stage(model, shape, settings, rank) for rank in range(settings.pp_size)]
    sized = [size_pools(model, shape, settings, facts, s, before / GIB, after / GIB) for s in stages]
    if len(sized) > 1 and not any(p.refusal for p in sized):
        least = min(p.tokens for p in sized)
        sized = [size_pools(model, shape, settings, facts, s, before / GIB, after / GIB, least) for s in stages]
    return [sized[rank.pp_rank] for rank in ranks]


def _after_load(facts: Facts, device: Device) -> int:
    """What is gone when free memory is read again, beside the weights."""
    return (facts.memory.after_load_hopper if device.sm == 90 else facts.memory.after_load_elsewhere) * MIB


def _stage(model: Model, shape: ModelShape, settings: Settings, pp_rank: int) -> Stage:
    """distributed/utils.py get_pp_indices is vLLM's."""
    count, pp = len(model.layers), settings.pp_size
    spans = [stage_layers(count, Layout(pp=pp, pp_rank=rank)) for rank in range(pp)]
    most = max(sum(1 for index, _ in shape.states if index in span) for span in spans)
    return Stage(spans[pp_rank], most)


def _rank_plan(state: RankState) -> RankPlan:
    timeline = steps(state)
    own, device = state.terms, state.rank.device
    kv = _available(state)
    terms = {
        term.name: term
        for term in (own.weights, own.load_peak, own.context, own.free_before_load, state.workspace, own.activation)
    }
    terms |= {"cudagraph": own.cudagraph, "available_kv": kv}
    return RankPlan(
        state.rank.index,
        gpu=device.name,
        total_bytes=device.total_bytes,
        used_by_others_bytes=device.used_bytes,
        terms=terms,
        stages=tuple(step.stage for step in timeline),
        verdict=verdict_of(state, timeline),
        created_bytes=own.created_bytes,
        requested_bytes=round(own.free_before_load.bytes * state.settings.mem_fraction_static),
    )


def _available(state: RankState) -> Term:
    """The share of what was free less the weights: as sure as the two."""
    terms, share = state.terms, state.settings.mem_fraction_static
    n = state.pools.budget + state.pools.states
    free = terms.free_before_load
    less = quadrature((round((free.bytes - free.low) * share), terms.weights.high - terms.weights.bytes))
    more = quadrature((round((free.high - free.bytes) * share), terms.weights.bytes - terms.weights.low))
    return Term("available_kv", n, n - less, n + more, "formula", {}, why="the share less the weights")


def _kv_summary(model: Model, shape: ModelShape, settings: Settings, pools: Pools) -> KvSummary:
    page = settings.page_size
    length = settings.context_length
    per_token = pools.bytes_per_token or pools.cells.full + settings.swa_full_tokens_ratio * pools.cells.window
    slots = pools.state_bytes * settings.states_per_request
    need = round(cdiv(length, page) * page * per_token) + slots
    concurrency = pools.tokens / length if length else 0.0
    if pools.requests_bound == "states":
        concurrency = min(concurrency, pools.state_slots / settings.states_per_request)
    pages = pools.tokens // page
    return KvSummary(
        pools.budget + pools.states,
        num_blocks=pages,
        bytes_per_block=pools.allocated // pages
        if pages
        else round(per_token * page),  # its part of windows and states included
        block_size=page,
        logged_tokens=pools.tokens,
        max_concurrency=round(concurrency, 2),
        groups=tuple(_groups(model, shape, settings, pools)),
        need_bytes=need,
        longest_request=min(length, pools.tokens),
        log_lines=_log_lines(settings, pools),
    )


def _groups(model: Model, shape: ModelShape, settings: Settings, pools: Pools) -> list[KvGroup]:
    page, cells = settings.page_size, pools.cells
    chunked = shape.window is not None and shape.window.kind == "chunked_local"
    windowed = "chunked_local" if chunked else "sliding_window"
    windows = sum(is_window(layer, shape) for layer in model.layers) if shape.is_v4 else 0
    return all_that_hold(
        (shape.is_latent, KvGroup("mla", cells.full_layers, page, cells.full * page)),
        (not shape.is_latent and cells.full_layers, KvGroup("full", cells.full_layers, page, cells.full * page)),
        (cells.window_layers, KvGroup(windowed, cells.window_layers, page, cells.window * page)),
        (shape.states, KvGroup("mamba", len(shape.states), 1, pools.state_bytes, settings.states_per_request)),
        (shape.is_v4, KvGroup("compressed", len(model.layers), page, round(pools.bytes_per_token * page), windows)),
    )


def _log_lines(settings: Settings, pools: Pools) -> tuple[str, ...]:
    window = f"Use sliding window memory pool. full_layer_tokens={pools.tokens}, swa_layer_tokens={pools.window_tokens}"
    line = (
        f"max_total_num_tokens={pools.tokens}, chunked_prefill_size={settings.chunked_prefill_size}, "
        f"max_prefill_tokens={settings.max_prefill_tokens}, max_running_requests={pools.requests}, "
        f"context_len={settings.context_length}"
    )
    return (window, line) if pools.window_tokens else (line,)


def _summary(settings: Settings, pools: Pools) -> dict[str, Any]:
    """The pools have the last word on requests and slots."""
    summary = settings.summary()
    summary["max_total_num_tokens"] = pools.tokens
    summary["max_running_requests"] = summary["max_num_seqs"] = pools.requests
    if pools.window_tokens:
        summary["swa_max_total_num_tokens"] = pools.window_tokens
    if pools.state_slots:
        summary["max_mamba_cache_size"] = pools.state_slots
        summary["mamba_slots_per_request"] = settings.states_per_request
        summary["mamba_bytes_per_slot"] = pools.state_bytes
    return summary


def _assumptions(deployment: Deployment) -> tuple[str, ...]:
    lines = all_that_hold(
        (
            "free_before_load" not in deployment.given,
            "Free memory before loading: the card's total less context and communicators as start-ups posted it",
        ),
        (True, "Graphs and workspaces: as posted start-ups printed them, good to half; SGLang measures neither"),
        (
            deployment.gpus and deployment.gpus[0].vendor != "nvidia",
            "AMD and Intel: kernels and reserves as on NVIDIA cards; those of ROCm and XPU were not read",
        ),
    )
    return tuple(lines)


def _notes(model: Model, shape: ModelShape, settings: Settings, pools: Pools) -> list[str]:
    if pools.refusal:
        return []
    windows = [m for x in model.layers for m in x.mixers if isinstance(m, Attention) and m.kind == "sliding_window"]
    return all_that_hold(
        (
            pools.requests_bound == "states",
            f"recurrent states bound the requests: {pools.state_slots} slots of {pools.state_bytes / MIB:.1f} MiB, "
            f"{settings.states_per_request} for each request, let {pools.requests} run at once",
        ),
        (
            windows and not shape.has_windows,
            f"SGLang keeps every token in all layers of {model.architecture}: {len(windows)} sliding-window layers "
            f"save nothing",
        ),
        (
            pools.tokens < settings.context_length,
            f"the pool holds {pools.tokens:,} tokens: the settings allow requests of {settings.context_length:,}, but "
            f"one that is longer than the pool is refused when it comes",
        ),
    )
