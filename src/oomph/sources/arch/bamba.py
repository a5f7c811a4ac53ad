"""Bamba: Mamba 2 layers with a few attention layers between them, an MLP behind each. vLLM: models/bamba.py."""

from __future__ import annotations

from oomph.ir.model import Attention, Mixer, Module
from oomph.sources.arch.base import Builder, Skeleton, heads_of
from oomph.sources.arch.mamba import granite_mamba2, mamba2_modules
from oomph.sources.arch.rope import rope_of


def build(b: Builder) -> Skeleton:
    t = b.text
    t.fill(vocab_size=128000, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32)  # BambaConfig
    t.fill(num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=262144)
    hidden, inter = t.integer("hidden_size"), t.integer("intermediate_size")
    heads, kv, width = heads_of(t)
    # bamba.py:183 (0.21.0): attn_rotary_emb of each head's dimensions turn
    t.fill(partial_rotary_factor=min(1.0, t.integer("attn_rotary_emb", default=width) / width))
    attention = Attention("full", heads, kv, width, width, rope=rope_of(t, width))
    mamba = granite_mamba2(t, t.integer("mamba_expand", default=2) * hidden)
    attends = set(t.integers("attn_layer_indices"))
    layers = []
    for i in range(t.integer("num_hidden_layers", high=10_000)):
        s = b.site(f"model.layers.{i}")
        mixer: Mixer = attention if i in attends else mamba.mixer
        modules: list[Module] = (
            [
                s.qkv(hidden, heads, kv, width),
                s.row("self_attn.o_proj", hidden, heads * width, "attention"),
            ]
            if i in attends
            else mamba2_modules(s, mamba, "mamba")
        )
        modules += s.gated_mlp(hidden, inter, at="feed_forward", bias=t.flag("mlp_bias"))
        modules += [s.norm("input_layernorm", hidden), s.norm("pre_ff_layernorm", hidden)]
        layers.append(b.layer(i, s.prefix, [mixer], modules))
    root = b.head(
        t.integer("vocab_size"),
        hidden,
        norm="model.final_layernorm.weight",
        tied=t.flag("tie_word_embeddings"),
        everywhere=True,
    )
    return Skeleton(tuple(layers), root)
