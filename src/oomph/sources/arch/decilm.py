"""DeciLM (Llama-Nemotron Super and Ultra): Llama layers, each with its own number of KV heads and MLP width, or none.

vLLM: models/nemotron_nas.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from oomph.errors import ConfigError
from oomph.ir import Attention, Mixer, Module
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.decoder import Style, decoder_root
from oomph.sources.config import Config
from oomph.units import round_up


def build(builder: Builder) -> Skeleton:
    text = builder.text
    count = text.integer("num_hidden_layers", high=10_000)
    blocks = text.items("block_configs")
    if len(blocks) < count or not all(isinstance(x, Mapping) for x in blocks):
        raise ConfigError(f"{text.where}: block_configs does not describe {count} layers")
    layers = []
    for i, raw in enumerate(blocks[:count]):
        block = Config(raw, f"{text.where}, block_configs[{i}]")
        site = builder.site(f"model.layers.{i}")
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
        layers.append(builder.layer(i, site.prefix, mixers, modules))
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
