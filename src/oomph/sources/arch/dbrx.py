"""DBRX: all experts of a layer in three tensors. vLLM: models/dbrx.py."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.ir import Attention, Linear, Module, Param, Part
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of


def build(builder: Builder) -> Skeleton:
    text = builder.text
    attn, ffn = text.sub("attn_config"), text.sub("ffn_config")
    # DbrxConfig names things in its own way
    text.fill(
        hidden_size=text.integer("d_model", default=2048), num_attention_heads=text.integer("n_heads", default=16)
    )
    text.fill(num_hidden_layers=text.integer("n_layers", default=24, high=10_000), vocab_size=32000)
    text.fill(max_position_embeddings=text.integer("max_seq_len", default=2048), tie_word_embeddings=False)
    text.fill(
        num_key_value_heads=attn.integer("kv_n_heads", default=1), rope_theta=attn.number("rope_theta", default=1e4)
    )
    hidden, inter = text.integer("hidden_size"), ffn.integer("ffn_hidden_size", default=3584)
    count, top_k = ffn.integer("moe_num_experts", default=4), ffn.integer("moe_top_k", default=1)
    heads, kv, width = heads_of(text)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    layers = []
    for i in range(text.integer("num_hidden_layers", high=10_000)):
        site = builder.site(f"transformer.blocks.{i}")
        modules = [*_attention(site, hidden, attention), *_experts(site, hidden, inter, count, top_k)]
        layers.append(builder.layer(i, site.prefix, [attention], modules))
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        embed="transformer.wte",
        norm="transformer.norm_f.weight",
        tied=text.flag("tie_word_embeddings"),
        everywhere=True,
    )
    return Skeleton(tuple(layers), root)


def _attention(site: Site, hidden: int, attention: Attention) -> list[Module]:
    at = "norm_attn_norm"
    name, query, kv = (
        f"{at}.attn.Wqkv",
        attention.num_heads * attention.head_dim,
        attention.num_kv_heads * attention.head_dim,
    )
    parts = (
        Part(name, query + 2 * kv, created=False),
        Part(f"{name}.q", query, attention.num_heads, stored=False),
        Part(f"{name}.k", kv, attention.num_kv_heads, stored=False),
        Part(f"{name}.v", kv, attention.num_kv_heads, stored=False),
    )
    scheme = site.b.scheme([f"{site.prefix}.{name}"])
    return [
        Linear(name, parts, hidden, "column", "attention", site.b.dtype, scheme=scheme),
        site.row(f"{at}.attn.out_proj", hidden, query, "attention"),
        site.norm(f"{at}.norm_1", hidden),
        site.norm(f"{at}.norm_2", hidden),
    ]


def _experts(site: Site, hidden: int, inter: int, count: int, top_k: int) -> list[Module]:
    tensors = [
        Param(f"ffn.experts.mlp.{n}", (count * inter, hidden), site.b.dtype, "experts", created=False)
        for n in ("w1", "v1", "w2")
    ]
    experts = site.experts(count, hidden, inter, top_k, at="ffn.experts")
    return [
        site.replicated("ffn.router.layer", count, hidden, "router", quantised=False),
        *tensors,
        replace(experts, stored=False),
    ]
