"""What one token takes in SGLang's pools on one rank (model_executor/pool_configurator.py, 0.5.23)."""

from msgspec import Struct
from msgspec.structs import replace

from oomph.engines.sglang.resolve.settings import ModelShape, Settings, is_window
from oomph.errors import CannotPlan
from oomph.facts.dtypes import TORCH, nbytes
from oomph.facts.sglang.facts import Facts
from oomph.ir import Attention, Layer, Model, State

_INDEX_BLOCK = 128  # DSATokenToKVPool.quant_block_size: index keys with a float32 scale for each block
_SCALED_BLOCK = 32  # mxfp8
_FP4_BLOCK = 16


class Cells(Struct, frozen=True):
    """Bytes per token: of all layers in the first pool, and of the sliding-window layers in the second."""

    full: int
    window: int = 0
    full_layers: int = 0
    window_layers: int = 0
    index: int = 0  # the part of `full` that sparse attention's index keys are


def cells_of(model: Model, shape: ModelShape, settings: Settings, facts: Facts, stage: range) -> Cells:
    layers = [layer for layer in model.layers if layer.index in stage]
    if shape.is_latent:
        return _latent(layers, shape, settings, facts)
    if shape.has_windows and shape.window is not None:
        windows = [layer for layer in layers if is_window(layer, shape)]
        fulls = [layer for layer in layers if not is_window(layer, shape)]
        per_window = _row(shape.window, settings)
        per_full = _row(shape.full, settings) if shape.full is not None else 0
        both = Cells(per_full * len(fulls), per_window * len(windows), len(fulls), len(windows))
        return _with_window_drafts(both, shape, settings, facts)
    if shape.full is None:
        return Cells(0)
    # with states only the layers with attention count; else every layer, whether or not it has any (ModelLayerInfo)
    count = sum(1 for layer in layers if _attends(layer)) if shape.states else len(layers)
    cells = _row(shape.full, settings) * count
    index = _sparse_index(layers, settings) if shape.full.indexer is not None else 0
    return _with_drafts(Cells(cells + index, full_layers=count, index=index), settings)


def _attends(layer: Layer) -> bool:
    return any(isinstance(m, Attention) for m in layer.mixers)


def _row(attention: Attention, settings: Settings) -> int:
    """K and V of one token in one layer."""
    heads = max(1, attention.num_kv_heads // settings.attn_tp_size)
    elements = heads * (attention.head_dim + attention.head_dim_v)
    if settings.kv_dtype == "F4":
        return elements // 2 + elements // _FP4_BLOCK
    scales = elements // _SCALED_BLOCK if settings.kv_cache_dtype == "mxfp8" else 0
    return nbytes(settings.kv_dtype, elements) + scales


def _latent(layers: list[Layer], shape: ModelShape, settings: Settings, facts: Facts) -> Cells:
    """Every rank has all of it: tensor parallelism does not divide a latent."""
    attending = [layer for layer in layers if _attends(layer)] if shape.states else layers
    attention = shape.full
    assert attention is not None
    rank, rope = attention.kv_lora_rank, attention.qk_rope_head_dim
    if settings.sparse_layout == "packed":  # FP8 latents, float32 scales for blocks of 128, the rotary part in BF16
        row = rank + rank // _INDEX_BLOCK * 4 + 2 * rope
    elif settings.kv_dtype == "F4":
        row = (rank + rope) // 2 + (rank + rope) // _FP4_BLOCK
    else:
        row = nbytes(settings.kv_dtype, rank + rope)
    index = 0
    if shape.is_sparse:
        elide = facts.pools.shared_index_elided
        index = sum(_index_row(layer, attention, elide) for layer in attending)
    return _with_drafts(Cells(row * len(attending) + index, full_layers=len(attending), index=index), settings)


def _index_row(layer: Layer, default: Attention, elide: bool) -> int:
    own = next((m.indexer for m in layer.mixers if isinstance(m, Attention)), None)
    indexer = own if own is not None or elide else default.indexer
    return 0 if indexer is None else indexer.head_dim + indexer.head_dim // _INDEX_BLOCK * 4


def _sparse_index(layers: list[Layer], settings: Settings) -> int:
    """MiniMax-M3: one head of index keys in the layers that choose, in the model's dtype."""
    indexers = [m.indexer for layer in layers for m in layer.mixers if isinstance(m, Attention) and m.indexer]
    return sum(nbytes(settings.dtype, indexer.head_dim) for indexer in indexers)


def _with_window_drafts(cells: Cells, shape: ModelShape, settings: Settings, facts: Facts) -> Cells:
    """Drafters' layers keep every token, in rows as the target's."""
    if not facts.drafts.windows_counted or shape.full is None:
        return cells
    return replace(cells, full=cells.full + _row(shape.full, settings) * settings.draft_layers)


def _with_drafts(cells: Cells, settings: Settings) -> Cells:
    """Draft layers that share the target's geometry (EAGLE, NEXTN): their part of every token."""
    if not settings.draft_layers or not cells.full_layers:
        return cells
    own = cells.full - cells.index
    per_index = cells.index // cells.full_layers
    drafts = own * settings.draft_layers // cells.full_layers + per_index * settings.draft_layers
    return replace(cells, full=cells.full + drafts)


# The bytes of one request's recurrent state on one rank (configs/mamba_utils.py, 0.5.23).

_CONVOLUTION = "BF16"  # SGLANG_MAMBA_CONV_DTYPE
_DEFAULT = "F32"


def state_bytes(state: State, ranks: int, wanted: str) -> int:
    """One layer's slot. `wanted`: --mamba-ssm-dtype; else the config's, else float32."""
    convolution, recurrent = _elements(state, ranks)
    dtype = TORCH.get(wanted, "") or state.dtype or _DEFAULT
    return nbytes(_CONVOLUTION, convolution) + nbytes(dtype, recurrent)


def _elements(state: State, ranks: int) -> tuple[int, int]:
    window = state.conv_kernel - 1
    if state.kind in ("mamba2", "gdn"):
        # Mamba2StateShape.create: groups that do not divide are extended so that every rank has its heads' groups
        gdn = state.kind == "gdn"
        inner = state.num_heads * state.head_dim if gdn else state.intermediate
        width = state.key_dim if gdn else state.state_size
        groups = state.groups if state.groups % ranks == 0 else ranks
        convolution = (inner + 2 * groups * width) // ranks * window
        return convolution, state.num_heads // ranks * state.head_dim * width
    if state.kind == "kda":
        projection = state.num_heads * state.head_dim // ranks
        keys = (state.groups or state.num_heads) * (state.key_dim or state.head_dim) // ranks
        return window * (projection + 2 * keys), state.num_heads // ranks * state.head_dim**2
    if state.kind == "short_conv":  # configs/lfm2.py: no recurrent part
        return state.intermediate // ranks * window, 0
    if state.kind == "mamba1":
        return state.intermediate // ranks * window, state.intermediate // ranks * state.state_size
    if state.kind == "linear_attention":  # configs/bailing_hybrid.py
        return 0, state.num_heads // ranks * state.head_dim**2
    raise CannotPlan(f"the size of SGLang's state for {state.kind} layers is not known")
