"""Mellum 2: Qwen3-MoE with windows and a rotary base for each kind of layer.

vLLM: models/mellum.py (0.27.0); transformers' own code since 0.32.
"""

from __future__ import annotations

from oomph.ir import Module, Rope, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.decoder import (
    ALL_STAGES,
    Style,
    backed,
    decoder_layers,
    decoder_root,
    dims,
    fill,
    frequencies,
)

STYLE = Style(
    o_bias=False,
    qk_norm="head",
    window="layers",
    everywhere=ALL_STAGES,
    defaults=(("num_local_experts", 64), ("num_experts_per_tok", 8), ("sliding_window", 1024)),
    aliases=(("num_experts", "num_local_experts"),),
)


def build(builder: Builder) -> Skeleton:
    text = builder.text
    fill(builder, STYLE)
    _, _, width = dims(text, STYLE)

    def table(window: int) -> Rope:
        own = text.table("rope_parameters", "rope_scaling").get("sliding_attention" if window else "full_attention")
        return backed(builder, rope_of(text, width, params=own if isinstance(own, dict) else None))

    layers = decoder_layers(builder, STYLE, mlp=_mlp, rope=table)
    root = decoder_root(builder, STYLE)
    return Skeleton(layers, builder.block([*root.modules, *frequencies(builder, layers)]))


def _mlp(site: Site, index: int) -> list[Module]:
    text = site.b.text
    hidden, kinds = text.integer("hidden_size"), text.items("mlp_layer_types")
    if index < len(kinds) and kinds[index] == "dense":
        return site.gated_mlp(hidden, text.integer("intermediate_size"))
    count, inner = text.integer("num_local_experts"), text.integer("moe_intermediate_size")
    routing = Routing(renormalised=text.flag("norm_topk_prob", default=True))
    return [
        site.replicated("mlp.gate", count, hidden, "router", quantised=False),
        site.experts(count, hidden, inner, text.integer("num_experts_per_tok"), routing=routing),
    ]
