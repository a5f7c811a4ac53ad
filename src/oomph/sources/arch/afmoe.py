"""AfMoE (Arcee's Trinity): gated attention in windows, every fourth layer over all tokens and without rotary positions.

vLLM: models/afmoe.py.
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.ir import Module, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.decoder import Style, decoder_layers, decoder_root, dense_mlp, dims
from oomph.sources.arch.mla import score_correction

STYLE = Style(
    qkv_bias=False,
    qk_norm="head",
    every=4,
    norms=("input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"),
)


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(num_dense_layers=1, num_shared_experts=0, sliding_window=2048, n_group=1)
    text.fill(sliding_window_pattern=text.integer("global_attn_every_n_layers", default=4))
    heads, _, width = dims(text, STYLE)
    hidden, dense = text.integer("hidden_size"), dense_mlp(builder, STYLE)
    first = text.integer("num_dense_layers", low=0)

    def mlp(site: Site, index: int) -> list[Module]:
        gate = site.column("self_attn.gate_proj", heads * width, hidden, "attention")
        return [gate, *(_experts(site) if index >= first else dense(site, index))]

    rope = rope_of(text, width)
    layers = decoder_layers(builder, STYLE, mlp=mlp, rope=lambda window: rope if window else None)
    return Skeleton(layers, decoder_root(builder, STYLE))


def _experts(site: Site) -> list[Module]:
    text = site.b.text
    hidden, count, inner = (
        text.integer("hidden_size"),
        text.integer("num_experts"),
        text.integer("moe_intermediate_size"),
    )
    shared = text.integer("num_shared_experts", low=0)
    scoring = "sigmoid" if text.text("score_func", default="sigmoid") == "sigmoid" else "softmax"
    whole = text.flag("route_norm", default=True) and scoring == "sigmoid"
    gate = site.replicated("mlp.router.gate", count, hidden, "router", quantised=False)
    return [
        replace(gate, created_dtype="F32"),
        score_correction("mlp.expert_bias", count),
        *(site.gated_mlp(hidden, inner * shared, at="mlp.shared_experts", role="shared_experts") if shared else []),
        site.experts(
            count,
            hidden,
            inner,
            text.integer("num_experts_per_tok"),
            routing=Routing(
                "sigmoid" if scoring == "sigmoid" else "softmax", whole, text.integer("n_group", low=0), True
            ),
        ),
    ]
