"""A checkpoint's layers by what they keep: cache geometry, windows, recurrent states, in the model's own dtype."""

from __future__ import annotations

from msgspec import Struct

from oomph.facts.dtypes import bits
from oomph.ir.model import Attention, Mixer, Model, State


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
    groups: dict[tuple[object, ...], list[Mixer]] = {}
    for layer in model.layers:
        for m in layer.mixers:
            groups.setdefault(_key(m), []).append(m)
        if not layer.mixers:
            groups.setdefault(("none",), [])
    rows = [_row(model, found) for key, found in groups.items() if key != ("none",)]
    without = sum(not x.mixers for x in model.layers)
    return (*rows, LayerRow("none", without, "MLP or experts only")) if without else tuple(rows)


def _key(m: Mixer) -> tuple[object, ...]:
    if isinstance(m, State):
        return (m,)
    return ("attention", m.kind, m.window, m.chunk, m.num_kv_heads, m.head_dim, m.head_dim_v, m.kv_lora_rank,
            m.compress_ratio, m.indexer is not None)  # fmt: skip


def _row(model: Model, found: list[Mixer]) -> LayerRow:
    first = found[0]
    if isinstance(first, State):
        ggml = model.quantization is not None and model.quantization.method == "gguf"
        size = state_bytes(first, 4 if ggml else int(bits(model.dtype)) // 8)
        return LayerRow(first.kind, len(found), _state_text(first), state_bytes=size * len(found))
    shared = sum(isinstance(m, Attention) and m.shares_cache_of is not None for m in found)
    per_token = kv_token_bytes(first, model.dtype)
    return LayerRow(
        first.kind,
        len(found),
        _attention_text(first) + (f", {shared} reuse" if shared else ""),
        per_token * (len(found) - shared),
        first.window or first.chunk,
        shared=shared,
    )


def kv_token_bytes(m: Attention, dtype: str) -> int:
    """One token in one layer, in the model's dtype. 0 where an engine has a form of its own (compressed caches)."""
    width = int(bits(dtype)) // 8 if bits(dtype) >= 16 else 2
    if m.compress_ratio or m.kind == "encoder_only" or (m.kind == "mla" and not m.kv_lora_rank):
        return 0
    # sparse attention's index keys are FP8 with one F32 scale per 128 (DeepSeek), or in the model's dtype (MiniMax)
    index = 0
    if m.indexer is not None:
        index = m.indexer.head_dim + m.indexer.head_dim // 128 * 4 if m.kind == "mla" else m.indexer.head_dim * width
    if m.kind == "mla":
        return (m.kv_lora_rank + m.qk_rope_head_dim) * width + index
    return m.num_kv_heads * (m.head_dim + m.head_dim_v) * width + index


def state_bytes(m: State, conv: int) -> int:
    """One sequence in one layer. `conv`: bytes of a value in the convolution's window (the model's dtype; llama.cpp
    keeps both in F32); the state has a dtype of its own where the config fixes one."""
    ssm = int(bits(m.dtype)) // 8 if m.dtype else conv
    kernel = max(m.conv_kernel - 1, 0)
    if m.kind == "mamba1":
        return m.intermediate * (kernel * conv + m.state_size * ssm)
    if m.kind == "mamba2":
        width = m.intermediate + 2 * m.groups * m.state_size
        return width * kernel * conv + m.num_heads * m.head_dim * m.state_size * ssm
    if m.kind == "gdn":
        width = 2 * m.key_dim * m.groups + m.head_dim * m.num_heads
        return width * kernel * conv + m.num_heads * m.head_dim * m.key_dim * ssm
    if m.kind == "kda":
        width = m.num_heads * m.head_dim + 2 * (m.groups or m.num_heads) * (m.key_dim or m.head_dim)
        return width * kernel * conv + m.num_heads * m.head_dim * m.head_dim * 4
    if m.kind == "short_conv":
        return m.intermediate * kernel * conv
    return m.num_heads * m.head_dim * m.head_dim * ssm


def _attention_text(m: Attention) -> str:
    if m.kind == "mla":
        text = f"{m.kv_lora_rank} + {m.qk_rope_head_dim} rotary" if m.kv_lora_rank else f"{m.head_dim} wide"
        text = f"{text}, 1:{m.compress_ratio}" if m.compress_ratio else text
        return f"{text}, indexer" if m.indexer is not None else text
    heads = "head" if m.num_kv_heads == 1 else "heads"
    width = f"{m.head_dim}" if m.head_dim == m.head_dim_v else f"{m.head_dim}/{m.head_dim_v}"
    text = f"{m.num_kv_heads} KV {heads} x {width}"
    return f"{text}, indexer" if m.indexer is not None else text


def _state_text(m: State) -> str:
    if m.kind in ("mamba1", "short_conv"):
        return f"width {m.intermediate}" + (f", state {m.state_size}" if m.state_size else "")
    state = m.key_dim or m.state_size or m.head_dim
    return f"{m.num_heads} heads x {m.head_dim} x {state}"
