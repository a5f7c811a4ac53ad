"""Model and deployment -> Plan, for TensorRT-LLM's PyTorch backend: resolve, weigh, size the pools, walk the stages."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from oomph.engines.common.ranks import Rank, ranks_on
from oomph.engines.trtllm.kv.pool import (
    Cells,
    Pool,
    cells_of,
    clamped_blocks,
    kv_budget,
    made_large_by,
    size_pool,
    temporary_blocks,
    with_draft,
)
from oomph.engines.trtllm.notes import assumptions, warnings
from oomph.engines.trtllm.resolve import resolve
from oomph.engines.trtllm.settings import Settings
from oomph.engines.trtllm.terms import rank_terms
from oomph.engines.trtllm.timeline import RankState, components, request_bytes, stages, verdict_of
from oomph.facts.trtllm.facts import Facts, at as facts_at
from oomph.facts.trtllm.memory import TORCH_SPARED
from oomph.ir import STAGES, Basis, Deployment, KvGroup, KvSummary, Model, Plan, RankPlan, Term, Verdict
from oomph.ir.gate import quadrature, worst
from oomph.units import GIB


def plan_trtllm(model: Model, deployment: Deployment, draft: Model | None = None) -> Plan:
    """`draft`: the model of a drafter that has a checkpoint of its own."""
    facts = facts_at(deployment.engine.version)
    settings = resolve(model, deployment, facts)
    notes = (*deployment.notes, *model.warnings)
    if settings.refusal:
        verdict = Verdict(False, "other", 0, settings.refusal)
        return Plan(deployment, model.name, verdict, resolved=settings.summary(), warnings=notes)
    states = rank_states(model, deployment, settings, facts, draft)
    tightest = min(states, key=lambda state: (state.pool.tokens, state.pool.budget))
    ranks = tuple(_rank_plan(state) for state in states)
    verdict = worst([rank.verdict for rank in ranks], STAGES)
    return Plan(
        deployment,
        model=model.name,
        verdict=verdict,
        ranks=ranks,
        kv=_kv_summary(tightest),
        resolved=_summary(tightest),
        assumptions=assumptions(deployment, tightest),
        warnings=(*notes, *warnings(model, tightest, verdict.fits)),
    )


def rank_states(
    model: Model, deployment: Deployment, settings: Settings, facts: Facts, draft: Model | None = None
) -> list[RankState]:
    """Every rank's memory; the pools agree on the smallest number of blocks (an MPI allreduce with MIN)."""
    ranks = ranks_on(deployment.gpus, settings.tp_size, settings.pp_size)
    states: dict[tuple[Any, ...], RankState] = {}
    for rank in ranks:
        key = (rank.pp_rank, rank.device)
        if key not in states:
            states[key] = _state(model, deployment, settings, facts, rank, draft)
    if len(states) > 1:
        least = {
            window: min(s.pool.blocks.get(window, 0) for s in states.values())
            for window in next(iter(states.values())).pool.blocks
        }
        states = {key: replace(state, pool=_cut(state, least)) for key, state in states.items()}
    return [replace(states[rank.pp_rank, rank.device], rank=rank) for rank in ranks]


def _cut(state: RankState, blocks: dict[int, int]) -> Pool:
    size = state.settings.tokens_per_block
    per_token = state.cells.windows
    total = sum(count * size * per_token.get(window, state.cells.pool) for window, count in blocks.items())
    return replace(state.pool, blocks=blocks, pool_bytes=total)


def _state(
    model: Model, deployment: Deployment, settings: Settings, facts: Facts, rank: Rank, draft: Model | None
) -> RankState:
    device, pins = rank.device, deployment.given
    last = rank.pp_rank == settings.pp_size - 1
    terms = rank_terms(model, settings, deployment, rank, draft if last else None)
    cells = cells_of(model, settings, facts, rank.pp_rank)
    if draft is not None and last:
        alone = replace(settings, pp_size=1, pp_partition=(), draft_layers=0, windows=())
        cells = with_draft(cells, cells_of(draft, alone, facts), apart=settings.draft_apart)
    states = cells.state * settings.max_batch_size * settings.pp_size
    free = device.total_bytes - device.used_bytes - terms.context.bytes - terms.weights.bytes
    blocks = clamped_blocks(temporary_blocks(settings, facts), settings, facts, free, cells.pool)
    # in the estimation pass every window gets the same number of blocks, so that all layers hold all of them
    temporary = pins.get("temporary_kv", blocks * settings.tokens_per_block * cells.pool)
    resident = device.used_bytes + sum(term.bytes for term in terms.resident) + states
    peak = pins.get("peak", resident + temporary + terms.activation.bytes)
    if not settings.estimates and "peak" not in pins:
        peak = device.used_bytes + terms.context.bytes + terms.weights.bytes + states
    budget = pins.get("available_kv", kv_budget(device.total_bytes, peak, temporary, settings.free_gpu_memory_fraction))
    # what the dummy prefill took is free again when the real pool is allocated
    free = pins.get("free_before_kv", device.total_bytes - peak + temporary + terms.activation.bytes)
    pool = size_pool(budget, cells, settings, facts, free)
    pinned = "peak" in pins or "available_kv" in pins
    return RankState(
        rank,
        settings=settings,
        facts=facts,
        terms=terms,
        cells=cells,
        temporary_blocks=blocks,
        temporary_bytes=temporary,
        peak=peak,
        peak_pinned=pinned,
        pool=pool,
        states_bytes=states,
    )


def _rank_plan(state: RankState) -> RankPlan:
    own, device = state.terms, state.rank.device
    ledger = (
        own.weights,
        own.load_peak,
        own.context,
        own.runner,
        own.non_torch,
        own.activation,
        own.cudagraph,
        own.decode_logits,
    )
    terms = {term.name: term for term in ledger}
    why = "freed before the real pool is allocated"
    extra = Term(
        "temporary_kv", state.temporary_bytes, state.temporary_bytes, state.temporary_bytes, "formula", {}, why=why
    )
    terms |= {"temporary_kv": extra, "peak": _peak(state), "available_kv": _available(state)}
    if state.states_bytes:
        n = state.states_bytes
        terms["state"] = Term("state", n, n, n, "formula", {}, why="one slot for every request of the largest batch")
    share = state.settings.free_gpu_memory_fraction
    return RankPlan(
        state.rank.index,
        gpu=device.name,
        total_bytes=device.total_bytes,
        used_by_others_bytes=device.used_bytes,
        terms=terms,
        stages=stages(state),
        verdict=verdict_of(state),
        created_bytes=own.weights.bytes,
        requested_bytes=round((device.total_bytes - state.peak + state.temporary_bytes) * share),
    )


def _spread(state: RankState) -> tuple[int, int]:
    """How far the peak may be below and above what is expected."""
    if state.peak_pinned:
        return 0, 0
    terms: Sequence[Term] = (*state.terms.resident, state.terms.activation)
    return quadrature(t.bytes - t.low for t in terms), quadrature(t.high - t.bytes for t in terms)


def _peak(state: RankState) -> Term:
    less, more = _spread(state)
    basis: Basis = "given" if state.peak_pinned else "formula"
    why = "what the dummy run would measure, the temporary pool included"
    return Term("peak", state.peak, state.peak - less, state.peak + more, basis, {}, why=why)


def _available(state: RankState) -> Term:
    share, n = state.settings.free_gpu_memory_fraction, state.pool.budget
    less, more = _spread(state)
    basis: Basis = "given" if state.peak_pinned else "formula"
    why = f"{share:g} of the total less the peak, the temporary pool added back"
    return Term("available_kv", n, n - round(more * share), n + round(less * share), basis, {}, why=why)


def _kv_summary(state: RankState) -> KvSummary:
    settings, pool, cells = state.settings, state.pool, state.cells
    block = settings.tokens_per_block
    blocks = sum(pool.blocks.values())
    length = settings.max_seq_len
    served = min(length, pool.served_length)
    need = request_bytes(length, cells, settings)
    return KvSummary(
        max(pool.budget, pool.pool_bytes),  # older releases round the blocks up: the pool has a few tokens more
        num_blocks=blocks,
        bytes_per_block=pool.pool_bytes // blocks if blocks else cells.pool * block,
        block_size=block,
        logged_tokens=pool.tokens,
        max_concurrency=round(_concurrency(pool, cells, settings, length), 2),
        groups=tuple(_groups(cells, block)),
        need_bytes=need + cells.state,
        longest_request=served,
        log_lines=log_lines(state),
    )


def _concurrency(pool: Pool, cells: Cells, settings: Settings, length: int) -> float:
    """Requests of the whole context at once, by the window that runs out first."""
    block, beams = settings.tokens_per_block, settings.max_beam_width
    counts = [n / (-(-min(length, window) // block) * beams) for window, n in pool.blocks.items()]
    counts += [float(settings.max_batch_size)] if cells.state else []
    return min(counts, default=0.0) if length else 0.0


def _groups(cells: Cells, block: int) -> list[KvGroup]:
    kind = "mla" if cells.latent else "full"
    longest = max(cells.windows, default=0)
    groups = [
        KvGroup(kind if window == longest else "sliding_window", cells.layers[window], block, size * block)
        for window, size in cells.windows.items()
    ]
    return [*groups, KvGroup("mamba", cells.state_layers, 1, cells.state, 1)] if cells.state else groups


def log_lines(state: RankState) -> tuple[str, ...]:
    """What the log would print, in the release's own words."""
    settings, pool, rules = state.settings, state.pool, state.facts.memory
    total = state.total / GIB
    lines = [f"Use {state.terms.printed_weights / GIB:.2f} GB for model weights."]
    if settings.estimates:
        tokens = state.temporary_blocks * settings.tokens_per_block
        lines += [
            _allocated(state.temporary_bytes, tokens),
            f"Peak memory during memory usage profiling (torch + non-torch): {state.peak / GIB:.2f} GiB, available KV "
            f"cache memory when calculating max tokens: {pool.budget / GIB:.2f} GiB, fraction is set "
            f"{settings.free_gpu_memory_fraction}, kv size is {state.cells.estimated}. device total memory "
            f"{total:.2f} GiB, , tmp kv_mem {state.temporary_bytes / GIB:.2f} GiB",
        ]
        if rules.prints_estimated_memory:
            lines.append(f"Estimated max memory in KV cache : {pool.budget / GIB:.2f} GiB")
        else:
            lines.append(f"Estimated max tokens in KV cache : {pool.estimated_tokens}")
    if pool.served_length < settings.max_seq_len:
        lines.append(f"Adjusted max_seq_len to {pool.served_length}")
    lines.append(_allocated(pool.pool_bytes, pool.tokens))
    if rules.caps_torch:
        cap = (state.total - pool.pool_bytes - state.base - TORCH_SPARED) / GIB
        lines.append(f"Setting PyTorch memory fraction to {cap / total:.4f} ({cap:.2f} GiB)")
    return tuple(lines)


def _allocated(size: int, tokens: int) -> str:
    return f"[MemUsageChange] Allocated {size / GIB:.2f} GiB for max tokens in paged KV cache ({tokens})."


def _summary(state: RankState) -> dict[str, Any]:
    summary = state.settings.summary()
    pool = state.pool
    summary |= {
        "temporary_blocks": state.temporary_blocks,
        "temporary_pool_follows": made_large_by(state.settings, state.facts),
        "kv_bytes_per_token": state.cells.estimated,
        "pool_bytes_per_token": state.cells.pool,
        "estimated_tokens": pool.estimated_tokens,
        "blocks_per_window": {str(window): count for window, count in pool.blocks.items()},
        "served_max_seq_len": pool.served_length,
        "reserve_bytes": max(0, state.reserve),
        "pool_limited_by": pool.limited_by,
    }
    summary["components"] = [
        {
            "name": step.name[0],
            "stage": step.stage,
            "free_before": max(0, step.before),
            "free_after": max(0, step.after),
        }
        for step in components(state)
    ]
    if state.cells.state:
        summary["state_bytes_per_slot"] = state.cells.state
    return summary
