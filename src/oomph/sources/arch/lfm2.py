"""LFM2 and LFM2-MoE: short convolutions with attention on some layers. vLLM: models/lfm2.py, lfm2_moe.py."""

from __future__ import annotations

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Linear, Mixer, Module, Param, Part, Routing, State
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of
from oomph.sources.arch.mla import score_correction
from oomph.sources.arch.rope import rope_of
from oomph.sources.config import Config
from oomph.units import round_up

_QUANTISED = "short convolutions quantised"


def build(builder: Builder) -> Skeleton:
    return language_model(builder, "model", "lm_head")


def language_model(builder: Builder, prefix: str, head: str) -> Skeleton:
    text = builder.text
    text.fill(num_attention_heads=text.integer("num_heads", default=32), tie_word_embeddings=True, vocab_size=65536)
    text.fill(max_position_embeddings=128000, num_key_value_heads=8, rope_theta=1e6)  # Lfm2Config
    hidden = text.integer("hidden_size")
    heads, kv, width = heads_of(text)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    kernel, wide = text.integer("conv_L_cache", default=3), text.integer("conv_dim", default=hidden)
    conv = State("short_conv", conv_kernel=kernel, intermediate=wide)
    layers = []
    for i, kind in enumerate(_kinds(text)):
        site = builder.site(f"{prefix}.layers.{i}")
        mixer: Mixer = attention if kind == "full_attention" else conv
        modules = (
            _attention(site, attention, hidden)
            if kind == "full_attention"
            else _conv(site, hidden, wide, kernel, text.flag("conv_bias"))
        )
        modules += _mlp(site, text, i)
        modules += [site.norm("operator_norm", hidden), site.norm("ffn_norm", hidden)]
        layers.append(builder.layer(i, site.prefix, [mixer], modules))
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        embed=f"{prefix}.embed_tokens",
        norm=f"{prefix}.embedding_norm.weight",
        head=head,
        tied=text.flag("tie_word_embeddings"),
    )
    return Skeleton(tuple(layers), root)


def _kinds(text: Config) -> list[str]:
    count = text.integer("num_hidden_layers", high=10_000)
    kinds = text.items("layer_types")
    if kinds:
        if len(kinds) < count or not all(k in ("conv", "full_attention") for k in kinds):
            raise ConfigError(f"{text.where}: layer_types does not name {count} layers as conv or full_attention")
        return [str(k) for k in kinds[:count]]
    attends = set(text.integers("full_attn_idxs")) if text.has("full_attn_idxs") else set(range(count))
    return ["full_attention" if i in attends else "conv" for i in range(count)]


def _attention(site: Site, attention: Attention, hidden: int) -> list[Module]:
    width = attention.head_dim
    return [
        site.qkv(hidden, attention.num_heads, attention.num_kv_heads, width),
        site.row("self_attn.out_proj", hidden, attention.num_heads * width, "attention"),
        site.norm("self_attn.q_layernorm", width),
        site.norm("self_attn.k_layernorm", width),
    ]


def _conv(site: Site, hidden: int, wide: int, kernel: int, bias: bool) -> list[Module]:
    """mamba/short_conv.py: in_proj makes B, C and x."""
    at, dtype = "conv", site.b.dtype
    name = f"{at}.in_proj"
    parts = (Part(name, 3 * wide, created=False), *(Part(f"{name}.{n}", wide, stored=False) for n in "BCx"))
    scheme = site.b.scheme([f"{site.prefix}.{name}"])
    return [
        Param(f"{at}.conv.weight", (wide, 1, kernel), dtype, "linear_attn", shard_dim=0),
        *([Param(f"{at}.conv.bias", (wide,), dtype, "linear_attn", shard_dim=0)] if bias else []),
        Linear(name, parts, hidden, "column", "linear_attn", dtype, bias, scheme, quantised_by=_QUANTISED),
        replace(site.row(f"{at}.out_proj", hidden, wide, "linear_attn", bias=bias), quantised_by=_QUANTISED),
    ]


def _mlp(site: Site, text: Config, index: int) -> list[Module]:
    hidden, names = text.integer("hidden_size"), ("w1", "w3", "w2")
    if not text.has("num_experts") or index < text.integer("num_dense_layers", default=0, low=0):
        inter = _inner(text) if not text.has("num_experts") else text.integer("intermediate_size")
        return site.gated_mlp(hidden, inter, at="feed_forward", names=names)
    count, at = text.integer("num_experts"), "feed_forward"
    modules: list[Module] = [site.replicated(f"{at}.gate", count, hidden, "router")]  # quantised like any other layer
    if text.flag("use_expert_bias", default=True):
        modules.append(score_correction(f"{at}.expert_bias", count))
    inter, top_k = text.integer("moe_intermediate_size"), text.integer("num_experts_per_tok")
    # lfm2_moe.py:141 (0.32.0): one group
    routing = Routing(
        "sigmoid", text.flag("norm_topk_prob", default=True), 1, biased=text.flag("use_expert_bias", default=True)
    )
    return [*modules, site.experts(count, hidden, inter, top_k, at=f"{at}.experts", projections=names, routing=routing)]


def _inner(text: Config) -> int:
    """lfm2.py Lfm2MLP: two thirds of the stated width, rounded up, where block_auto_adjust_ff_dim is on."""
    inter = text.integer("block_ff_dim", "intermediate_size")
    if not text.flag("block_auto_adjust_ff_dim", default=True):
        return inter
    inter = int(2 * inter / 3)
    times = text.number("block_ffn_dim_multiplier", default=1.0)
    if not 0 < times <= 1e6:
        raise ConfigError(f"{text.where}: block_ffn_dim_multiplier is {times:g}")
    inter = int(times * inter)
    return round_up(inter, text.integer("block_multiple_of", default=256))
