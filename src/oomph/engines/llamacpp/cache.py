"""KV cache and recurrent state of each layer: llama_kv_cache, llama_kv_cache_iswa, llama_memory_recurrent (b11739)."""

from collections.abc import Sequence

from msgspec import Struct

from oomph.engines.llamacpp.settings import PAD, Settings
from oomph.errors import UnknownCache
from oomph.facts.dtypes import BLOCKS
from oomph.ir import Attention, Layer, State
from oomph.units import round_up

F32 = 4


class LayerCache(Struct, frozen=True):
    layer: int
    kind: str  # full, sliding_window, mla, state
    cells: int
    nbytes: int


class Refusal(Struct, frozen=True):
    """The context is not created; llama.cpp's own sentence."""

    message: str


def _elements(kind: str, count: int) -> int:
    block, size = BLOCKS[kind.upper()]
    return count // block * size


def swa_cells(settings: Settings, window: int) -> int:
    """llama-kv-cache-iswa.cpp: the window of each sequence in the stream, and one micro-batch in flight."""
    if settings.swa_full:
        return settings.n_ctx_seq
    windows = window * (settings.n_seq_max if settings.kv_unified else 1)
    return round_up(min(settings.n_ctx_seq, windows + settings.n_ubatch), PAD)


def refusal(layers: Sequence[Layer], settings: Settings) -> Refusal | None:
    """llama_init_from_model's checks, in its order."""
    attentions = [m for layer in layers for m in layer.mixers if isinstance(m, Attention)]
    if settings.type_k != settings.type_v and any(attention.kind == "mla" for attention in attentions):
        return Refusal(f"model does not support different K ({settings.type_k}) and V ({settings.type_v}) cache types")
    if settings.quantises_values and not settings.flash_attn:
        return Refusal("llama_init_from_model: quantized V cache requires flash_attn to be enabled")
    for name, kind in (("K", settings.type_k), ("V", settings.type_v)):
        block = BLOCKS[kind.upper()][0]
        for attention in attentions:
            head = attention.head_dim if name == "K" or attention.kind == "mla" else attention.head_dim_v
            if block > 1 and head % block:
                letter = name.lower()
                return Refusal(
                    f"llama_init_from_model: {name} cache type {kind} with block size {block} does not divide "
                    f"n_embd_head_{letter}={head}"
                )
    return None


def layer_caches(layers: Sequence[Layer], settings: Settings) -> list[LayerCache]:
    own = [m for layer in layers for m in layer.mixers if isinstance(m, Attention) and m.shares_cache_of is None]
    # the V cache is transposed without flash attention, and then as wide in every layer (is_n_embd_v_gqa_variable)
    widest = 0 if settings.flash_attn else max((a.num_kv_heads * a.head_dim_v for a in own), default=0)
    hybrid = any(isinstance(m, State) for layer in layers for m in layer.mixers)
    out = []
    for layer in layers:
        if not layer.mixers and widest and not hybrid:  # Deci's layers without attention get values all the same
            values = _elements(settings.type_v, widest * settings.n_ctx_seq * settings.n_stream)
            out.append(LayerCache(layer.index, "full", settings.n_ctx_seq, values))
        for mixer in layer.mixers:
            if isinstance(mixer, State):
                rows = settings.n_seq_max * (1 + settings.snapshots)  # llama-memory-recurrent.cpp: n_rows
                out.append(LayerCache(layer.index, "state", settings.n_seq_max, state_bytes(mixer) * rows))
            elif mixer.shares_cache_of is None and mixer.kind != "encoder_only":
                out.append(_attention(layer.index, mixer, settings, widest))
    return out


def _attention(index: int, attention: Attention, settings: Settings, widest: int) -> LayerCache:
    if attention.indexer is not None or attention.compress_ratio:
        raise UnknownCache("the caches of sparse attention (an indexer's keys) are not known for llama.cpp")
    if attention.kind == "cross":
        raise UnknownCache("the cache of cross attention is not known for llama.cpp")
    window = (
        attention.window
        if attention.kind == "sliding_window"
        else attention.chunk
        if attention.kind == "chunked_local"
        else 0
    )
    cells = swa_cells(settings, window) if window else settings.n_ctx_seq
    slots = cells * settings.n_stream
    if attention.kind == "mla":  # the values are a view of the keys
        return LayerCache(
            index,
            "mla",
            cells,
            _elements(settings.type_k, (attention.kv_lora_rank + attention.qk_rope_head_dim) * slots),
        )
    keys = _elements(settings.type_k, attention.num_kv_heads * attention.head_dim * slots)
    values = _elements(settings.type_v, (widest or attention.num_kv_heads * attention.head_dim_v) * slots)
    return LayerCache(index, "sliding_window" if window else "full", cells, keys + values)


def state_bytes(state: State) -> int:
    """One sequence's state of one layer, always F32: llama-hparams.cpp n_embd_r and n_embd_s."""
    history = max(state.conv_kernel - 1, 0)
    if state.kind == "short_conv":
        return history * state.intermediate * F32
    if state.kind == "kda":
        return (3 * history * state.num_heads * state.head_dim + state.head_dim**2 * state.num_heads) * F32
    if state.kind == "mamba1":
        return (history * state.intermediate + state.state_size * state.intermediate) * F32
    if state.kind == "mamba2":
        width, size = state.intermediate or state.num_heads * state.head_dim, state.state_size
    elif state.kind == "gdn":
        width, size = state.num_heads * state.head_dim, state.key_dim
    else:
        raise UnknownCache(f"the state of {state.kind.replace('_', ' ')} layers is not known for llama.cpp")
    return (history * (width + 2 * state.groups * size) + size * width) * F32


def output_bytes(vocab: int, embd: int, settings: Settings) -> int:
    """llama_context::output_reserve at start: one row of logits for each sequence, on the host."""
    return (vocab + (embd if settings.embeddings else 0)) * settings.n_seq_max * F32
