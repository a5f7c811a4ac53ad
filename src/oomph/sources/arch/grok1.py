"""Grok-1 and Grok-2: GELU experts, in Grok-2 beside a dense MLP. vLLM: models/grok1.py (until 0.23)."""

from __future__ import annotations

from oomph.ir.model import Attention, Module, Routing
from oomph.sources.arch.base import Builder, Skeleton, heads_of, rope_of


def build(b: Builder) -> Skeleton:
    t = b.text
    t.fill(num_experts_per_tok=2, max_position_embeddings=8192)
    hidden, residual = t.integer("hidden_size"), t.flag("residual_moe")
    heads, kv, width = heads_of(t)
    second = residual or t.has("moe_intermediate_size")
    inner = t.integer("moe_intermediate_size", "intermediate_size") if second else t.integer("intermediate_size")
    count = t.integer("num_local_experts", "num_experts", default=8)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(t, width))
    layers = []
    for index in range(t.integer("num_hidden_layers", high=10_000)):
        s = b.site(f"model.layers.{index}")
        modules: list[Module] = [
            s.qkv(hidden, heads, kv, width, at="attn"),
            s.row("attn.o_proj", hidden, heads * width, "attention"),
            s.replicated("moe_block.gate", count, hidden, "router", quantised=False),
            s.experts(
                count,
                hidden,
                inner,
                t.integer("num_experts_per_tok"),
                at="moe_block.experts",
                activation="gelu",
                routing=Routing(renormalised=not residual),
            ),
            *(s.norm(f"{name}_norm", hidden) for name in ("pre_attn", "post_attn", "pre_moe", "post_moe")),
            *(s.gated_mlp(hidden, t.integer("intermediate_size")) if residual else []),
        ]
        layers.append(b.layer(index, s.prefix, [attention], modules))
    root = b.head(t.integer("vocab_size"), hidden, tied=t.flag("tie_word_embeddings"), everywhere=True)
    return Skeleton(tuple(layers), root)
