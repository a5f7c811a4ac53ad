"""A checkpoint's layers by what they keep: cache geometry, windows, recurrent states, in the model's own dtype."""

from msgspec import Struct

from oomph.facts.dtypes import bits
from oomph.ir import Attention, Mixer, Model, State
from oomph.text.tables import grouped


class LayerRow(Struct, frozen=True):
    """Layers with the same cache geometry."""

    kind: str  # full, sliding_window, chunked_local, mla, ... or mamba2, gdn, ... or none
    layers: int
    text: str  # the geometry for people: "16 KV heads x 256"
    kv_bytes_per_token: int = 0  # of all these layers together, in the model's own dtype
    window: int = 0  # tokens after which it grows no more; 0 = it grows with the context
    state_bytes: int = 0  # per sequence, all these layers together
    shared: int = 0  # of `layers`, those that read another layer's cache


def layer_rows(model: Model) -> tuple[LayerRow, ...]:
    alike = grouped((mixer for layer in model.layers for mixer in layer.mixers), _key)
    rows = [_row(model, mixers) for mixers in alike.values()]
    without = sum(not x.mixers for x in model.layers)
    return (*rows, LayerRow("none", without, "MLP or experts only")) if without else tuple(rows)


def _key(mixer: Mixer) -> tuple[object, ...]:
    if isinstance(mixer, State):
        return (mixer,)
    return ("attention", mixer.kind, mixer.window, mixer.chunk, mixer.num_kv_heads, mixer.head_dim, mixer.head_dim_v,
            mixer.kv_lora_rank, mixer.compress_ratio, mixer.indexer is not None)  # fmt: skip


def _row(model: Model, mixers: list[Mixer]) -> LayerRow:
    first = mixers[0]
    if isinstance(first, State):
        ggml = model.quantization is not None and model.quantization.method == "gguf"
        size = state_bytes(first, 4 if ggml else int(bits(model.dtype)) // 8)
        return LayerRow(first.kind, len(mixers), _state_text(first), state_bytes=size * len(mixers))
    shared = sum(isinstance(m, Attention) and m.shares_cache_of is not None for m in mixers)
    per_token = kv_token_bytes(first, model.dtype)
    return LayerRow(
        first.kind,
        len(mixers),
        _attention_text(first) + (f", {shared} reuse" if shared else ""),
        per_token * (len(mixers) - shared),
        first.window or first.chunk,
        shared=shared,
    )


def kv_token_bytes(attention: Attention, dtype: str) -> int:
    """One token in one layer, in the model's dtype. 0 where an engine has a form of its own (compressed caches)."""
    width = int(bits(dtype)) // 8 if bits(dtype) >= 16 else 2
    if (
        attention.compress_ratio
        or attention.kind == "encoder_only"
        or (attention.kind == "mla" and not attention.kv_lora_rank)
    ):
        return 0
    # sparse attention's index keys are FP8 with one F32 scale per 128 (DeepSeek), or in the model's dtype (MiniMax)
    index = 0
    if attention.indexer is not None:
        index = (
            attention.indexer.head_dim + attention.indexer.head_dim // 128 * 4
            if attention.kind == "mla"
            else attention.indexer.head_dim * width
        )
    if attention.kind == "mla":
        return (attention.kv_lora_rank + attention.qk_rope_head_dim) * width + index
    return attention.num_kv_heads * (attention.head_dim + attention.head_dim_v) * width + index


def state_bytes(state: State, conv: int) -> int:
    """One sequence in one layer. `conv`: bytes of a value in the convolution's window (the model's dtype; llama.cpp
    keeps both in F32); the state has a dtype of its own where the config fixes one."""
    ssm = int(bits(state.dtype)) // 8 if state.dtype else conv
    kernel = max(state.conv_kernel - 1, 0)
    if state.kind == "mamba1":
        return state.intermediate * (kernel * conv + state.state_size * ssm)
    if state.kind == "mamba2":
        width = state.intermediate + 2 * state.groups * state.state_size
        return width * kernel * conv + state.num_heads * state.head_dim * state.state_size * ssm
    if state.kind == "gdn":
        width = 2 * state.key_dim * state.groups + state.head_dim * state.num_heads
        return width * kernel * conv + state.num_heads * state.head_dim * state.key_dim * ssm
    if state.kind == "kda":
        width = state.num_heads * state.head_dim + 2 * (state.groups or state.num_heads) * (
            state.key_dim or state.head_dim
        )
        return width * kernel * conv + state.num_heads * state.head_dim * state.head_dim * 4
    if state.kind == "short_conv":
        return state.intermediate * kernel * conv
    return state.num_heads * state.head_dim * state.head_dim * ssm


def _attention_text(attention: Attention) -> str:
    if attention.kind == "mla":
        text = (
            f"{attention.kv_lora_rank} + {attention.qk_rope_head_dim} rotary"
            if attention.kv_lora_rank
            else f"{attention.head_dim} wide"
        )
        text = f"{text}, 1:{attention.compress_ratio}" if attention.compress_ratio else text
        return f"{text}, indexer" if attention.indexer is not None else text
    heads = "head" if attention.num_kv_heads == 1 else "heads"
    width = (
        f"{attention.head_dim}"
        if attention.head_dim == attention.head_dim_v
        else f"{attention.head_dim}/{attention.head_dim_v}"
    )
    text = f"{attention.num_kv_heads} KV {heads} x {width}"
    return f"{text}, indexer" if attention.indexer is not None else text


def _state_text(mixer: State) -> str:
    if mixer.kind in ("mamba1", "short_conv"):
        return f"width {mixer.intermediate}" + (f", state {mixer.state_size}" if mixer.state_size else "")
    state = mixer.key_dim or mixer.state_size or mixer.head_dim
    return f"{mixer.num_heads} heads x {mixer.head_dim} x {state}"
