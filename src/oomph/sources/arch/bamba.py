"""Bamba: Mamba 2 layers with a few attention layers between them, an MLP behind each. vLLM: models/bamba.py."""

from __future__ import annotations

from oomph.ir.model import Attention, Mixer, Module
from oomph.sources.arch.base import Builder, Skeleton, heads_of
from oomph.sources.arch.mamba import granite_mamba2, mamba2_modules
from oomph.sources.arch.rope import rope_of


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(vocab_size=128000, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32)  # BambaConfig
    text.fill(num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=262144)
    hidden, inter = text.integer("hidden_size"), text.integer("intermediate_size")
    heads, kv, width = heads_of(text)
    # bamba.py:183 (0.21.0): attn_rotary_emb of each head's dimensions turn
    text.fill(partial_rotary_factor=min(1.0, text.integer("attn_rotary_emb", default=width) / width))
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    mamba = granite_mamba2(text, text.integer("mamba_expand", default=2) * hidden)
    attends = set(text.integers("attn_layer_indices"))
    layers = []
    for i in range(text.integer("num_hidden_layers", high=10_000)):
        site = builder.site(f"model.layers.{i}")
        mixer: Mixer = attention if i in attends else mamba.mixer
        modules: list[Module] = (
            [
                site.qkv(hidden, heads, kv, width),
                site.row("self_attn.o_proj", hidden, heads * width, "attention"),
            ]
            if i in attends
            else mamba2_modules(site, mamba, "mamba")
        )
        modules += site.gated_mlp(hidden, inter, at="feed_forward", bias=text.flag("mlp_bias"))
        modules += [site.norm("input_layernorm", hidden), site.norm("pre_ff_layernorm", hidden)]
        layers.append(builder.layer(i, site.prefix, [mixer], modules))
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        norm="model.final_layernorm.weight",
        tied=text.flag("tie_word_embeddings"),
        everywhere=True,
    )
    return Skeleton(tuple(layers), root)
