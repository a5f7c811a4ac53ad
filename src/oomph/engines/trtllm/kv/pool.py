"""From the measured peak to the KV pools: the budget, its tokens, blocks per window, the context that is served."""

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.trtllm.settings import Settings
from oomph.errors import CannotPlan
from oomph.facts.dtypes import nbytes
from oomph.facts.trtllm.facts import Facts
from oomph.ir import Attention, Layer, Model, State
from oomph.units import cdiv

# What one token takes in the KV cache of one rank: as the estimator counts it, and as the pool holds it.
#
# The two differ. The estimator (resource_manager.py get_cache_size_per_token) divides all heads by the ranks, the pool
# (get_cache_bytes_per_token) gives every rank at least one head; and multi-token-prediction layers are in the pool
# only.

_INDEX_BLOCK = 128  # DSA: index keys in FP8 with a float32 scale for each block
_FP4_BLOCK = 16


class Cells(Struct, frozen=True):
    """Bytes per token on one rank."""

    estimated: int  # "kv size" of the log
    pool: int
    windows: dict[int, int]  # window -> bytes per token of the layers that have it, in the pool
    layers: dict[int, int]  # window -> how many layers
    state: int = 0  # bytes of recurrent states per slot of the batch
    state_layers: int = 0
    latent: bool = False


def stage_layers(count: int, settings: Settings, pp_rank: int) -> range:
    """mapping.py pp_layers: the first stages take what does not divide; pp_partition says it otherwise."""
    if settings.pp_partition:
        sizes = list(settings.pp_partition)
        if len(sizes) != settings.pp_size or sum(sizes) != count:
            raise CannotPlan(f"pp_partition {sizes} does not split {count} layers into {settings.pp_size} stages")
    else:
        base, more = divmod(count, settings.pp_size)
        sizes = [base + (rank < more) for rank in range(settings.pp_size)]
    start = sum(sizes[:pp_rank])
    return range(start, start + sizes[pp_rank])


def cells_of(model: Model, settings: Settings, facts: Facts, pp_rank: int = 0) -> Cells:
    stage = stage_layers(len(model.layers), settings, pp_rank)
    layers = [layer for layer in model.layers if layer.index in stage]
    attention = [(layer.index, mixer) for layer in layers for mixer in _attention(layer)]
    last = pp_rank == settings.pp_size - 1
    if settings.draft_layers and last and attention:
        attention += [(len(model.layers) + i, attention[-1][1]) for i in range(settings.draft_layers)]
    estimated = sum(_row(m, settings, facts, estimator=True) for index, m in attention if index < len(model.layers))
    windows: dict[int, int] = {}
    counts: dict[int, int] = {}
    for index, mixer in attention:
        window = settings.windows[index % len(settings.windows)] if settings.windows else settings.max_seq_len
        windows[window] = windows.get(window, 0) + _row(mixer, settings, facts, estimator=False)
        counts[window] = counts.get(window, 0) + 1
    states = [mixer for layer in layers for mixer in layer.mixers if isinstance(mixer, State)]
    return Cells(
        estimated,
        sum(windows.values()),
        dict(sorted(windows.items())),
        dict(sorted(counts.items())),
        sum(_state_bytes(state, settings) for state in states),
        len(states),
        latent=any(mixer.kind == "mla" for _, mixer in attention),
    )


def with_draft(cells: Cells, draft: Cells, *, apart: bool) -> Cells:
    """_util.py: a drafter that is an engine of its own has its bytes in the estimate too; its layers join the pool."""
    longest = max(cells.windows, default=0)
    more = draft.pool
    windows = {window: size + (more if window == longest else 0) for window, size in cells.windows.items()}
    layers = {
        window: count + (sum(draft.layers.values()) if window == longest else 0)
        for window, count in cells.layers.items()
    }
    estimated = cells.estimated + (draft.estimated if apart else 0)
    return replace(cells, estimated=estimated, pool=cells.pool + more, windows=windows, layers=layers)


def _attention(layer: Layer) -> Sequence[Attention]:
    mixers = [mixer for mixer in layer.mixers if isinstance(mixer, Attention)]
    for mixer in mixers:
        if mixer.kind in ("cross", "encoder_only") or (mixer.kind == "mla" and not mixer.kv_lora_rank):
            raise CannotPlan(f"how TensorRT-LLM caches {mixer.kind.replace('_', ' ')} attention here is not known")
    if len(mixers) > 1 or any(mixer.convolution is not None for mixer in mixers):
        raise CannotPlan("how TensorRT-LLM caches layers with more than one cache is not known here")
    return mixers


def _row(mixer: Attention, settings: Settings, facts: Facts, *, estimator: bool) -> int:
    """One token of one layer."""
    if mixer.kind == "mla":  # keys only, and every rank has all of it
        index = mixer.indexer
        keys = index.head_dim + index.head_dim // _INDEX_BLOCK * 4 if index is not None else 0
        return _sized(mixer.kv_lora_rank + mixer.qk_rope_head_dim, settings, facts, estimator) + keys
    width = mixer.head_dim  # V is padded to K's width
    if estimator:
        return _sized(2 * (width * mixer.num_kv_heads // settings.cache_tp), settings, facts, estimator)
    return _sized(2 * cdiv(mixer.num_kv_heads, settings.cache_tp) * width, settings, facts, estimator)


def _sized(elements: int, settings: Settings, facts: Facts, estimator: bool) -> int:
    if settings.kv_dtype != "F4":
        return nbytes(settings.kv_dtype, elements)
    if estimator and not facts.memory.sizes_nvfp4:
        return 2 * elements
    return cdiv(elements, 2) + cdiv(elements, _FP4_BLOCK)


def _state_bytes(state: State, settings: Settings) -> int:
    """mamba_cache_manager.py: convolution windows in the model's dtype, states in float32 unless the config fixes it.
    The shapes are those of every engine that runs these layers."""
    ranks, window = settings.cache_tp, max(0, state.conv_kernel - 1)
    if state.kind == "mamba2":
        convolved = state.intermediate + 2 * state.groups * state.state_size
        recurrent = state.num_heads * state.head_dim * state.state_size
    elif state.kind == "gdn":
        convolved = state.num_heads * state.head_dim + 2 * state.groups * state.key_dim
        recurrent = state.num_heads * state.head_dim * state.key_dim
    else:
        raise CannotPlan(f"how TensorRT-LLM keeps the state of {state.kind} layers is not known")
    dtype = state.dtype or settings.dtype
    return nbytes(settings.dtype, cdiv(convolved, ranks) * window) + nbytes(dtype, cdiv(recurrent, ranks))


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
    return Pool(budget, estimated, blocks, size, _served(blocks, settings), limited_by, tokens_per_block=block)


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
