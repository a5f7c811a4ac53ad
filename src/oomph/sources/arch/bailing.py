"""Ling and Ring (Bailing MoE, first and second generation). vLLM: models/bailing_moe.py.

Behind them: Ling and Ring 2.5, with linear attention on most layers (models/bailing_moe_linear.py).
"""

from msgspec.structs import replace

from oomph.ir import Attention, Layer, Linear, Mixer, Module, Param, Part, Routing, State
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.mla import mla_mixer, mla_modules, nextn_modules, score_correction
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    text = builder.text
    heads, kv, width = heads_of(text)
    rope = rope_of(text, width)
    own = text.integer("rotary_dim", default=0, low=0)
    rope = replace(rope, dim=own or width, narrow=own or rope.dim, only="Bailing turns whole heads")
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
        Linear(
            name,
            parts=parts,
            in_features=hidden,
            shard="column",
            role="attention",
            dtype=site.b.dtype,
            bias=bias,
            scheme=scheme,
        ),
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


# Ling and Ring 2.5: every `layer_group_size`-th layer has latent attention, the others linear attention.
#
# vLLM: models/bailing_moe_linear.py, layers/mamba/linear/bailing_linear_attn.py, bailing_moe_mtp.py (0.32.0).


def build_linear(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, kv_lora_rank=512, router_dtype="fp32")
    count, hidden = text.integer("num_hidden_layers", high=10_000), text.integer("hidden_size")
    group = text.integer("layer_group_size", default=1)
    layers = tuple(_hybrid_layer(site, latent=(site.index + 1) % group == 0) for site in builder.sites("model.layers"))
    drafts = []
    for site in builder.sites("model.layers", text.integer("num_nextn_predict_layers", default=0, low=0), count):
        layer = _hybrid_layer(site, latent=True)
        own = nextn_modules(site, hidden, text.integer("vocab_size"), list(layer.block.modules), own_vocab=False)
        drafts.append(site.layer(layer.mixers, own))
    root = builder.head(
        text.integer("vocab_size"), hidden, embed="model.word_embeddings", tied=text.flag("tie_word_embeddings")
    )
    heads = text.integer("num_attention_heads")
    turned = rope_of(text, text.integer("head_dim", default=hidden // heads))
    # the linear layers' table; the latent ones have another
    table = Param(
        "rotary_emb.cos_sin_cache",
        (turned.positions, turned.dim),
        builder.dtype,
        "other",
        stored=False,
        everywhere=True,
    )
    return Skeleton(layers, builder.block([*root.modules, table]), drafts=tuple(drafts))


def _hybrid_layer(site: Site, *, latent: bool) -> Layer:
    text = site.b.text
    hidden = text.integer("hidden_size")
    base = text.table("rope_parameters", "rope_scaling").get("rope_theta", text.get("rope_theta", default=600000))
    whole = rope_of(text, text.integer("qk_rope_head_dim"), params={"rope_theta": base, "partial_rotary_factor": 1.0})
    mixer: Mixer = replace(mla_mixer(text, rope=False), rope=whole)
    modules = mla_modules(site, text, at="attention")
    if not latent:
        mixer, modules = _linear_attention(site, text)
    if text.integer("num_experts") > 1 and site.index >= text.integer("first_k_dense_replace", default=0, low=0):
        modules += _moe(site, text)
    else:
        modules += site.gated_mlp(hidden, text.integer("intermediate_size"), bias=text.flag("use_bias"))
    norms = (site.norm(name, hidden) for name in ("input_layernorm", "post_attention_layernorm"))
    return site.layer([mixer], [*modules, *norms])


def _linear_attention(site: Site, text: Config) -> tuple[State, list[Module]]:
    hidden, heads = text.integer("hidden_size"), text.integer("num_attention_heads")
    width = text.integer("head_dim", default=hidden // heads)
    inner, at = heads * width, "attention"
    bias = text.flag("use_bias") or text.flag("use_qkv_bias")
    norms = ("query_layernorm", "key_layernorm") if text.flag("use_qk_norm") else ()
    name = f"{at}.query_key_value"
    parts = (Part(name, 3 * inner, created=False), *(Part(f"{at}.{q}", inner, heads, stored=False) for q in "qkv"))
    scheme = site.b.scheme([f"{site.prefix}.{name}"])
    modules: list[Module] = [
        Linear(
            name,
            parts=parts,
            in_features=hidden,
            shard="column",
            role="linear_attn",
            dtype=site.b.dtype,
            bias=bias,
            scheme=scheme,
        ),
        *(site.norm(f"{at}.{norm}", width) for norm in norms),
        site.column(f"{at}.g_proj", inner, hidden, "linear_attn"),
        site.row(f"{at}.dense", hidden, inner, "linear_attn", bias=text.flag("use_bias")),
        Param(f"{at}.g_norm.weight", (inner,), site.b.dtype, "linear_attn", shard_dim=0),
    ]
    return State("linear_attention", num_heads=heads, head_dim=width), modules
