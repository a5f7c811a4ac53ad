"""TeleChat 2: Llama whose output projections alone have a bias, under GPT-2's key names. vLLM: models/telechat2.py."""

from __future__ import annotations

from oomph.ir import Module
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import Names, Style, decoder_layers, decoder_root, fill

STYLE = Style(
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


def build(builder: Builder) -> Skeleton:
    fill(builder, STYLE)
    hidden, inner = builder.text.integer("hidden_size"), builder.text.integer("intermediate_size")

    def mlp(site: Site, index: int) -> list[Module]:
        return [
            site.linear(
                "mlp.gate_up_proj", [("mlp.gate_proj", inner), ("mlp.up_proj", inner)], hidden, "column", "mlp"
            ),
            site.row("mlp.down_proj", hidden, inner, "mlp", bias=True),
        ]

    layers = decoder_layers(builder, STYLE, prefix="transformer", mlp=mlp)
    return Skeleton(layers, decoder_root(builder, STYLE, prefix="transformer"))
