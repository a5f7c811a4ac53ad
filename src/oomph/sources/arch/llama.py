"""Llama, Mistral, Qwen2, Qwen3, MiMo, Phi-3 style decoders: attention and a gated MLP behind two norms."""

from __future__ import annotations

from oomph.ir.model import Attention, Module
from oomph.sources.arch.base import Builder, Skeleton, heads_of, rope_of


def build(b: Builder) -> Skeleton:
    t = b.text
    hidden, inter = t.integer("hidden_size"), t.integer("intermediate_size")
    heads, kv, head_dim = heads_of(t)
    arch = b.config.items("architectures")
    qwen2 = "Qwen2ForCausalLM" in arch
    qwen3 = "Qwen3ForCausalLM" in arch
    bias = t.flag("attention_bias", "bias", default=qwen2)
    rope = rope_of(t, head_dim)
    window = t.integer("sliding_window", default=0, low=0) if "MistralForCausalLM" in arch else 0
    attention = Attention(
        "sliding_window" if window else "full", heads, kv, head_dim, head_dim, window=window, rope=rope
    )
    layers = []
    for i in range(t.integer("num_hidden_layers", high=10_000)):
        s = b.site(f"model.layers.{i}")
        modules: list[Module] = [
            s.qkv(hidden, heads, kv, head_dim, bias=bias),
            s.row("self_attn.o_proj", hidden, heads * head_dim, "attention", bias=bias and not qwen2),
        ]
        if qwen3:
            modules += [s.norm("self_attn.q_norm", head_dim), s.norm("self_attn.k_norm", head_dim)]
        modules += s.gated_mlp(hidden, inter, bias=t.flag("mlp_bias"))
        modules += [s.norm("input_layernorm", hidden), s.norm("post_attention_layernorm", hidden)]
        layers.append(b.layer(i, s.prefix, [attention], modules))
    tied = t.flag("tie_word_embeddings")
    return Skeleton(tuple(layers), b.head(t.integer("vocab_size"), hidden, tied=tied))
