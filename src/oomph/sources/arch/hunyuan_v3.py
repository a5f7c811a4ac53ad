"""Hunyuan 3: grouped attention with norms of heads, a float32 router, shared and routed experts.

vLLM: models/hy_v3.py (0.32.0).
"""

from __future__ import annotations

from oomph.ir.model import Linear, Module, Param, Part, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import ALL_STAGES, Style, decoder

STYLE = Style(
    qkv_bias=False,
    qk_norm="head",
    qk_norm_flag="qk_norm",
    everywhere=ALL_STAGES,
    defaults=(("num_shared_experts", 0), ("route_norm", True)),
    aliases=(("expert_hidden_dim", "moe_intermediate_size"),),
)


def build(builder: Builder) -> Skeleton:
    return decoder(builder, STYLE, mlp=_mlp)


def _mlp(site: Site, index: int) -> list[Module]:
    text = site.b.text
    hidden = text.integer("hidden_size")
    if index < text.integer("first_k_dense_replace", low=0):
        return site.gated_mlp(hidden, text.integer("intermediate_size"))
    inner, count = text.integer("moe_intermediate_size"), text.integer("num_experts")
    shared = text.integer("num_shared_experts", low=0)
    routing = Routing("sigmoid", text.flag("route_norm", default=True), 1, biased=True)
    return [
        Linear("mlp.gate", (Part("mlp.gate", count),), hidden, "replicated", "router", "F32", created_dtype="F32"),
        *(site.gated_mlp(hidden, inner * shared, at="mlp.shared_mlp", role="shared_experts") if shared else []),
        Param("mlp.expert_bias", (count,), "F32", "router", created_dtype="F32"),
        site.experts(count, hidden, inner, text.integer("num_experts_per_tok"), routing=routing),
    ]
