"""MiniMax-Text-01 and MiniMax-M1: linear attention with full attention on some layers, every MLP routed.

vLLM: models/minimax_text_01.py, layers/mamba/linear_attn.py (until 0.23.0).
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Mixer, Module, Param, State
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of
from oomph.sources.arch.rope import rope_of
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    text = builder.text
    heads, kv, width = heads_of(text)
    hidden, inner = text.integer("hidden_size"), text.integer("num_attention_heads") * width
    share = text.integer("rotary_dim", default=width) / width
    base = text.number("rope_theta", default=1e7)
    rope = rope_of(text, width, params={"rope_theta": base, "partial_rotary_factor": share}, dtype="F32")
    full = Attention("full", heads, kv, width, width, rope=rope)
    linear = State("linear_attention", num_heads=heads, head_dim=width)
    layers = []
    for i, is_full in enumerate(_kinds(text)):
        site = builder.site(f"model.layers.{i}")
        mixer: Mixer = full if is_full else linear
        modules: list[Module] = (
            [site.qkv(hidden, heads, kv, width), site.row("self_attn.o_proj", hidden, inner, "attention")]
            if is_full
            else _linear(site, hidden, inner)
        )
        modules += [
            *_mlp(site, text, hidden),
            site.norm("input_layernorm", hidden),
            site.norm("post_attention_layernorm", hidden),
        ]
        layers.append(builder.layer(i, site.prefix, [mixer], modules))
    root = builder.head(text.integer("vocab_size"), hidden, tied=text.flag("tie_word_embeddings"))
    # minimax_text_01.py: the head is built in float32
    wide = [replace(module, created_dtype="F32") if module.name == "lm_head" else module for module in root.modules]
    return Skeleton(tuple(layers), builder.block(wide))


def _kinds(text: Config) -> list[bool]:
    """Whether each layer has full attention."""
    count = text.integer("num_hidden_layers", high=10_000)
    kinds = [k == 1 for k in text.items("attn_type_list")] or [k == "full_attention" for k in text.items("layer_types")]
    if len(kinds) < count:
        raise ConfigError(f"{text.where}: neither attn_type_list nor layer_types names {count} layers")
    return kinds[:count]


def _linear(site: Site, hidden: int, inner: int) -> list[Module]:
    return [
        site.column("self_attn.qkv_proj", 3 * inner, hidden, "linear_attn"),
        site.column("self_attn.output_gate", inner, hidden, "linear_attn"),
        site.row("self_attn.out_proj", hidden, inner, "linear_attn"),
        Param("self_attn.norm.weight", (inner,), site.b.dtype, "linear_attn", shard_dim=0),
    ]


def _mlp(site: Site, text: Config, hidden: int) -> list[Module]:
    count, inner, at = (
        text.integer("num_local_experts", default=1),
        text.integer("intermediate_size"),
        "block_sparse_moe",
    )
    if count == 1:
        return site.gated_mlp(hidden, inner, at="mlp")
    gate = site.replicated(f"{at}.gate", count, hidden, "router", quantised=False)
    top_k = text.integer("num_experts_per_tok", default=2)
    experts = site.experts(count, hidden, inner, top_k, at=f"{at}.experts", projections=("w1", "w3", "w2"))
    return [replace(gate, created_dtype="F32"), experts]
