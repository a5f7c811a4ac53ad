"""Ling and Ring (Bailing MoE, first and second generation). vLLM: models/bailing_moe.py."""

from msgspec.structs import replace

from oomph.ir import Attention, Layer, Linear, Module, Param, Part, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.mla import score_correction
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    text = builder.text
    heads, kv, width = heads_of(text)
    rope = rope_of(text, width)
    wide = text.integer("rotary_dim", default=width)
    rope = replace(rope, dim=wide, narrow=rope.dim, only="Bailing turns whole heads")
    attention = Attention("full", heads, kv, width, width, rope=rope)
    layers = tuple(_layer(site, attention) for site in builder.sites("model.layers"))
    root = builder.head(
        text.integer("vocab_size"),
        text.integer("hidden_size"),
        embed="model.word_embeddings",
        tied=text.flag("tie_word_embeddings"),
    )
    return Skeleton(layers, root)


def _layer(site: Site, attention: Attention) -> Layer:
    text = site.b.text
    hidden, heads, kv, width = (
        text.integer("hidden_size"),
        attention.num_heads,
        attention.num_kv_heads,
        attention.head_dim,
    )
    name, at = "attention.query_key_value", "attention"
    parts = (
        Part(name, (heads + 2 * kv) * width, created=False),
        Part(f"{at}.q", heads * width, heads, stored=False),
        Part(f"{at}.k", kv * width, kv, stored=False),
        Part(f"{at}.v", kv * width, kv, stored=False),
    )
    scheme = site.b.scheme([f"{site.prefix}.{name}"])
    bias = text.flag("use_bias", default=False) or text.flag("use_qkv_bias", default=False)
    modules: list[Module] = [
        site.norm("input_layernorm", hidden),
        Linear(name, parts, hidden, "column", "attention", site.b.dtype, bias, scheme),
    ]
    if text.flag("use_qk_norm"):
        norms = (f"{at}.query_layernorm", f"{at}.key_layernorm")
        modules += [site.norm(n, width) for n in norms]
        if not text.flag("use_rmsnorm"):  # bailing_moe.py:112 (0.32.0): torch's LayerNorm
            modules += [Param(f"{n}.bias", (width,), site.b.dtype, "norm") for n in norms]
    modules += [
        site.row(f"{at}.dense", hidden, heads * width, "attention", bias=text.flag("use_bias")),
        site.norm("post_attention_layernorm", hidden),
    ]
    if site.index >= text.integer("first_k_dense_replace", default=0, low=0) and text.has("num_experts"):
        modules += _moe(site, text)
    else:
        modules += site.gated_mlp(hidden, text.integer("intermediate_size"), bias=text.flag("use_bias"))
    return site.layer([attention], modules)


def _moe(site: Site, text: Config) -> list[Module]:
    hidden, count, inter = (
        text.integer("hidden_size"),
        text.integer("num_experts"),
        text.integer("moe_intermediate_size"),
    )
    gate = site.replicated("mlp.gate", count, hidden, "router", quantised=False)
    wide = {"fp32": "F32", "float32": "F32", "bf16": "BF16", "bfloat16": "BF16"}.get(text.text("router_dtype"), "")
    modules: list[Module] = [replace(gate, created_dtype=wide)]
    if text.flag("moe_router_enable_expert_bias"):
        modules.append(score_correction("mlp.gate.expert_bias", count))
    shared = text.integer("num_shared_experts", default=0, low=0)
    if shared:
        width = text.integer("moe_shared_expert_intermediate_size", default=inter) * shared
        modules += site.gated_mlp(hidden, width, at="mlp.shared_experts", role="shared_experts")
    groups = text.integer("n_group", default=0, low=0)
    # bailing_moe.py:245 (0.32.0): grouped only where the config names both numbers
    routing = Routing(
        "sigmoid" if text.text("score_function") == "sigmoid" else "softmax",
        text.flag("norm_topk_prob", default=True),
        groups if text.has("topk_group") else 0,
        biased=text.flag("moe_router_enable_expert_bias"),
    )
    return [*modules, site.experts(count, hidden, inter, text.integer("num_experts_per_tok"), routing=routing)]
