"""Falcon-H1: attention and Mamba 2 side by side in every layer. vLLM: models/falcon_h1.py."""

from __future__ import annotations

from oomph.ir.model import Attention, Linear, Module
from oomph.sources.arch.base import Builder, Skeleton, heads_of
from oomph.sources.arch.mamba import granite_mamba2, mamba2_modules, mamba2_parts
from oomph.sources.arch.rope import rope_of


def build(b: Builder) -> Skeleton:
    t = b.text
    t.fill(vocab_size=128000, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32)  # FalconH1Config
    t.fill(num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192)
    hidden, inter = t.integer("hidden_size"), t.integer("intermediate_size")
    heads, kv, width = heads_of(t)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(t, width))
    inner = t.integer("mamba_d_ssm", default=t.integer("mamba_expand", default=2) * hidden)
    mamba = granite_mamba2(t, inner, norm=t.flag("mamba_rms_norm"))
    # falcon_h1.py:200 (0.21.0): register_buffer("mup_vector"), as wide as in_proj on this rank
    scales = Linear("mamba.mup_vector", tuple(mamba2_parts(mamba, "mamba")[0]), 1, "column", "linear_attn", b.dtype)
    bias = t.flag("attention_bias")
    layers = []
    for i in range(t.integer("num_hidden_layers", high=10_000)):
        s = b.site(f"model.layers.{i}")
        modules: list[Module] = [
            s.qkv(hidden, heads, kv, width, bias=bias),
            s.row("self_attn.o_proj", hidden, heads * width, "attention", bias=bias),
            *mamba2_modules(s, mamba, "mamba"),
            scales,
            *s.gated_mlp(hidden, inter, at="feed_forward", bias=t.flag("mlp_bias")),
            s.norm("input_layernorm", hidden),
            s.norm("pre_ff_layernorm", hidden),
        ]
        layers.append(b.layer(i, s.prefix, [attention, mamba.mixer], modules))
    root = b.head(
        t.integer("vocab_size"), hidden, norm="model.final_layernorm.weight", tied=t.flag("tie_word_embeddings")
    )
    return Skeleton(tuple(layers), root)
