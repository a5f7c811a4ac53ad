"""Grok-1 and Grok-2: GELU experts, in Grok-2 beside a dense MLP. vLLM: models/grok1.py (until 0.23)."""

from __future__ import annotations

from oomph.ir import Attention, Module, Routing
from oomph.sources.arch.base import Builder, Skeleton, heads_of, rope_of


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(num_experts_per_tok=2, max_position_embeddings=8192)
    hidden, residual = text.integer("hidden_size"), text.flag("residual_moe")
    heads, kv, width = heads_of(text)
    second = residual or text.has("moe_intermediate_size")
    inner = text.integer("moe_intermediate_size", "intermediate_size") if second else text.integer("intermediate_size")
    count = text.integer("num_local_experts", "num_experts", default=8)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    layers = []
    for index in range(text.integer("num_hidden_layers", high=10_000)):
        site = builder.site(f"model.layers.{index}")
        modules: list[Module] = [
            site.qkv(hidden, heads, kv, width, at="attn"),
            site.row("attn.o_proj", hidden, heads * width, "attention"),
            site.replicated("moe_block.gate", count, hidden, "router", quantised=False),
            site.experts(
                count,
                hidden,
                inner,
                text.integer("num_experts_per_tok"),
                at="moe_block.experts",
                activation="gelu",
                routing=Routing(renormalised=not residual),
            ),
            *(site.norm(f"{name}_norm", hidden) for name in ("pre_attn", "post_attn", "pre_moe", "post_moe")),
            *(site.gated_mlp(hidden, text.integer("intermediate_size")) if residual else []),
        ]
        layers.append(builder.layer(index, site.prefix, [attention], modules))
    root = builder.head(text.integer("vocab_size"), hidden, tied=text.flag("tie_word_embeddings"), everywhere=True)
    return Skeleton(tuple(layers), root)
