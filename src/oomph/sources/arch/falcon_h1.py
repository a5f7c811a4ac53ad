"""Falcon-H1: attention and Mamba 2 side by side in every layer. vLLM: models/falcon_h1.py."""

from __future__ import annotations

from oomph.ir.model import Attention, Linear, Module
from oomph.sources.arch.base import Builder, Skeleton, heads_of
from oomph.sources.arch.mamba import granite_mamba2, mamba2_modules, mamba2_parts
from oomph.sources.arch.rope import rope_of


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(vocab_size=128000, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32)  # FalconH1Config
    text.fill(num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192)
    hidden, inter = text.integer("hidden_size"), text.integer("intermediate_size")
    heads, kv, width = heads_of(text)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    inner = text.integer("mamba_d_ssm", default=text.integer("mamba_expand", default=2) * hidden)
    mamba = granite_mamba2(text, inner, norm=text.flag("mamba_rms_norm"))
    # falcon_h1.py:200 (0.21.0): register_buffer("mup_vector"), as wide as in_proj on this rank
    scales = Linear(
        "mamba.mup_vector",
        tuple(mamba2_parts(mamba, "mamba")[0]),
        1,
        "column",
        "linear_attn",
        builder.dtype,
        quantisable=False,
    )
    bias = text.flag("attention_bias")
    layers = []
    for i in range(text.integer("num_hidden_layers", high=10_000)):
        site = builder.site(f"model.layers.{i}")
        modules: list[Module] = [
            site.qkv(hidden, heads, kv, width, bias=bias),
            site.row("self_attn.o_proj", hidden, heads * width, "attention", bias=bias),
            *mamba2_modules(site, mamba, "mamba"),
            scales,
            *site.gated_mlp(hidden, inter, at="feed_forward", bias=text.flag("mlp_bias")),
            site.norm("input_layernorm", hidden),
            site.norm("pre_ff_layernorm", hidden),
        ]
        layers.append(builder.layer(i, site.prefix, [attention, mamba.mixer], modules))
    root = builder.head(
        text.integer("vocab_size"), hidden, norm="model.final_layernorm.weight", tied=text.flag("tie_word_embeddings")
    )
    return Skeleton(tuple(layers), root)
