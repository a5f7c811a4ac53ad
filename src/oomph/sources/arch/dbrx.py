"""DBRX: all experts of a layer in three tensors. vLLM: models/dbrx.py."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.ir.model import Attention, Linear, Module, Param, Part
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of
from oomph.sources.arch.rope import rope_of


def build(b: Builder) -> Skeleton:
    t = b.text
    attn, ffn = t.sub("attn_config"), t.sub("ffn_config")
    # DbrxConfig names things in its own way
    t.fill(hidden_size=t.integer("d_model", default=2048), num_attention_heads=t.integer("n_heads", default=16))
    t.fill(num_hidden_layers=t.integer("n_layers", default=24, high=10_000), vocab_size=32000)
    t.fill(max_position_embeddings=t.integer("max_seq_len", default=2048), tie_word_embeddings=False)
    t.fill(num_key_value_heads=attn.integer("kv_n_heads", default=1), rope_theta=attn.number("rope_theta", default=1e4))
    hidden, inter = t.integer("hidden_size"), ffn.integer("ffn_hidden_size", default=3584)
    count, top_k = ffn.integer("moe_num_experts", default=4), ffn.integer("moe_top_k", default=1)
    heads, kv, width = heads_of(t)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(t, width))
    layers = []
    for i in range(t.integer("num_hidden_layers", high=10_000)):
        s = b.site(f"transformer.blocks.{i}")
        modules = [*_attention(s, hidden, attention), *_experts(s, hidden, inter, count, top_k)]
        layers.append(b.layer(i, s.prefix, [attention], modules))
    root = b.head(
        t.integer("vocab_size"),
        hidden,
        embed="transformer.wte",
        norm="transformer.norm_f.weight",
        tied=t.flag("tie_word_embeddings"),
        everywhere=True,
    )
    return Skeleton(tuple(layers), root)


def _attention(s: Site, hidden: int, a: Attention) -> list[Module]:
    at = "norm_attn_norm"
    name, q, kv = f"{at}.attn.Wqkv", a.num_heads * a.head_dim, a.num_kv_heads * a.head_dim
    parts = (
        Part(name, q + 2 * kv, created=False),
        Part(f"{name}.q", q, a.num_heads, stored=False),
        Part(f"{name}.k", kv, a.num_kv_heads, stored=False),
        Part(f"{name}.v", kv, a.num_kv_heads, stored=False),
    )
    scheme = s.b.scheme([f"{s.prefix}.{name}"])
    return [
        Linear(name, parts, hidden, "column", "attention", s.b.dtype, scheme=scheme),
        s.row(f"{at}.attn.out_proj", hidden, q, "attention"),
        s.norm(f"{at}.norm_1", hidden),
        s.norm(f"{at}.norm_2", hidden),
    ]


def _experts(s: Site, hidden: int, inter: int, count: int, top_k: int) -> list[Module]:
    tensors = [
        Param(f"ffn.experts.mlp.{n}", (count * inter, hidden), s.b.dtype, "experts", created=False)
        for n in ("w1", "v1", "w2")
    ]
    experts = s.experts(count, hidden, inter, top_k, at="ffn.experts")
    return [
        s.replicated("ffn.router.layer", count, hidden, "router", quantised=False),
        *tensors,
        replace(experts, stored=False),
    ]
