"""MiniMax-M2, M2.5, M2.7: every layer routed, norms over all of q and all of k. vLLM: models/minimax_m2.py."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.ir.model import Attention, Module, Param, Routing
from oomph.sources.arch.base import Builder, Skeleton, heads_of, rope_of
from oomph.sources.arch.mla import score_correction


def build(b: Builder) -> Skeleton:
    t = b.text
    hidden, inter = t.integer("hidden_size"), t.integer("intermediate_size")
    heads, kv, head_dim = heads_of(t)
    count, top_k = t.integer("num_local_experts"), t.integer("num_experts_per_tok")
    # minimax_m2.py:206 (0.21.0): `rotary_dim` of each head is rotated
    t.fill(partial_rotary_factor=t.integer("rotary_dim", default=head_dim) / head_dim)
    attention = Attention("full", heads, kv, head_dim, head_dim, rope=rope_of(t, head_dim))
    layers = []
    for i in range(t.integer("num_hidden_layers", high=10_000)):
        s = b.site(f"model.layers.{i}")
        gate = s.replicated("block_sparse_moe.gate", count, hidden, "router", quantised=False)
        modules: list[Module] = [
            s.qkv(hidden, heads, kv, head_dim, bias=t.flag("attention_bias")),
            s.row("self_attn.o_proj", hidden, heads * head_dim, "attention"),
        ]
        if t.flag("use_qk_norm", default=True):
            # mamba/linear_attn.py MiniMaxText01RMSNormTP: the weight is divided by the ranks
            modules += [
                Param("self_attn.q_norm.weight", (heads * head_dim,), b.dtype, "norm", shard_dim=0),
                Param("self_attn.k_norm.weight", (kv * head_dim,), b.dtype, "norm", shard_dim=0),
            ]
        if t.flag("use_routing_bias", default=True):
            modules.append(score_correction("block_sparse_moe.e_score_correction_bias", count))
        modules += [
            s.experts(
                count,
                hidden,
                inter,
                top_k,
                at="block_sparse_moe.experts",
                projections=("w1", "w3", "w2"),
                routing=Routing("sigmoid", biased=True),
            ),
            replace(gate, created_dtype="F32"),
            s.norm("input_layernorm", hidden),
            s.norm("post_attention_layernorm", hidden),
        ]
        layers.append(b.layer(i, s.prefix, [attention], modules))
    root = b.head(t.integer("vocab_size"), hidden, tied=t.flag("tie_word_embeddings"))
    return Skeleton(tuple(layers), root)
