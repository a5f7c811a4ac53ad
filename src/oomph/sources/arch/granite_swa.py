"""Granite with windows: full attention on some layers, sinks, a rotary base for each layer (0 = none).

vLLM: models/granite.py:80 granite_layer_attn_params (0.32.0), granitemoeshared.py.
"""

from __future__ import annotations

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Module, Param, Rope
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.decoder import Style, decoder_root, layer_kinds
from oomph.sources.arch.granite_moe import granite_mlp


def build(builder: Builder) -> Skeleton:
    text = builder.text
    sparse = builder.architecture == "GraniteMoeSWAForCausalLM"
    hidden = text.integer("hidden_size")
    heads, kv, width = heads_of(text)
    sinks = text.flag("attention_sinks", default=text.has("layer_types"))
    layers = []
    for index, kind in enumerate(layer_kinds(text, Style())):
        site = builder.site(f"model.layers.{index}")
        window = text.integer("sliding_window", default=0, low=0) if kind == "sliding_attention" else 0
        attention = Attention(
            "sliding_window" if window else "full", heads, kv, width, width, window=window, sinks=sinks,
            rope=_rope(builder, index, width),
        )  # fmt: skip
        bias = text.flag("attention_bias", "bias", default=False)
        modules: list[Module] = [
            site.qkv(hidden, heads, kv, width, bias=bias),
            site.row("self_attn.o_proj", hidden, heads * width, "attention", bias=bias),
            *([Param("self_attn.sinks", (heads,), builder.dtype, "attention", shard_dim=0)] if sinks else []),
            *(granite_mlp(site, text, hidden) if sparse else _dense(site, hidden)),
            site.norm("input_layernorm", hidden),
            site.norm("post_attention_layernorm", hidden),
        ]
        layers.append(builder.layer(index, site.prefix, [attention], modules))
    return Skeleton(
        tuple(layers), decoder_root(builder, Style(everywhere=("embed", "norm", "lm_head") if sparse else ()))
    )


def _dense(site: Site, hidden: int) -> list[Module]:
    text = site.b.text
    return site.gated_mlp(hidden, text.integer("intermediate_size"), bias=text.flag("mlp_bias"))


def _rope(builder: Builder, index: int, width: int) -> Rope | None:
    bases = builder.text.items("layer_rope_theta")
    if not bases:
        return rope_of(builder.text, width)
    if index >= len(bases) or not isinstance(bases[index], int | float):
        raise ConfigError(f"{builder.text.where}: layer_rope_theta has no number for layer {index}")
    base = float(bases[index])
    parameters = {**builder.text.table("rope_parameters", "rope_scaling"), "rope_theta": base}
    return rope_of(builder.text, width, params=parameters) if base else None
