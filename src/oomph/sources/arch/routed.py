"""Decoders with experts that are no row of sparse.py: DBRX, Grok, dots.llm1, AfMoE, Mellum 2."""

from msgspec.structs import replace

from oomph.ir import Attention, Linear, Module, Param, Part, Rope, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.decoder import (
    ALL_STAGES,
    Style,
    backed,
    decoder_layers,
    decoder_root,
    dense_mlp,
    dims,
    fill,
    frequencies,
)
from oomph.sources.arch.mla import routed_mlp, score_correction

# DBRX: all experts of a layer in three tensors. vLLM: models/dbrx.py.


def build_dbrx(builder: Builder) -> Skeleton:
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
    layers = tuple(
        site.layer([attention], [*_attention(site, hidden, attention), *_experts(site, hidden, inter, count, top_k)])
        for site in builder.sites("transformer.blocks")
    )
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        embed="transformer.wte",
        norm="transformer.norm_f.weight",
        tied=text.flag("tie_word_embeddings"),
        everywhere=True,
    )
    return Skeleton(layers, root)


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


# Grok-1 and Grok-2: GELU experts, in Grok-2 beside a dense MLP. vLLM: models/grok1.py (until 0.23).


def build_grok(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(num_experts_per_tok=2, max_position_embeddings=8192)
    hidden, residual = text.integer("hidden_size"), text.flag("residual_moe")
    heads, kv, width = heads_of(text)
    second = residual or text.has("moe_intermediate_size")
    inner = text.integer("moe_intermediate_size", "intermediate_size") if second else text.integer("intermediate_size")
    count = text.integer("num_local_experts", "num_experts", default=8)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    layers = tuple(
        site.layer(
            [attention],
            [
                site.qkv(hidden, heads, kv, width, at="attn"),
                site.row("attn.o_proj", hidden, heads * width, "attention"),
                site.replicated("moe_block.gate", count, hidden, "router", quantised=False),
                site.experts(
                    count,
                    hidden,
                    inner,
                    text.integer("num_experts_per_tok"),
                    at="moe_block.experts",
                    activation="gelu",
                    routing=Routing(renormalised=not residual),
                ),
                *(site.norm(f"{name}_norm", hidden) for name in ("pre_attn", "post_attn", "pre_moe", "post_moe")),
                *(site.gated_mlp(hidden, text.integer("intermediate_size")) if residual else []),
            ],
        )
        for site in builder.sites("model.layers")
    )
    root = builder.head(text.integer("vocab_size"), hidden, tied=text.flag("tie_word_embeddings"), everywhere=True)
    return Skeleton(layers, root)


# dots.llm1: grouped-query attention with norms over each head, DeepSeek's experts. vLLM: models/dots1.py.

_DOTS = Style(o_bias=False, qk_norm="head", window="none")


def build_dots(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(first_k_dense_replace=0, moe_layer_freq=1, topk_method="noaux_tc")
    first, step = text.integer("first_k_dense_replace", low=0), text.integer("moe_layer_freq")
    dense = dense_mlp(builder, _DOTS)
    biased = text.text("topk_method") == "noaux_tc"

    def mlp(site: Site, index: int) -> list[Module]:
        sparse = text.has("n_routed_experts") and index >= first and index % step == 0
        return routed_mlp(site, text, correction=biased) if sparse else dense(site, index)

    return Skeleton(decoder_layers(builder, _DOTS, mlp=mlp), decoder_root(builder, _DOTS))


# AfMoE (Arcee's Trinity): gated attention in windows, every fourth layer over all tokens and without rotary positions.
#
# vLLM: models/afmoe.py.

_AFMOE = Style(
    qkv_bias=False,
    qk_norm="head",
    every=4,
    norms=("input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"),
)


def build_afmoe(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(num_dense_layers=1, num_shared_experts=0, sliding_window=2048, n_group=1)
    text.fill(sliding_window_pattern=text.integer("global_attn_every_n_layers", default=4))
    heads, _, width = dims(text, _AFMOE)
    hidden, dense = text.integer("hidden_size"), dense_mlp(builder, _AFMOE)
    first = text.integer("num_dense_layers", low=0)

    def mlp(site: Site, index: int) -> list[Module]:
        gate = site.column("self_attn.gate_proj", heads * width, hidden, "attention")
        return [gate, *(_afmoe_experts(site) if index >= first else dense(site, index))]

    rope = rope_of(text, width)
    layers = decoder_layers(builder, _AFMOE, mlp=mlp, rope=lambda window: rope if window else None)
    return Skeleton(layers, decoder_root(builder, _AFMOE))


def _afmoe_experts(site: Site) -> list[Module]:
    text = site.b.text
    hidden, count, inner = (
        text.integer("hidden_size"),
        text.integer("num_experts"),
        text.integer("moe_intermediate_size"),
    )
    shared = text.integer("num_shared_experts", low=0)
    scoring = "sigmoid" if text.text("score_func", default="sigmoid") == "sigmoid" else "softmax"
    whole = text.flag("route_norm", default=True) and scoring == "sigmoid"
    gate = site.replicated("mlp.router.gate", count, hidden, "router", quantised=False)
    return [
        replace(gate, created_dtype="F32"),
        score_correction("mlp.expert_bias", count),
        *(site.gated_mlp(hidden, inner * shared, at="mlp.shared_experts", role="shared_experts") if shared else []),
        site.experts(
            count,
            hidden,
            inner,
            text.integer("num_experts_per_tok"),
            routing=Routing(
                "sigmoid" if scoring == "sigmoid" else "softmax", whole, text.integer("n_group", low=0), True
            ),
        ),
    ]


# Mellum 2: Qwen3-MoE with windows and a rotary base for each kind of layer.
#
# vLLM: models/mellum.py (0.27.0); transformers' own code since 0.32.

_MELLUM = Style(
    o_bias=False,
    qk_norm="head",
    window="layers",
    everywhere=ALL_STAGES,
    defaults=(("num_local_experts", 64), ("num_experts_per_tok", 8), ("sliding_window", 1024)),
    aliases=(("num_experts", "num_local_experts"),),
)


def build_mellum(builder: Builder) -> Skeleton:
    text = builder.text
    fill(builder, _MELLUM)
    _, _, width = dims(text, _MELLUM)

    def table(window: int) -> Rope:
        own = text.table("rope_parameters", "rope_scaling").get("sliding_attention" if window else "full_attention")
        return backed(builder, rope_of(text, width, params=own if isinstance(own, dict) else None))

    layers = decoder_layers(builder, _MELLUM, mlp=_mlp, rope=table)
    root = decoder_root(builder, _MELLUM)
    return Skeleton(layers, builder.block([*root.modules, *frequencies(builder, layers)]))


def _mlp(site: Site, index: int) -> list[Module]:
    text = site.b.text
    hidden, kinds = text.integer("hidden_size"), text.items("mlp_layer_types")
    if index < len(kinds) and kinds[index] == "dense":
        return site.gated_mlp(hidden, text.integer("intermediate_size"))
    count, inner = text.integer("num_local_experts"), text.integer("moe_intermediate_size")
    routing = Routing(renormalised=text.flag("norm_topk_prob", default=True))
    return [
        site.replicated("mlp.gate", count, hidden, "router", quantised=False),
        site.experts(count, hidden, inner, text.integer("num_experts_per_tok"), routing=routing),
    ]
