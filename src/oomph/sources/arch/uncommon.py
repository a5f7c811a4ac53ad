"""Decoders that are no row of dense.py: DeciLM, TeleChat 2, HRM-Text, OLMo Hybrid."""

from collections.abc import Mapping

from oomph.errors import ConfigError
from oomph.ir import Attention, Layer, Mixer, Module, Param, State
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.decoder import (
    ALL_STAGES,
    Names,
    Style,
    attention_modules,
    decoder_layers,
    decoder_root,
    fill,
    packed,
)
from oomph.sources.config import Config
from oomph.units import round_up

# DeciLM (Llama-Nemotron Super and Ultra): Llama layers, each with its own number of KV heads and MLP width, or none.
# vLLM: models/nemotron_nas.py.


def build_decilm(builder: Builder) -> Skeleton:
    text = builder.text
    count = text.integer("num_hidden_layers", high=10_000)
    blocks = text.items("block_configs")
    if len(blocks) < count or not all(isinstance(x, Mapping) for x in blocks):
        raise ConfigError(f"{text.where}: block_configs does not describe {count} layers")
    layers = []
    for site, raw in zip(builder.sites("model.layers", count), blocks):
        block = Config(raw, f"{text.where}, block_configs[{site.index}]")
        modules: list[Module] = []
        mixers: list[Mixer] = []
        if not block.sub("attention").flag("no_op"):
            mixers.append(_attention(text, block.sub("attention")))
            modules += _attention_modules(site, mixers[0])
        if not block.sub("ffn").flag("no_op"):
            inner = _intermediate(text, block.sub("ffn"))
            modules += [
                *site.gated_mlp(text.integer("hidden_size"), inner, bias=text.flag("mlp_bias")),
                site.norm("post_attention_layernorm", text.integer("hidden_size")),
            ]
        layers.append(site.layer(mixers, modules))
    return Skeleton(tuple(layers), decoder_root(builder, Style()))


def _attention(text: Config, attention: Config) -> Attention:
    heads = text.integer("num_attention_heads")
    head_dim = text.integer("head_dim", default=text.integer("hidden_size") // heads)
    kv = heads // attention.integer("n_heads_in_group", high=heads)
    return Attention("full", heads, kv, head_dim, head_dim, rope=rope_of(text, head_dim))


def _attention_modules(site: Site, mixer: Mixer) -> list[Module]:
    assert isinstance(mixer, Attention)
    hidden = site.b.text.integer("hidden_size")
    bias = site.b.text.flag("attention_bias", "bias")
    return [
        site.qkv(hidden, mixer.num_heads, mixer.num_kv_heads, mixer.head_dim, bias=bias),
        site.row("self_attn.o_proj", hidden, mixer.num_heads * mixer.head_dim, "attention", bias=bias),
        site.norm("input_layernorm", hidden),
    ]


def _intermediate(text: Config, ffn: Config) -> int:
    """nemotron_nas.py:64 (0.21.0): two thirds of ffn_mult x hidden_size, up to a multiple of 256."""
    mult = ffn.number("ffn_mult", default=0.0)
    if mult <= 0:
        return ffn.integer("intermediate_size")
    if mult > 1000:
        raise ConfigError(f"{ffn.where}: ffn_mult is {mult}, which is no MLP's width")
    return round_up(int(2 * mult * text.integer("hidden_size") / 3), 256)


# TeleChat 2: Llama whose output projections alone have a bias, under GPT-2's key names. vLLM: models/telechat2.py.

_TELECHAT = Style(
    qkv_bias=False,
    o_bias=True,
    window="none",
    names=Names(attn="self_attention", out="dense", layers="h", embed="word_embeddings", norm="ln_f"),
    norms=("input_layernorm", "post_attention_layernorm"),
    aliases=(
        ("n_layer", "num_hidden_layers"),
        ("n_head", "num_attention_heads"),
        ("ffn_hidden_size", "intermediate_size"),
        ("seq_length", "max_position_embeddings"),
    ),
)


def build_telechat(builder: Builder) -> Skeleton:
    fill(builder, _TELECHAT)
    hidden, inner = builder.text.integer("hidden_size"), builder.text.integer("intermediate_size")

    def mlp(site: Site, index: int) -> list[Module]:
        return [
            site.linear(
                "mlp.gate_up_proj", [("mlp.gate_proj", inner), ("mlp.up_proj", inner)], hidden, "column", "mlp"
            ),
            site.row("mlp.down_proj", hidden, inner, "mlp", bias=True),
        ]

    layers = decoder_layers(builder, _TELECHAT, prefix="transformer", mlp=mlp)
    return Skeleton(layers, decoder_root(builder, _TELECHAT, prefix="transformer"))


# HRM-Text: two stacks of layers that run in turn, with a cache for each time. vLLM: models/hrm_text.py.


def build_hrm(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(H_cycles=2, L_cycles=3, max_position_embeddings=2048)  # HrmTextConfig
    hidden, inner, heads = (text.integer(k) for k in ("hidden_size", "intermediate_size", "num_attention_heads"))
    width = text.integer("head_dim", default=hidden // heads)
    attention = Attention("full", heads, heads, width, width, rope=rope_of(text, width))
    slow, fast = text.integer("H_cycles", high=50), text.integer("L_cycles", high=50)
    each, wide, bias = text.integer("num_layers_per_stack", high=1000), heads * width, text.flag("attention_bias")
    mlp_bias = text.flag("mlp_bias")
    layers: list[Layer] = []
    for stack, times in (("L", slow * fast), ("H", slow)):
        for i in range(each):
            site = builder.site(f"model.{stack}_module.layers.{i}", len(layers))
            parts = [(f"attn.gqkv_proj.{name}", wide, heads) for name in "gqkv"]
            modules: list[Module] = [
                packed(site, "attn.gqkv_proj", parts, hidden, bias),
                site.row("attn.o_proj", hidden, wide, "attention", bias=bias),
                packed(site, "mlp.gate_up_proj", [("mlp.gate", inner, 0), ("mlp.up", inner, 0)], hidden, mlp_bias),
                site.row("mlp.down_proj", hidden, inner, "mlp", bias=mlp_bias),
            ]
            layers.append(site.layer([attention] * times, modules))
    start = Param("model.z_L_init", (hidden,), builder.dtype, "other")
    root = builder.head(
        text.integer("vocab_size"), hidden, norm="", tied=text.flag("tie_word_embeddings"), extra=[start]
    )
    return Skeleton(tuple(layers), root)


# OLMo Hybrid: a gated delta net on most layers, OLMo 2's attention on the others.
#
# vLLM: models/olmo_hybrid.py, layers/mamba/gdn/olmo_gdn_linear_attn.py (0.32.0).

_OLMO = Style(qkv_bias=False, qk_norm="whole", own_head_dim=False, everywhere=ALL_STAGES)


def build_olmo(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(linear_conv_kernel_dim=4)
    hidden = text.integer("hidden_size")
    heads, kv, _ = heads_of(text)
    width = hidden // heads
    turned = text.table("rope_parameters", "rope_scaling").get("rope_theta", text.get("rope_theta")) is not None
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width) if turned else None)
    net = State(
        "gdn",
        conv_kernel=text.integer("linear_conv_kernel_dim"),
        num_heads=text.integer("linear_num_value_heads"),
        head_dim=text.integer("linear_value_head_dim"),
        groups=text.integer("linear_num_key_heads"),
        key_dim=text.integer("linear_key_head_dim"),
    )
    kinds, count = text.items("layer_types"), text.integer("num_hidden_layers", high=10_000)
    if len(kinds) < count:
        raise ConfigError(f"{text.where}: layer_types does not name {count} layers")
    layers = []
    for site, kind in zip(builder.sites("model.layers"), kinds):
        if kind == "linear_attention":
            modules, norms = _delta_net(site, net, hidden), ("input_layernorm", "post_attention_layernorm")
        else:
            modules, norms = attention_modules(builder, site, _OLMO, heads, kv, width), _AROUND
        modules += site.gated_mlp(hidden, text.integer("intermediate_size"))
        modules += [site.norm(name, hidden) for name in norms]
        layers.append(site.layer([net if kind == "linear_attention" else attention], modules))
    return Skeleton(tuple(layers), decoder_root(builder, _OLMO))


_AROUND = ("post_attention_layernorm", "post_feedforward_layernorm")


def _delta_net(site: Site, net: State, hidden: int) -> list[Module]:
    at, dtype = "linear_attn", site.b.dtype
    keys, values = net.groups * net.key_dim, net.num_heads * net.head_dim
    parts = [(f"{at}.q_proj", keys), (f"{at}.k_proj", keys), (f"{at}.v_proj", values), (f"{at}.g_proj", values)]
    return [
        site.linear(f"{at}.in_proj_qkvg", parts, hidden, "column", "linear_attn"),
        site.column(f"{at}.b_proj", net.num_heads, hidden, "linear_attn"),
        site.column(f"{at}.a_proj", net.num_heads, hidden, "linear_attn"),
        Param(f"{at}.conv1d.weight", (2 * keys + values, 1, net.conv_kernel), dtype, "linear_attn", shard_dim=0),
        Param(f"{at}.dt_bias", (net.num_heads,), dtype, "linear_attn", shard_dim=0),
        Param(f"{at}.A_log", (net.num_heads,), dtype, "linear_attn", shard_dim=0),
        Param(f"{at}.o_norm.weight", (net.head_dim,), dtype, "linear_attn"),
        site.row(f"{at}.o_proj", hidden, values, "linear_attn"),
    ]
