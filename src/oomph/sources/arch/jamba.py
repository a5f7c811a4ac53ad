"""Jamba: Mamba 1 with an attention layer in each block of layers, experts in every other MLP. vLLM: models/jamba.py."""

from __future__ import annotations

from oomph.ir.model import Attention, Mixer, Module, Routing
from oomph.sources.arch.base import Builder, Skeleton, heads_of
from oomph.sources.arch.mamba import Mamba1, mamba1_modules
from oomph.sources.arch.pooling import float32_head, labels
from oomph.units import cdiv


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(vocab_size=65536, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32)  # JambaConfig
    text.fill(num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=262144, num_experts=16)
    text.fill(num_experts_per_tok=2, expert_layer_period=2, expert_layer_offset=1, attn_layer_period=8)
    text.fill(attn_layer_offset=4, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2)
    hidden, inter = text.integer("hidden_size"), text.integer("intermediate_size")
    heads, kv, width = heads_of(text)
    attention = Attention("full", heads, kv, width, width)
    auto = text.get("mamba_dt_rank", default="auto") == "auto"
    mamba = Mamba1(
        hidden,
        text.integer("mamba_expand") * hidden,
        text.integer("mamba_d_state"),
        text.integer("mamba_d_conv"),
        cdiv(hidden, 16) if auto else text.integer("mamba_dt_rank"),
        conv_bias=text.flag("mamba_conv_bias", default=True),
        proj_bias=text.flag("mamba_proj_bias"),
        norms=True,
    )
    count, top_k = text.integer("num_experts"), text.integer("num_experts_per_tok")
    every, first = text.integer("attn_layer_period"), text.integer("attn_layer_offset", low=0)
    expert_every, expert_first = text.integer("expert_layer_period"), text.integer("expert_layer_offset", low=0)
    layers = []
    for i in range(text.integer("num_hidden_layers", high=10_000)):
        site = builder.site(f"model.layers.{i}")
        attends = i % every == first
        mixer: Mixer = attention if attends else mamba.mixer
        modules: list[Module] = (
            [site.qkv(hidden, heads, kv, width), site.row("self_attn.o_proj", hidden, heads * width, "attention")]
            if attends
            else mamba1_modules(site, mamba, "mamba")
        )
        if count > 1 and i % expert_every == expert_first:
            modules += [
                site.replicated("feed_forward.router", count, hidden, "router", quantised=False),
                site.experts(
                    count, hidden, inter, top_k, at="feed_forward.experts", routing=Routing(renormalised=False)
                ),
            ]
        else:
            modules += site.gated_mlp(hidden, inter, at="feed_forward")
        modules += [site.norm("input_layernorm", hidden), site.norm("pre_ff_layernorm", hidden)]
        layers.append(builder.layer(i, site.prefix, [mixer], modules))
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        norm="model.final_layernorm.weight",
        tied=False,  # jamba.py:426 (0.32.0) builds its head apart whatever the config says
        everywhere=True,
    )
    if builder.architecture != "JambaForSequenceClassification":
        return Skeleton(tuple(layers), root)
    score = float32_head(builder, "score", labels(text), hidden, bias=text.flag("score_bias"))
    return Skeleton(tuple(layers), builder.block([*root.modules, *score]), pooling=True)
