"""MiniMax-M2, M2.5, M2.7: every layer routed, norms over all of q and all of k. vLLM: models/minimax_m2.py."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.ir.model import Attention, Module, Param, Routing
from oomph.sources.arch.base import Builder, Skeleton, heads_of, rope_of
from oomph.sources.arch.mla import score_correction


def build(builder: Builder) -> Skeleton:
    text = builder.text
    hidden, inter = text.integer("hidden_size"), text.integer("intermediate_size")
    heads, kv, head_dim = heads_of(text)
    count, top_k = text.integer("num_local_experts"), text.integer("num_experts_per_tok")
    # minimax_m2.py:206 (0.21.0): `rotary_dim` of each head is rotated
    text.fill(partial_rotary_factor=text.integer("rotary_dim", default=head_dim) / head_dim)
    attention = Attention("full", heads, kv, head_dim, head_dim, rope=rope_of(text, head_dim))
    layers = []
    for i in range(text.integer("num_hidden_layers", high=10_000)):
        site = builder.site(f"model.layers.{i}")
        gate = site.replicated("block_sparse_moe.gate", count, hidden, "router", quantised=False)
        modules: list[Module] = [
            site.qkv(hidden, heads, kv, head_dim, bias=text.flag("attention_bias")),
            site.row("self_attn.o_proj", hidden, heads * head_dim, "attention"),
        ]
        if text.flag("use_qk_norm", default=True):
            # mamba/linear_attn.py MiniMaxText01RMSNormTP: the weight is divided by the ranks
            modules += [
                Param("self_attn.q_norm.weight", (heads * head_dim,), builder.dtype, "norm", shard_dim=0),
                Param("self_attn.k_norm.weight", (kv * head_dim,), builder.dtype, "norm", shard_dim=0),
            ]
        if text.flag("use_routing_bias", default=True):
            modules.append(score_correction("block_sparse_moe.e_score_correction_bias", count))
        modules += [
            site.experts(
                count,
                hidden,
                inter,
                top_k,
                at="block_sparse_moe.experts",
                projections=("w1", "w3", "w2"),
                routing=Routing("sigmoid", biased=True),
            ),
            replace(gate, created_dtype="F32"),
            site.norm("input_layernorm", hidden),
            site.norm("post_attention_layernorm", hidden),
        ]
        layers.append(builder.layer(i, site.prefix, [attention], modules))
    root = builder.head(text.integer("vocab_size"), hidden, tied=text.flag("tie_word_embeddings"))
    return Skeleton(tuple(layers), root)
