"""From the memory that is free after loading to SGLang's pools: tokens, window tokens, state slots, requests.

`mem_cache/kv_cache_configurator.py` and `model_executor/pool_configurator.py` (0.5.23). Sizes are floats of GiB where
SGLang has them so: the token counts come out equal to the last one.
"""

import math

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.sglang.kv.cells import Cells, cells_of, state_bytes
from oomph.engines.sglang.kv.deepseek_v4 import v4_pool
from oomph.engines.sglang.resolve.settings import ModelShape, Settings
from oomph.facts.sglang.facts import Facts
from oomph.ir import Model
from oomph.units import GIB, MIB, round_up


class Pools(Struct, frozen=True):
    """What is allocated on one rank. `refusal`: SGLang's words where it cannot."""

    budget: int  # bytes for tokens, after states
    cells: Cells
    tokens: int = 0  # max_total_num_tokens
    window_tokens: int = 0
    bytes_per_token: float = 0.0
    token_bytes: int = 0
    window_bytes: int = 0
    state_slots: int = 0  # max_mamba_cache_size
    state_bytes: int = 0  # one slot, all layers of the rank
    states: int = 0  # all slots
    fixed_bytes: int = 0
    requests: int = 0  # max_running_requests
    requests_bound: str = ""  # what bounds them: "asked", "states", "tokens", "default"
    kind: str = "one pool"
    short_bytes: int = 0
    refusal: str = ""

    @property
    def allocated(self) -> int:
        return self.token_bytes + self.window_bytes + self.states + self.fixed_bytes


class Stage(Struct, frozen=True):
    """One pipeline stage: its layers, and the largest number of state layers of any stage."""

    layers: range
    state_layers: int  # of the stage that is charged


def size_pools(
    model: Model,
    shape: ModelShape,
    settings: Settings,
    facts: Facts,
    stage: Stage,
    before: float,
    free: float,
    most_tokens: int | None = None,
) -> Pools:
    """`before`, `free`: GiB free before and after loading. `most_tokens`: what the tightest other stage has."""
    slack = before * (1 - settings.mem_fraction_static)
    rest = free - slack - settings.image_cache_mib / 1024
    pools = Pools(0, cells_of(model, shape, settings, facts, stage.layers))
    if shape.states:
        pools, rest = _state_pool(pools, shape, settings, facts, stage, rest)
        if pools.refusal:
            return pools
    if rest <= 0 and facts.pools.budget_checked:
        return replace(pools, refusal=_no_budget(settings, before, free), short_bytes=max(1, round(-rest * GIB)))
    pools = replace(pools, budget=int(rest * GIB))
    pools = _token_pools(pools, model, shape, settings, facts, stage, most_tokens)
    if pools.refusal or pools.tokens <= 0:
        text = pools.refusal or _no_tokens(settings, facts)
        return replace(pools, refusal=text, short_bytes=pools.short_bytes or max(1, -pools.budget))
    return _requests(pools, shape, settings, facts)


def _no_budget(settings: Settings, before: float, free: float) -> str:
    least = 1 - free / before
    return (
        f"ValueError: Loaded weights leave no GPU memory for the KV cache under "
        f"--mem-fraction-static={settings.mem_fraction_static}. Raise --mem-fraction-static above "
        f"{math.ceil(least * 1000) / 1000:.3f} (minimum viable = 1 - available/pre = {least:.4f}). If using "
        f"speculative decoding, draft weights are now counted."
    )


def _no_tokens(settings: Settings, facts: Facts) -> str:
    text = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
    if facts.pools.window_pools == "cell":
        return text
    return f"{text} Current value: self.server_args.mem_fraction_static={settings.mem_fraction_static}"


def _state_pool(
    pools: Pools, shape: ModelShape, settings: Settings, facts: Facts, stage: Stage, rest: float
) -> tuple[Pools, float]:
    """_handle_max_mamba_cache: the slots of recurrent states, and what they leave for tokens."""
    rules, ranks = facts.pools, settings.attn_tp_size
    per_request = sum(state_bytes(state, ranks, settings.mamba_ssm_dtype) for _, state in shape.states)
    slot = int(per_request * stage.state_layers / len(shape.states)) if rules.states_per_stage else per_request
    spare = 1 if rules.spare_state else 0
    groups, drafts = settings.attn_dp_size, settings.speculative_num_draft_tokens if settings.drafts else 0
    limit = settings.max_running_requests
    budget = rest * settings.mamba_full_memory_ratio / (1 + settings.mamba_full_memory_ratio) * GIB
    steps = settings.states_per_request
    if settings.max_mamba_cache_size is not None:
        slots = settings.max_mamba_cache_size // groups
        running = min(max(1, (limit or 1) // groups), slots // steps)
    elif settings.disable_radix_cache and (limit is not None or rules.states_from_requests == "512"):
        slots = max(1, (limit or 512) // groups)
        running = slots
    elif drafts:
        slots = int((budget - spare * slot * (1 + drafts)) // (slot * (1 + drafts / steps)))
        running = min(max(1, (limit or 1) // groups), slots // steps)
    else:
        slots, running = int((budget - spare * slot) // slot), 0
    verified = slot * max(0, running + spare) * drafts  # the states after each draft, until it is verified
    rest -= verified / GIB
    pools = replace(pools, state_slots=slots, state_bytes=slot, fixed_bytes=verified)
    if slots <= 0 and rules.states_checked:
        text = (
            f"RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed "
            f"max_mamba_cache_size={slots} (total_rest_memory={rest:.2f} GB, "
            f"mamba_cache_per_req={slot / MIB:.2f} MB). Try: (1) reduce --max-running-requests, (2) increase "
            f"--mem-fraction-static, (3) reduce --speculative-num-draft-tokens, or (4) use GPUs with more memory."
        )
        share = slot * (1 + spare) * (1 + settings.mamba_full_memory_ratio) / settings.mamba_full_memory_ratio
        return replace(pools, refusal=text, short_bytes=max(1, round(share - rest * GIB))), rest
    states = (slots + spare) * slot
    return replace(pools, states=states), rest - states / GIB


def _token_pools(
    pools: Pools, model: Model, shape: ModelShape, settings: Settings, facts: Facts, stage: Stage, most: int | None
) -> Pools:
    if shape.is_v4:
        return _v4(pools, model, shape, settings, facts, stage, most)
    if not shape.has_windows or shape.window is None:
        return _one_pool(pools, settings, most)
    if facts.pools.window_pools == "tokens per layer":
        return _tokens_per_layer(pools, shape, settings, most)
    if facts.pools.window_from_requests and _follows_requests(settings) and pools.cells.full_layers:
        return _window_from_requests(pools, shape, settings, facts, most)
    return _window_by_ratio(pools, shape, settings, facts, most)


def _limit(tokens: int, settings: Settings, most: int | None) -> int:
    """_apply_token_constraints, then whole pages."""
    for bound in (settings.max_total_tokens, most):
        tokens = tokens if bound is None else min(tokens, bound)
    return tokens // settings.page_size * settings.page_size


def _one_pool(pools: Pools, settings: Settings, most: int | None) -> Pools:
    cell = pools.cells.full
    tokens = pools.budget // cell if cell else settings.max_total_tokens or settings.context_length
    tokens = _limit(tokens, settings, most)
    return replace(pools, tokens=tokens, bytes_per_token=cell, token_bytes=(tokens + settings.page_size) * cell)


def _window_by_ratio(pools: Pools, shape: ModelShape, settings: Settings, facts: Facts, most: int | None) -> Pools:
    """HybridSWAPoolConfigurator: the window pool has a fixed share of the full pool's tokens, whatever the window."""
    cells, page = pools.cells, settings.page_size
    if not cells.full_layers:
        tokens = _limit(int(pools.budget // cells.window), settings, most)
        size = (tokens + page) * cells.window
        return replace(
            pools, tokens=tokens, window_tokens=tokens, bytes_per_token=cells.window, window_bytes=size, kind="windows"
        )
    cell = cells.full + settings.swa_full_tokens_ratio * cells.window
    tokens = _limit(int(pools.budget // cell), settings, most)
    windows = int(tokens * settings.swa_full_tokens_ratio) // page * page
    pools = _with_window(pools, settings, tokens, windows, cell)
    return _window_checked(pools, shape, settings) if facts.pools.window_checked else pools


def _with_window(pools: Pools, settings: Settings, tokens: int, windows: int, cell: float) -> Pools:
    page = settings.page_size
    return replace(
        pools,
        tokens=tokens,
        window_tokens=windows,
        bytes_per_token=cell,
        token_bytes=(tokens + page) * pools.cells.full,
        window_bytes=(windows + page) * pools.cells.window,
        kind="full and window",
    )


def _window_checked(pools: Pools, shape: ModelShape, settings: Settings) -> Pools:
    window = window_size(shape)
    if not window or window + settings.page_size < pools.window_tokens:
        return pools
    text = (
        f"ValueError: SWA pool ({pools.window_tokens} tokens) cannot hold even one request: the prefill admission "
        f"floor is sliding_window_size ({window}) + page_size ({settings.page_size}). Increase "
        f"--swa-full-tokens-ratio or the total KV budget."
    )
    need = (window + settings.page_size + 1) / max(settings.swa_full_tokens_ratio, 1e-6) * pools.bytes_per_token
    return replace(pools, refusal=text, short_bytes=max(1, round(need - pools.budget)))


def window_size(shape: ModelShape) -> int:
    layer = shape.window or (shape.full if shape.is_v4 else None)
    return 0 if layer is None else layer.window or layer.chunk


def _follows_requests(settings: Settings) -> bool:
    chunked = settings.chunked_prefill_size > 0 or settings.disaggregation_mode == "decode"
    return settings.disable_radix_cache and settings.max_running_requests is not None and chunked


def request_window_tokens(settings: Settings, facts: Facts, window: int) -> int:
    """compute_swa_request_cap: what the running requests can hold of the window pool at most."""
    page, drafts = settings.page_size, settings.speculative_num_draft_tokens or 1
    trailing = window + facts.pools.eviction_interval * drafts + page
    decode = page if not settings.drafts else 2 * max(page, drafts)
    requests = max(1, (settings.max_running_requests or 1) // settings.attn_dp_size)
    if settings.disaggregation_mode == "decode":
        return (trailing + decode) * requests
    chunks = 1 if settings.disable_overlap_schedule else 2
    return (trailing + decode) * requests + chunks * settings.chunked_prefill_size + page


def _window_from_requests(pools: Pools, shape: ModelShape, settings: Settings, facts: Facts, most: int | None) -> Pools:
    cells, page = pools.cells, settings.page_size
    windows = round_up(request_window_tokens(settings, facts, window_size(shape)), page)
    fixed = windows * cells.window
    tokens = (pools.budget - fixed) // cells.full // page * page
    if tokens <= 0:
        text = (
            f"RuntimeError: SWA pool cap ({windows} tokens, {fixed / GIB:.2f} GiB) leaves no room for the full KV pool "
            f"within the available {pools.budget / GIB:.2f} GiB. Reduce --max-running-requests, lower "
            f"SGLANG_SWA_EVICTION_INTERVAL, or increase --mem-fraction-static."
        )
        return replace(pools, refusal=text, short_bytes=max(1, fixed + page * cells.full - pools.budget))
    limited = _limit(tokens, settings, most)
    if limited != tokens:
        windows = min(windows, limited)
    return _with_window(pools, settings, limited, windows, cells.full)


def _tokens_per_layer(pools: Pools, shape: ModelShape, settings: Settings, most: int | None) -> Pools:
    """set_num_tokens_hybrid_swa (to 0.5.10): tokens as if all layers were alike, then shared out by the ratio."""
    cells, page, ratio = pools.cells, settings.page_size, settings.swa_full_tokens_ratio
    layers = cells.full_layers + cells.window_layers
    per_layer = max(cells.full // max(1, cells.full_layers), cells.window // max(1, cells.window_layers))
    alike = _limit(pools.budget // (per_layer * layers), settings, most)
    tokens = int(alike * layers / (ratio * cells.window_layers + cells.full_layers))
    windows = int(tokens * ratio) // page * page
    tokens = tokens // page * page
    return _with_window(pools, settings, tokens, windows, cells.full + ratio * cells.window)


def _v4(
    pools: Pools, model: Model, shape: ModelShape, settings: Settings, facts: Facts, stage: Stage, most: int | None
) -> Pools:
    """DSV4PoolConfigurator.calculate_pool_sizes."""
    page, ratio = settings.page_size, settings.swa_full_tokens_ratio
    pool = v4_pool(model, settings, facts, stage.layers)
    tokens = _limit(int(max(pools.budget - pool.fixed, 0) / pool.per_token), settings, most)
    windows = int(tokens * ratio) // page * page
    per_full = pool.per_token - ratio * pool.per_window_token
    pools = replace(
        pools,
        tokens=tokens,
        window_tokens=windows,
        bytes_per_token=pool.per_token,
        token_bytes=round((tokens + page) * per_full),
        window_bytes=round((windows + page) * pool.per_window_token),
        fixed_bytes=pool.fixed,
        kind="compressed",
    )
    return _window_checked(pools, shape, settings) if facts.pools.window_checked else pools


def _requests(pools: Pools, shape: ModelShape, settings: Settings, facts: Facts) -> Pools:
    """resolve_max_num_reqs."""
    rules, tokens = facts.pools, pools.tokens
    count = settings.max_running_requests
    if count is None and shape.is_v4:
        count = rules.v4_requests
    estimate = max(min(int(tokens / settings.context_length * 512), rules.most_requests), rules.fewest_requests)
    if count is not None:
        requests, bound = count // settings.attn_dp_size, "asked"
        if rules.at_least_one_request:
            requests = max(1, requests)
        limit = tokens // 2 if rules.asked_requests_bounded == "half the tokens" else estimate
        if limit < requests and rules.half_the_tokens:
            requests, bound = limit, "tokens"
    else:
        requests, bound = estimate, "default"
        if rules.half_the_tokens and tokens // 2 < requests:
            requests, bound = tokens // 2, "tokens"
    if shape.states:
        by_states = pools.state_slots // settings.states_per_request
        if by_states < requests:
            requests, bound = by_states, "states"
        if requests <= 0 and rules.states_checked:
            text = (
                f"RuntimeError: Hybrid (mamba/linear-attention) state cache is too small to serve any requests. "
                f"max_mamba_cache_size={pools.state_slots}, mamba_ratio={settings.states_per_request}, resulting "
                f"max_num_reqs={requests}. Try: (1) reduce --max-running-requests, (2) increase --mem-fraction-static, "
                f"or (3) use GPUs with more memory."
            )
            short = (settings.states_per_request - pools.state_slots) * pools.state_bytes
            return replace(pools, refusal=text, short_bytes=max(1, short))
    return replace(pools, requests=requests, requests_bound=bound)
