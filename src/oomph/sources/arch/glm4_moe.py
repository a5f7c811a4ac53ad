"""GLM-4.5, 4.6 and 4.7: grouped-query attention, routed MLP with shared experts, one draft layer.

vLLM: models/glm4_moe.py, glm4_moe_mtp.py.
"""

from __future__ import annotations

from oomph.ir.model import Attention, Layer, Module
from oomph.sources.arch.base import Builder, Skeleton, heads_of, rope_of
from oomph.sources.arch.mla import nextn_modules, routed_mlp


def build(b: Builder) -> Skeleton:
    return language_model(b, "model", "lm_head")


def language_model(b: Builder, prefix: str, head: str) -> Skeleton:
    t = b.text
    # Glm4MoeConfig
    t.fill(vocab_size=151552, hidden_size=4096, intermediate_size=10944, num_hidden_layers=46, num_attention_heads=96)
    t.fill(num_key_value_heads=8, partial_rotary_factor=0.5, max_position_embeddings=131072)
    t.fill(moe_intermediate_size=1408, num_experts_per_tok=8, n_shared_experts=1, n_routed_experts=128)
    t.fill(first_k_dense_replace=1)
    heads, kv, head_dim = heads_of(t)
    attention = Attention("full", heads, kv, head_dim, head_dim, rope=rope_of(t, head_dim))
    count = t.integer("num_hidden_layers", high=10_000)
    nextn = t.integer("num_nextn_predict_layers", default=0, low=0, high=100)
    root = b.head(
        t.integer("vocab_size"),
        t.integer("hidden_size"),
        embed=f"{prefix}.embed_tokens",
        norm=f"{prefix}.norm.weight",
        head=head,
        tied=t.flag("tie_word_embeddings"),
    )
    return Skeleton(
        tuple(_layer(b, prefix, i, attention) for i in range(count)),
        root,
        drafts=tuple(_layer(b, prefix, count + i, attention, draft=True) for i in range(nextn)),
    )


def _layer(b: Builder, prefix: str, index: int, attention: Attention, *, draft: bool = False) -> Layer:
    t = b.text
    hidden, width = t.integer("hidden_size"), attention.head_dim
    s = b.site(f"{prefix}.layers.{index}")
    modules: list[Module] = [
        s.qkv(hidden, attention.num_heads, attention.num_kv_heads, width, bias=t.flag("attention_bias")),
        s.row("self_attn.o_proj", hidden, attention.num_heads * width, "attention"),
    ]
    if t.flag("use_qk_norm"):
        modules += [s.norm("self_attn.q_norm", width), s.norm("self_attn.k_norm", width)]
    if index >= t.integer("first_k_dense_replace", default=0, low=0):
        modules += routed_mlp(s, t, gate_dtype="F32")  # glm4_moe.py: the router is nn.Linear in float32
    else:
        modules += s.gated_mlp(hidden, t.integer("intermediate_size"))
    modules += [s.norm("input_layernorm", hidden), s.norm("post_attention_layernorm", hidden)]
    if draft:
        modules = nextn_modules(s, hidden, t.integer("vocab_size"), modules, own_vocab=True)
    return b.layer(index, s.prefix, [attention], modules)
