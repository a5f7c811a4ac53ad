"""AfMoE (Arcee's Trinity): gated attention in windows, every fourth layer over all tokens and without rotary positions.

vLLM: models/afmoe.py.
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.ir.model import Module, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.decoder import Style, decoder_layers, decoder_root, dense_mlp, dims
from oomph.sources.arch.mla import score_correction

STYLE = Style(
    qkv_bias=False,
    qk_norm="head",
    every=4,
    norms=("input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"),
)


def build(b: Builder) -> Skeleton:
    t = b.text
    t.fill(num_dense_layers=1, num_shared_experts=0, sliding_window=2048, n_group=1)
    t.fill(sliding_window_pattern=t.integer("global_attn_every_n_layers", default=4))
    heads, _, width = dims(t, STYLE)
    hidden, dense = t.integer("hidden_size"), dense_mlp(b, STYLE)
    first = t.integer("num_dense_layers", low=0)

    def mlp(s: Site, index: int) -> list[Module]:
        gate = s.column("self_attn.gate_proj", heads * width, hidden, "attention")
        return [gate, *(_experts(s) if index >= first else dense(s, index))]

    rope = rope_of(t, width)
    layers = decoder_layers(b, STYLE, mlp=mlp, rope=lambda window: rope if window else None)
    return Skeleton(layers, decoder_root(b, STYLE))


def _experts(s: Site) -> list[Module]:
    t = s.b.text
    hidden, count, inner = t.integer("hidden_size"), t.integer("num_experts"), t.integer("moe_intermediate_size")
    shared = t.integer("num_shared_experts", low=0)
    scoring = "sigmoid" if t.text("score_func", default="sigmoid") == "sigmoid" else "softmax"
    whole = t.flag("route_norm", default=True) and scoring == "sigmoid"
    gate = s.replicated("mlp.router.gate", count, hidden, "router", quantised=False)
    return [
        replace(gate, created_dtype="F32"),
        score_correction("mlp.expert_bias", count),
        *(s.gated_mlp(hidden, inner * shared, at="mlp.shared_experts", role="shared_experts") if shared else []),
        s.experts(
            count,
            hidden,
            inner,
            t.integer("num_experts_per_tok"),
            routing=Routing("sigmoid" if scoring == "sigmoid" else "softmax", whole, t.integer("n_group", low=0), True),
        ),
    ]
