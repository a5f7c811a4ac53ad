"""Draft models that come as checkpoints of their own: EAGLE-3 heads and DFlash.

vLLM: models/llama_eagle3.py, qwen3_dflash.py. An embedding (or DFlash's output head) that the checkpoint does not have
is the target's.
"""

from __future__ import annotations

from oomph.ir.model import Attention, Module, Param, Role, Vocab
from oomph.sources.arch.base import Builder, Skeleton, rope_of
from oomph.sources.arch.decoder import Style, decoder_layers, dims, fill, windows
from oomph.sources.arch.llama import LLAMA, QWEN3
from oomph.sources.config import Config


def build(b: Builder) -> Skeleton:
    return _dflash(b) if b.architecture == "DFlashDraftModel" else _eagle3(b)


def _table(b: Builder, name: str, role: Role) -> Vocab:
    t = b.text
    stored = b.stores(f"{name}.weight", False) or b.stores(f"model.{name}.weight", False)
    return Vocab(name, t.integer("vocab_size"), t.integer("hidden_size"), b.dtype, role, stored=stored)


def _fused_width(t: Config, features: int) -> int:
    return features * t.integer("target_hidden_size", default=t.integer("hidden_size"))


def _eagle3(b: Builder) -> Skeleton:
    """The first layer reads the embedding beside the hidden state, so its q, k and v are twice as wide."""
    t = b.text
    fill(b, LLAMA)
    hidden, inner = t.integer("hidden_size"), t.integer("intermediate_size")
    heads, kv, head_dim = dims(t, LLAMA)
    rope = rope_of(t, head_dim)
    bias = t.flag("attention_bias")
    layers = []
    for i, window in enumerate(windows(t, Style())):
        s = b.site("midlayer" if b.stores("midlayer.self_attn.q_proj.weight", i == 0) and i == 0 else f"layers.{i}")
        modules: list[Module] = [
            s.qkv(hidden * (2 if i == 0 else 1), heads, kv, head_dim, bias=bias),
            s.row("self_attn.o_proj", hidden, heads * head_dim, "attention", bias=bias),
            *s.gated_mlp(hidden, inner, bias=t.flag("mlp_bias")),
            s.norm("input_layernorm", hidden),
            s.norm("post_attention_layernorm", hidden),
            s.norm("hidden_norm", hidden),
        ]
        kind = Attention(
            "sliding_window" if window else "full", heads, kv, head_dim, head_dim, window=window, rope=rope
        )
        layers.append(b.layer(i, s.prefix, [kind], modules))
    rows = t.integer("draft_vocab_size", default=t.integer("vocab_size"))
    s = b.site("model")
    width = _fused_width(t, 3)
    root: list[Module] = [
        _table(b, "embed_tokens", "embed"),
        *([Param("input_norm.weight", (width,), b.dtype, "norm")] if t.flag("norm_before_fc") else []),
        s.replicated("fc", hidden, width, "other"),
        Param("norm.weight", (hidden,), b.dtype, "norm"),
        Vocab("lm_head", rows, hidden, b.dtype, "lm_head"),
        Param("d2t", (rows,), "I64", "other", created_dtype="I64"),
        Param("t2d", (t.integer("vocab_size"),), "BOOL", "other", created=False),
    ]
    return Skeleton(tuple(layers), b.block(root))


def _dflash(b: Builder) -> Skeleton:
    t = b.text
    fill(b, QWEN3)
    layers = decoder_layers(b, Style(qk_norm="head", window="none", defaults=QWEN3.defaults), "")
    hidden = t.integer("hidden_size")
    own = t.sub("dflash_config")
    chosen = own.items("target_layer_ids") or own.items("layer_ids")
    width = _fused_width(t, len(chosen) or len(layers))
    s = b.site("model")
    root: list[Module] = [
        _table(b, "embed_tokens", "embed"),
        s.replicated("fc", hidden, width, "other"),
        Param("hidden_norm.weight", (hidden,), b.dtype, "norm"),
        Param("norm.weight", (hidden,), b.dtype, "norm"),
        _table(b, "lm_head", "lm_head"),
    ]
    return Skeleton(layers, b.block(root))
