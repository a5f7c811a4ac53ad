"""Ling and Ring (Bailing MoE, first and second generation). vLLM: models/bailing_moe.py."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.ir.model import Attention, Layer, Linear, Module, Param, Part, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of
from oomph.sources.arch.mla import score_correction
from oomph.sources.arch.rope import rope_of
from oomph.sources.config import Config


def build(b: Builder) -> Skeleton:
    t = b.text
    heads, kv, width = heads_of(t)
    rope = rope_of(t, width)
    wide = t.integer("rotary_dim", default=width)
    rope = replace(rope, dim=wide, narrow=rope.dim, only="Bailing turns whole heads")
    attention = Attention("full", heads, kv, width, width, rope=rope)
    layers = tuple(_layer(b, i, attention) for i in range(t.integer("num_hidden_layers", high=10_000)))
    root = b.head(
        t.integer("vocab_size"),
        t.integer("hidden_size"),
        embed="model.word_embeddings",
        tied=t.flag("tie_word_embeddings"),
    )
    return Skeleton(layers, root)


def _layer(b: Builder, index: int, attention: Attention) -> Layer:
    t = b.text
    hidden, heads, kv, width = (
        t.integer("hidden_size"),
        attention.num_heads,
        attention.num_kv_heads,
        attention.head_dim,
    )
    s = b.site(f"model.layers.{index}")
    name, at = "attention.query_key_value", "attention"
    parts = (
        Part(name, (heads + 2 * kv) * width, created=False),
        Part(f"{at}.q", heads * width, heads, stored=False),
        Part(f"{at}.k", kv * width, kv, stored=False),
        Part(f"{at}.v", kv * width, kv, stored=False),
    )
    scheme = b.scheme([f"{s.prefix}.{name}"])
    bias = t.flag("use_bias", default=False) or t.flag("use_qkv_bias", default=False)
    modules: list[Module] = [
        s.norm("input_layernorm", hidden),
        Linear(name, parts, hidden, "column", "attention", b.dtype, bias, scheme),
    ]
    if t.flag("use_qk_norm"):
        norms = (f"{at}.query_layernorm", f"{at}.key_layernorm")
        modules += [s.norm(n, width) for n in norms]
        if not t.flag("use_rmsnorm"):  # bailing_moe.py:112 (0.32.0): torch's LayerNorm
            modules += [Param(f"{n}.bias", (width,), b.dtype, "norm") for n in norms]
    modules += [
        s.row(f"{at}.dense", hidden, heads * width, "attention", bias=t.flag("use_bias")),
        s.norm("post_attention_layernorm", hidden),
    ]
    if index >= t.integer("first_k_dense_replace", default=0, low=0) and t.has("num_experts"):
        modules += _moe(s, t)
    else:
        modules += s.gated_mlp(hidden, t.integer("intermediate_size"), bias=t.flag("use_bias"))
    return b.layer(index, s.prefix, [attention], modules)


def _moe(s: Site, t: Config) -> list[Module]:
    hidden, count, inter = t.integer("hidden_size"), t.integer("num_experts"), t.integer("moe_intermediate_size")
    gate = s.replicated("mlp.gate", count, hidden, "router", quantised=False)
    wide = {"fp32": "F32", "float32": "F32", "bf16": "BF16", "bfloat16": "BF16"}.get(t.text("router_dtype"), "")
    modules: list[Module] = [replace(gate, created_dtype=wide)]
    if t.flag("moe_router_enable_expert_bias"):
        modules.append(score_correction("mlp.gate.expert_bias", count))
    shared = t.integer("num_shared_experts", default=0, low=0)
    if shared:
        width = t.integer("moe_shared_expert_intermediate_size", default=inter) * shared
        modules += s.gated_mlp(hidden, width, at="mlp.shared_experts", role="shared_experts")
    groups = t.integer("n_group", default=0, low=0)
    # bailing_moe.py:245 (0.32.0): grouped only where the config names both numbers
    routing = Routing(
        "sigmoid" if t.text("score_function") == "sigmoid" else "softmax",
        t.flag("norm_topk_prob", default=True),
        groups if t.has("topk_group") else 0,
        biased=t.flag("moe_router_enable_expert_bias"),
    )
    return [*modules, s.experts(count, hidden, inter, t.integer("num_experts_per_tok"), routing=routing)]
