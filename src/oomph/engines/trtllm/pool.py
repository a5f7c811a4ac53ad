"""From the measured peak to the KV pools: the budget, its tokens, blocks per window, the context that is served."""

from __future__ import annotations

import math

from msgspec import Struct

from oomph.engines.trtllm.cells import Cells
from oomph.engines.trtllm.settings import Settings
from oomph.facts.trtllm.facts import Facts
from oomph.units import cdiv


class Pool(Struct, frozen=True):
    """What is allocated on one rank."""

    budget: int  # "available KV cache memory when calculating max tokens"
    estimated_tokens: int  # the budget over the estimator's bytes per token
    blocks: dict[int, int]  # window -> primary blocks
    pool_bytes: int
    served_length: int  # max_seq_len after clamping
    limited_by: str = "budget"  # "max_tokens", "max_gpu_total_bytes", "free memory"
    tokens_per_block: int = 32

    @property
    def tokens(self) -> int:
        """As "max tokens in paged KV cache" counts them: all windows' blocks."""
        return sum(self.blocks.values()) * self.tokens_per_block

    @property
    def request_blocks(self) -> int:
        """Blocks of the longest window: what bounds the requests that are served at once."""
        return self.blocks[max(self.blocks)] if self.blocks else 0


def kv_budget(total: int, peak: int, temporary: int, fraction: float) -> int:
    """_util.py _cal_max_memory."""
    return int((total - peak + temporary) * fraction)


def size_pool(budget: int, cells: Cells, settings: Settings, facts: Facts, free: int) -> Pool:
    """`free`: what is free when the pool is allocated. It limits the pool where a token takes more there than the
    estimator counts: fewer KV heads than ranks, and multi-token-prediction layers."""
    estimated = max(0, budget) // cells.estimated if cells.estimated else 0
    limit, limited_by = max(0, budget), "budget"
    if settings.max_gpu_total_bytes and facts.memory.has_byte_limit and settings.max_gpu_total_bytes < limit:
        limit, limited_by = settings.max_gpu_total_bytes, "max_gpu_total_bytes"
    if settings.manager_v2 and settings.max_tokens is not None:
        # kv_cache_manager_v2.py: max_tokens may fill max_util_for_resume of the quota
        quota = math.ceil(settings.max_tokens * cells.pool / settings.max_util_for_resume)
        if quota < limit:
            limit, limited_by = quota, "max_tokens"
    if len(cells.windows) > 1:
        blocks = _window_blocks(limit, cells, settings)
    elif settings.manager_v2:  # bytes are its only limit: no second look at what is free
        blocks = {max(cells.windows): limit // (cells.pool * settings.tokens_per_block) if cells.pool else 0}
    else:
        tokens = limit // cells.estimated if cells.estimated else 0
        if settings.max_tokens is not None and settings.max_tokens < tokens:
            tokens, limited_by = settings.max_tokens, "max_tokens"
        if cells.pool:
            # calculate_max_num_blocks: clamped once more, by the share of what is free now
            second = int(settings.free_gpu_memory_fraction * max(0, free) / cells.pool)
            if second < tokens:
                tokens, limited_by = second, "free memory"
        block = settings.tokens_per_block
        count = tokens // block if facts.memory.rounding == "floor" else cdiv(tokens, block)
        blocks = {max(cells.windows, default=settings.max_seq_len): count}
    block = settings.tokens_per_block
    size = sum(count * block * cells.windows.get(window, cells.pool) for window, count in blocks.items())
    return Pool(budget, estimated, blocks, size, _served(blocks, settings), limited_by, block)


def _window_blocks(limit: int, cells: Cells, settings: Settings) -> dict[int, int]:
    """calculate_max_num_blocks_for_vswa: every window has the same share of the bytes."""
    share = limit // len(cells.windows)
    return {window: share // (size * settings.tokens_per_block) for window, size in cells.windows.items() if size}


def _served(blocks: dict[int, int], settings: Settings) -> int:
    """_validate_and_adjust_attention_windows: a window longer than its blocks is cut, and the context with it."""
    beams = settings.max_beam_width
    bounds = {window: count // beams * settings.tokens_per_block for window, count in blocks.items()}
    cut = [bound for window, bound in bounds.items() if window > bound]
    return min([settings.max_seq_len, *cut])
