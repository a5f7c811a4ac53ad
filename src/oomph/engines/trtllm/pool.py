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


# The temporary KV pool with which the peak is measured (_util.py _get_token_num_for_estimation).
#
# Dummy requests fill max_num_tokens; the pool holds them, whole blocks each. Since 1.2.0rc8 it also holds a block for
# every slot of the batch, so that max_batch_size, and not max_num_tokens, is what makes it large.


def dummy_requests(settings: Settings) -> dict[int, int]:
    """Length -> how many: one rank's dummy requests (_create_dummy_context_requests)."""
    longest = min(settings.max_num_tokens, max(1, settings.max_seq_len - 1))
    whole, rest = divmod(settings.max_num_tokens, longest)
    return {longest: whole} | ({rest: 1} if rest else {})


def temporary_blocks(settings: Settings, facts: Facts) -> int:
    """Before the share of what is free limits it."""
    rules, block = facts.memory, settings.tokens_per_block
    if not settings.estimates:
        return 0
    if rules.temporary == "tokens":
        sequences = cdiv(settings.max_num_tokens, settings.max_seq_len)
        tokens = max(settings.max_batch_size, settings.max_num_tokens + sequences * block, settings.max_seq_len)
        return cdiv(tokens, block)
    requests = dummy_requests(settings)
    blocks = sum(count * cdiv(length + settings.extra_tokens, block) for length, count in requests.items())
    if settings.enable_attention_dp and rules.temporary_of_all_ranks:
        blocks *= settings.tp_size
    blocks *= settings.max_beam_width
    if rules.temporary == "slots":
        blocks = max(blocks, _graph_blocks(settings, facts), settings.max_batch_size)
    return blocks


def _graph_blocks(settings: Settings, facts: Facts) -> int:
    """One sequence of the whole context, and a block for every other one of the largest graph."""
    longest, block = settings.max_seq_len + 1, settings.tokens_per_block
    sequence = longest // block if facts.memory.graph_sequence == "floor" else cdiv(longest, block)
    return sequence + settings.graph_batch - 1


def made_large_by(settings: Settings, facts: Facts) -> str:
    """The setting that decides the temporary pool, where it is not max_num_tokens."""
    if not settings.estimates or facts.memory.temporary != "slots":
        return ""
    graphs, slots = _graph_blocks(settings, facts), settings.max_batch_size
    if temporary_blocks(settings, facts) > max(graphs, slots):
        return ""
    return "max_batch_size" if slots >= graphs else "max_seq_len"


def clamped_blocks(blocks: int, settings: Settings, facts: Facts, free: int, bytes_per_token: int) -> int:
    """Never more than the share of what is free. The oldest rule and the newest one look at it."""
    if facts.memory.temporary == "requests" or not bytes_per_token:
        return blocks
    most = int(settings.free_gpu_memory_fraction * max(0, free)) // (bytes_per_token * settings.tokens_per_block)
    return min(blocks, most)
