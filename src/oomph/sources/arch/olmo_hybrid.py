"""OLMo Hybrid: a gated delta net on most layers, OLMo 2's attention on the others.

vLLM: models/olmo_hybrid.py, layers/mamba/gdn/olmo_gdn_linear_attn.py (0.32.0).
"""

from __future__ import annotations

from oomph.errors import ConfigError
from oomph.ir import Attention, Mixer, Module, Param, State
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.decoder import ALL_STAGES, Style, attention_modules, decoder_root

STYLE = Style(qkv_bias=False, qk_norm="whole", own_head_dim=False, everywhere=ALL_STAGES)


def build(builder: Builder) -> Skeleton:
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
    for index in range(count):
        site = builder.site(f"model.layers.{index}")
        recurrent = kinds[index] == "linear_attention"
        mixer: Mixer = net if recurrent else attention
        modules = (
            _delta_net(site, net, hidden) if recurrent else attention_modules(builder, site, STYLE, heads, kv, width)
        )
        modules += site.gated_mlp(hidden, text.integer("intermediate_size"))
        names = ("input_layernorm", "post_attention_layernorm") if recurrent else _AROUND
        modules += [site.norm(name, hidden) for name in names]
        layers.append(builder.layer(index, site.prefix, [mixer], modules))
    return Skeleton(tuple(layers), decoder_root(builder, STYLE))


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
