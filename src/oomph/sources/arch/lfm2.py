"""LFM2 and LFM2-MoE: short convolutions on most layers, attention on the others.

vLLM: models/lfm2.py, lfm2_moe.py, layers/mamba/short_conv.py.
"""

from __future__ import annotations

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Mixer, Module, Param, State
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.decoder import Names, Style, decoder_root, fill
from oomph.sources.arch.moe import router
from oomph.sources.config import Config

_STYLE = Style(
    own_head_dim=False,
    everywhere=("embed",),
    names=Names(norm="embedding_norm"),
    defaults=(
        ("tie_word_embeddings", True),
        ("max_position_embeddings", 128_000),
        ("conv_L_cache", 3),
        ("block_multiple_of", 256),
        ("block_auto_adjust_ff_dim", True),
        ("num_dense_layers", 2),
        ("use_expert_bias", True),
    ),
    aliases=(("tie_embedding", "tie_word_embeddings"), ("block_ff_dim", "intermediate_size")),
)


def build(b: Builder) -> Skeleton:
    t = b.text
    fill(b, _STYLE)
    hidden = t.integer("hidden_size")
    heads, kv, head_dim = heads_of(t)
    attention = Attention("full", heads, kv, head_dim, head_dim, rope=rope_of(t, head_dim))
    width = t.integer("conv_dim", default=hidden)
    state = State("short_conv", conv_kernel=t.integer("conv_L_cache"), intermediate=width)
    layers = []
    for i, kind in enumerate(_kinds(t)):
        s = b.site(f"model.layers.{i}")
        full = kind == "full_attention"
        modules = _attention(s, attention) if full else _conv(s)
        modules += _feed_forward(s, i)
        modules += [s.norm("operator_norm", hidden), s.norm("ffn_norm", hidden)]
        mixer: Mixer = attention if full else state
        layers.append(b.layer(i, s.prefix, [mixer], modules))
    tied = t.flag("tie_word_embeddings")
    return Skeleton(tuple(layers), decoder_root(b, _STYLE, tied=tied))


def _kinds(t: Config) -> list[str]:
    count = t.integer("num_hidden_layers", high=10_000)
    kinds = t.items("layer_types")
    if kinds:
        if len(kinds) < count:
            raise ConfigError(f"{t.where}: layer_types does not name {count} layers")
        return [str(k) for k in kinds[:count]]
    full = frozenset(t.integers("full_attn_idxs") or range(count))
    return ["full_attention" if i in full else "conv" for i in range(count)]


def _attention(s: Site, a: Attention) -> list[Module]:
    hidden = s.b.text.integer("hidden_size")
    return [
        s.qkv(hidden, a.num_heads, a.num_kv_heads, a.head_dim),
        s.row("self_attn.out_proj", hidden, a.num_heads * a.head_dim, "attention"),
        s.norm("self_attn.q_layernorm", a.head_dim),
        s.norm("self_attn.k_layernorm", a.head_dim),
    ]


def _conv(s: Site) -> list[Module]:
    """The convolution and its projections are never quantised: the class passes them no quant_config."""
    t = s.b.text
    hidden, bias = t.integer("conv_dim", "hidden_size"), t.flag("conv_bias")
    modules: list[Module] = [
        Param("conv.conv.weight", (hidden, 1, t.integer("conv_L_cache")), s.b.dtype, "linear_attn", shard_dim=0),
        s.column("conv.in_proj", 3 * hidden, hidden, "linear_attn", bias=bias, quantised=False),
        s.row("conv.out_proj", hidden, hidden, "linear_attn", bias=bias, quantised=False),
    ]
    if bias:
        modules.insert(1, Param("conv.conv.bias", (hidden,), s.b.dtype, "linear_attn", shard_dim=0))
    return modules


def _feed_forward(s: Site, index: int) -> list[Module]:
    t = s.b.text
    hidden, count = t.integer("hidden_size"), t.integer("num_experts", default=0, low=0)
    names = ("w1", "w3", "w2")
    if not count:
        return s.gated_mlp(hidden, _width(t), at="feed_forward", names=names)
    if index < t.integer("num_dense_layers", low=0):
        return s.gated_mlp(hidden, t.integer("intermediate_size"), at="feed_forward", names=names)
    modules: list[Module] = [router(s, "feed_forward.gate", count, hidden)]
    if t.flag("use_expert_bias"):
        modules.append(Param("feed_forward.expert_bias", (count,), "F32", "router", created_dtype="F32"))
    inner, top_k = t.integer("moe_intermediate_size"), t.integer("num_experts_per_tok", default=4)
    return [*modules, s.experts(count, hidden, inner, top_k, at="feed_forward.experts", projections=names)]


def _width(t: Config) -> int:
    """lfm2.py:60 (0.21.0): two thirds of the configured width, up to a multiple."""
    inner = t.integer("intermediate_size")
    if not t.flag("block_auto_adjust_ff_dim"):
        return inner
    inner = int(t.number("block_ffn_dim_multiplier", default=1.0) * int(2 * inner / 3))
    multiple = t.integer("block_multiple_of")
    return multiple * -(-inner // multiple)
