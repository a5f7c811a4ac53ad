"""HRM-Text: two stacks of layers that run in turn, with a cache for each time. vLLM: models/hrm_text.py."""

from __future__ import annotations

from oomph.ir import Attention, Layer, Module, Param
from oomph.sources.arch.base import Builder, Skeleton, rope_of
from oomph.sources.arch.decoder import packed


def build(builder: Builder) -> Skeleton:
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
            site = builder.site(f"model.{stack}_module.layers.{i}")
            parts = [(f"attn.gqkv_proj.{name}", wide, heads) for name in "gqkv"]
            modules: list[Module] = [
                packed(site, "attn.gqkv_proj", parts, hidden, bias),
                site.row("attn.o_proj", hidden, wide, "attention", bias=bias),
                packed(site, "mlp.gate_up_proj", [("mlp.gate", inner, 0), ("mlp.up", inner, 0)], hidden, mlp_bias),
                site.row("mlp.down_proj", hidden, inner, "mlp", bias=mlp_bias),
            ]
            layers.append(builder.layer(len(layers), site.prefix, [attention] * times, modules))
    start = Param("model.z_L_init", (hidden,), builder.dtype, "other")
    root = builder.head(
        text.integer("vocab_size"), hidden, norm="", tied=text.flag("tie_word_embeddings"), extra=[start]
    )
    return Skeleton(tuple(layers), root)
