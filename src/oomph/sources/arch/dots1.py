"""dots.llm1: grouped-query attention with norms over each head, DeepSeek's experts. vLLM: models/dots1.py."""

from __future__ import annotations

from oomph.ir import Module
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import Style, decoder_layers, decoder_root, dense_mlp
from oomph.sources.arch.mla import routed_mlp

STYLE = Style(o_bias=False, qk_norm="head", window="none")


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(first_k_dense_replace=0, moe_layer_freq=1, topk_method="noaux_tc")
    first, step = text.integer("first_k_dense_replace", low=0), text.integer("moe_layer_freq")
    dense = dense_mlp(builder, STYLE)
    biased = text.text("topk_method") == "noaux_tc"

    def mlp(site: Site, index: int) -> list[Module]:
        sparse = text.has("n_routed_experts") and index >= first and index % step == 0
        return routed_mlp(site, text, correction=biased) if sparse else dense(site, index)

    return Skeleton(decoder_layers(builder, STYLE, mlp=mlp), decoder_root(builder, STYLE))
