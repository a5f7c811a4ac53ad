"""Decoders whose MLP is a router and experts: Mixtral, Qwen2-MoE, Qwen3-MoE.

vLLM: models/mixtral.py, qwen2_moe.py, qwen3_moe.py.
"""

from typing import Literal

from oomph.ir import Linear, Module, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import ALL_STAGES, Mlp, Style, decoder, dense_mlp, fill
from oomph.sources.arch.llama import QWEN2

MIXTRAL = Style(qkv_bias=False, everywhere=ALL_STAGES, defaults=(("num_local_experts", 8), ("num_experts_per_tok", 2)))
QWEN2_MOE = Style(
    qkv_bias=True,
    o_bias=False,
    window="qwen",
    everywhere=ALL_STAGES,
    defaults=(*QWEN2.defaults, ("num_experts", 60), ("num_experts_per_tok", 4), ("decoder_sparse_step", 1)),
)
QWEN3_MOE = Style(
    o_bias=False,
    qk_norm="head",
    window="qwen",
    everywhere=ALL_STAGES,
    defaults=(*QWEN2.defaults, ("num_experts", 128), ("num_experts_per_tok", 8), ("decoder_sparse_step", 1)),
)


def build(builder: Builder) -> Skeleton:
    if builder.architecture == "MixtralForCausalLM":
        return decoder(builder, MIXTRAL, mlp=mixtral_mlp(builder, MIXTRAL))
    builder.scale_dtype = "BF16"  # Qwen's block-FP8 releases have their scales in BF16
    style = QWEN2_MOE if builder.architecture == "Qwen2MoeForCausalLM" else QWEN3_MOE
    fill(builder, style)
    return decoder(builder, style, mlp=qwen_moe_mlp(builder, style))


def router(site: Site, name: str, experts: int, hidden: int) -> Linear:
    """No AWQ or GPTQ writer quantises a router, whether its config says so or not."""
    spared = site.b.quant is not None and site.b.quant.facts.method in ("awq", "gptq", "auto-round")
    return site.replicated(name, experts, hidden, "router", quantised=not spared)


def mixtral_mlp(builder: Builder, style: Style) -> Mlp:
    fill(builder, style)
    text = builder.text
    hidden, inter = text.integer("hidden_size"), text.integer("intermediate_size")
    count, top_k = text.integer("num_local_experts"), text.integer("num_experts_per_tok")
    # phimoe.py:274 (0.32.0) has a routing function of its own
    routing = Routing(custom="phimoe") if builder.architecture == "PhiMoEForCausalLM" else Routing()

    def mlp(site: Site, index: int) -> list[Module]:
        at = "block_sparse_moe"
        return [
            site.replicated(f"{at}.gate", count, hidden, "router", quantised=False),
            site.experts(
                count, hidden, inter, top_k, at=f"{at}.experts", projections=("w1", "w3", "w2"), routing=routing
            ),
        ]

    return mlp


def qwen_moe_mlp(builder: Builder, style: Style, layout: Literal["each", "stacked"] = "each") -> Mlp:
    """Which layers have experts: decoder_sparse_step and mlp_only_layers (qwen3_moe.py:393, 0.21.0)."""
    text = builder.text
    count = text.integer("num_experts", default=0, low=0)
    step = text.integer("decoder_sparse_step", default=1)
    dense_only = frozenset(text.integers("mlp_only_layers"))

    def sparse(index: int) -> bool:
        return index not in dense_only and count > 0 and (index + 1) % step == 0

    dense = dense_mlp(builder, style) if text.has("intermediate_size") else None
    quantised = style != QWEN2_MOE  # qwen2_moe.py:138 (0.21.0): its router gets no quantisation config

    def mlp(site: Site, index: int) -> list[Module]:
        return (
            dense(site, index)
            if dense is not None and not sparse(index)
            else qwen_moe_block(site, layout, quantised_router=quantised, renormalised=False)
        )

    return mlp


def qwen_moe_block(
    site: Site,
    layout: Literal["each", "stacked"],
    *,
    quantised_router: bool,
    renormalised: bool = True,
) -> list[Module]:
    """`renormalised`: what the config class says where the config does not."""
    text = site.b.text
    hidden, count = text.integer("hidden_size"), text.integer("num_experts")
    shared = text.integer("shared_expert_intermediate_size", default=0, low=0)
    modules: list[Module] = [
        router(site, "mlp.gate", count, hidden)
        if quantised_router
        else site.replicated("mlp.gate", count, hidden, "router", quantised=False)
    ]
    if shared:
        modules += [
            site.replicated("mlp.shared_expert_gate", 1, hidden, "shared_experts", quantised=False),
            *site.gated_mlp(hidden, shared, at="mlp.shared_expert", role="shared_experts"),
        ]
    inter, top_k = text.integer("moe_intermediate_size"), text.integer("num_experts_per_tok")
    # qwen3_moe.py:203, qwen2_moe.py:170, qwen3_next.py:223 (0.32.0): softmax scores
    routing = Routing(renormalised=text.flag("norm_topk_prob", default=renormalised))
    return [*modules, site.experts(count, hidden, inter, top_k, layout=layout, routing=routing)]
