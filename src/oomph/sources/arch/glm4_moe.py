"""GLM-4.5, 4.6 and 4.7: grouped-query attention, routed MLP with shared experts, one draft layer.

vLLM: models/glm4_moe.py, glm4_moe_mtp.py.
"""

from __future__ import annotations

from oomph.ir.model import Attention, Layer, Module
from oomph.sources.arch.base import Builder, Skeleton, heads_of, rope_of
from oomph.sources.arch.mla import nextn_modules, routed_mlp


def build(builder: Builder) -> Skeleton:
    return language_model(builder, "model", "lm_head")


def language_model(builder: Builder, prefix: str, head: str) -> Skeleton:
    text = builder.text
    # Glm4MoeConfig
    text.fill(
        vocab_size=151552, hidden_size=4096, intermediate_size=10944, num_hidden_layers=46, num_attention_heads=96
    )
    text.fill(num_key_value_heads=8, partial_rotary_factor=0.5, max_position_embeddings=131072)
    text.fill(moe_intermediate_size=1408, num_experts_per_tok=8, n_shared_experts=1, n_routed_experts=128)
    text.fill(first_k_dense_replace=1)
    heads, kv, head_dim = heads_of(text)
    attention = Attention("full", heads, kv, head_dim, head_dim, rope=rope_of(text, head_dim))
    count = text.integer("num_hidden_layers", high=10_000)
    nextn = text.integer("num_nextn_predict_layers", default=0, low=0, high=100)
    root = builder.head(
        text.integer("vocab_size"),
        text.integer("hidden_size"),
        embed=f"{prefix}.embed_tokens",
        norm=f"{prefix}.norm.weight",
        head=head,
        tied=text.flag("tie_word_embeddings"),
    )
    return Skeleton(
        tuple(_layer(builder, prefix, i, attention) for i in range(count)),
        root,
        drafts=tuple(_layer(builder, prefix, count + i, attention, draft=True) for i in range(nextn)),
    )


def _layer(builder: Builder, prefix: str, index: int, attention: Attention, *, draft: bool = False) -> Layer:
    text = builder.text
    hidden, width = text.integer("hidden_size"), attention.head_dim
    site = builder.site(f"{prefix}.layers.{index}")
    modules: list[Module] = [
        site.qkv(hidden, attention.num_heads, attention.num_kv_heads, width, bias=text.flag("attention_bias")),
        site.row("self_attn.o_proj", hidden, attention.num_heads * width, "attention"),
    ]
    if text.flag("use_qk_norm"):
        modules += [site.norm("self_attn.q_norm", width), site.norm("self_attn.k_norm", width)]
    if index >= text.integer("first_k_dense_replace", default=0, low=0):
        modules += routed_mlp(site, text, gate_dtype="F32")  # glm4_moe.py: the router is nn.Linear in float32
    else:
        modules += site.gated_mlp(hidden, text.integer("intermediate_size"))
    modules += [site.norm("input_layernorm", hidden), site.norm("post_attention_layernorm", hidden)]
    if draft:
        modules = nextn_modules(site, hidden, text.integer("vocab_size"), modules, own_vocab=True)
    return builder.layer(index, site.prefix, [attention], modules)
