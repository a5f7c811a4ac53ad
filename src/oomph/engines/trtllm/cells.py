"""What one token takes in the KV cache of one rank: as the estimator counts it, and as the pool holds it.

The two differ. The estimator (resource_manager.py get_cache_size_per_token) divides all heads by the ranks, the pool
(get_cache_bytes_per_token) gives every rank at least one head; and multi-token-prediction layers are in the pool only.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.trtllm.settings import Settings
from oomph.errors import CannotPlan
from oomph.facts.dtypes import nbytes
from oomph.facts.trtllm.facts import Facts
from oomph.ir import Attention, Layer, Model, State
from oomph.units import cdiv

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
        any(mixer.kind == "mla" for _, mixer in attention),
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
