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


def build(b: Builder) -> Skeleton:
    t = b.text
    heads, kv, width = heads_of(t)
    hidden, inner = t.integer("hidden_size"), t.integer("num_attention_heads") * width
    share = t.integer("rotary_dim", default=width) / width
    base = t.number("rope_theta", default=1e7)
    rope = rope_of(t, width, params={"rope_theta": base, "partial_rotary_factor": share}, dtype="F32")
    full = Attention("full", heads, kv, width, width, rope=rope)
    linear = State("linear_attention", num_heads=heads, head_dim=width)
    layers = []
    for i, is_full in enumerate(_kinds(t)):
        s = b.site(f"model.layers.{i}")
        mixer: Mixer = full if is_full else linear
        modules: list[Module] = (
            [s.qkv(hidden, heads, kv, width), s.row("self_attn.o_proj", hidden, inner, "attention")]
            if is_full
            else _linear(s, hidden, inner)
        )
        modules += [*_mlp(s, t, hidden), s.norm("input_layernorm", hidden), s.norm("post_attention_layernorm", hidden)]
        layers.append(b.layer(i, s.prefix, [mixer], modules))
    root = b.head(t.integer("vocab_size"), hidden, tied=t.flag("tie_word_embeddings"))
    # minimax_text_01.py: the head is built in float32
    wide = [replace(m, created_dtype="F32") if m.name == "lm_head" else m for m in root.modules]
    return Skeleton(tuple(layers), b.block(wide))


def _kinds(t: Config) -> list[bool]:
    """Whether each layer has full attention."""
    count = t.integer("num_hidden_layers", high=10_000)
    kinds = [k == 1 for k in t.items("attn_type_list")] or [k == "full_attention" for k in t.items("layer_types")]
    if len(kinds) < count:
        raise ConfigError(f"{t.where}: neither attn_type_list nor layer_types names {count} layers")
    return kinds[:count]


def _linear(s: Site, hidden: int, inner: int) -> list[Module]:
    return [
        s.column("self_attn.qkv_proj", 3 * inner, hidden, "linear_attn"),
        s.column("self_attn.output_gate", inner, hidden, "linear_attn"),
        s.row("self_attn.out_proj", hidden, inner, "linear_attn"),
        Param("self_attn.norm.weight", (inner,), s.b.dtype, "linear_attn", shard_dim=0),
    ]


def _mlp(s: Site, t: Config, hidden: int) -> list[Module]:
    count, inner, at = t.integer("num_local_experts", default=1), t.integer("intermediate_size"), "block_sparse_moe"
    if count == 1:
        return s.gated_mlp(hidden, inner, at="mlp")
    gate = s.replicated(f"{at}.gate", count, hidden, "router", quantised=False)
    top_k = t.integer("num_experts_per_tok", default=2)
    experts = s.experts(count, hidden, inner, top_k, at=f"{at}.experts", projections=("w1", "w3", "w2"))
    return [replace(gate, created_dtype="F32"), experts]
