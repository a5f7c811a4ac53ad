"""Draft models that come as checkpoints of their own: EAGLE-3 heads and DFlash.

vLLM: models/llama_eagle3.py, qwen3_dflash.py. An embedding (or DFlash's output head) that the checkpoint does not have
is the target's.
"""

from oomph.ir import Attention, Module, Param, Role, Vocab
from oomph.sources.arch.base import Builder, Skeleton, rope_of
from oomph.sources.arch.decoder import Style, decoder_layers, dims, fill, windows
from oomph.sources.arch.llama import LLAMA, QWEN3
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    return _dflash(builder) if builder.architecture == "DFlashDraftModel" else _eagle3(builder)


def _table(builder: Builder, name: str, role: Role) -> Vocab:
    text = builder.text
    stored = builder.stores(f"{name}.weight", False) or builder.stores(f"model.{name}.weight", False)
    return Vocab(name, text.integer("vocab_size"), text.integer("hidden_size"), builder.dtype, role, stored=stored)


def _fused_width(text: Config, features: int) -> int:
    return features * text.integer("target_hidden_size", default=text.integer("hidden_size"))


def _eagle3(builder: Builder) -> Skeleton:
    """The first layer reads the embedding beside the hidden state, so its q, k and v are twice as wide."""
    text = builder.text
    fill(builder, LLAMA)
    hidden, inner = text.integer("hidden_size"), text.integer("intermediate_size")
    heads, kv, head_dim = dims(text, LLAMA)
    rope = rope_of(text, head_dim)
    bias = text.flag("attention_bias")
    layers = []
    for i, window in enumerate(windows(text, Style())):
        site = builder.site(
            "midlayer" if builder.stores("midlayer.self_attn.q_proj.weight", i == 0) and i == 0 else f"layers.{i}", i
        )
        modules: list[Module] = [
            site.qkv(hidden * (2 if i == 0 else 1), heads, kv, head_dim, bias=bias),
            site.row("self_attn.o_proj", hidden, heads * head_dim, "attention", bias=bias),
            *site.gated_mlp(hidden, inner, bias=text.flag("mlp_bias")),
            site.norm("input_layernorm", hidden),
            site.norm("post_attention_layernorm", hidden),
            site.norm("hidden_norm", hidden),
        ]
        kind = Attention(
            "sliding_window" if window else "full", heads, kv, head_dim, head_dim, window=window, rope=rope
        )
        layers.append(site.layer([kind], modules))
    rows = text.integer("draft_vocab_size", default=text.integer("vocab_size"))
    site = builder.site("model")
    width = _fused_width(text, 3)
    root: list[Module] = [
        _table(builder, "embed_tokens", "embed"),
        *([Param("input_norm.weight", (width,), builder.dtype, "norm")] if text.flag("norm_before_fc") else []),
        site.replicated("fc", hidden, width, "other"),
        Param("norm.weight", (hidden,), builder.dtype, "norm"),
        Vocab("lm_head", rows, hidden, builder.dtype, "lm_head"),
        Param("d2t", (rows,), "I64", "other", created_dtype="I64"),
        Param("t2d", (text.integer("vocab_size"),), "BOOL", "other", created=False),
    ]
    return Skeleton(tuple(layers), builder.block(root))


def _dflash(builder: Builder) -> Skeleton:
    text = builder.text
    fill(builder, QWEN3)
    layers = decoder_layers(builder, Style(qk_norm="head", window="none", defaults=QWEN3.defaults), "")
    hidden = text.integer("hidden_size")
    own = text.sub("dflash_config")
    chosen = own.items("target_layer_ids") or own.items("layer_ids")
    width = _fused_width(text, len(chosen) or len(layers))
    site = builder.site("model")
    root: list[Module] = [
        _table(builder, "embed_tokens", "embed"),
        site.replicated("fc", hidden, width, "other"),
        Param("hidden_norm.weight", (hidden,), builder.dtype, "norm"),
        Param("norm.weight", (hidden,), builder.dtype, "norm"),
        _table(builder, "lm_head", "lm_head"),
    ]
    return Skeleton(layers, builder.block(root))
