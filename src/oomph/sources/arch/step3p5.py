"""Step 3.5: gated attention whose heads, theta and rotary share differ by kind of layer, experts in most layers.

vLLM: models/step3p5.py, transformers_utils/configs/step3p5.py.
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Layer, Module, Param, Rope, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.rope import rope_of
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(
        hidden_size=5120, intermediate_size=13312, num_attention_heads=40, num_attention_groups=8
    )  # Step3p5Config
    text.fill(num_hidden_layers=48, vocab_size=65536, moe_intermediate_size=10240, moe_num_experts=16, moe_top_k=4)
    text.fill(num_key_value_heads=text.integer("num_attention_groups"))
    count = text.integer("num_hidden_layers", high=10_000)
    kinds = [str(k) for k in text.items("layer_types")]
    if len(kinds) < count:
        kinds = ["sliding_attention" if i % 2 == 0 else "full_attention" for i in range(count)]
    sparse = _sparse(text, count)
    layers = tuple(_layer(builder, text, i, kinds[i], i in sparse) for i in range(count))
    return Skeleton(
        layers,
        builder.head(text.integer("vocab_size"), text.integer("hidden_size"), tied=text.flag("tie_word_embeddings")),
    )


def _sparse(text: Config, count: int) -> frozenset[int]:
    """`moe_layers_enum` is a list in one string; without it every layer but the first has experts."""
    listed = text.text("moe_layers_enum")
    if not listed:
        return frozenset(range(1, count))
    words = [w.strip() for w in listed.split(",")]
    if not all(w.isdigit() and len(w) < 6 for w in words):
        raise ConfigError(f"{text.where}: moe_layers_enum is not a list of layers")
    return frozenset(int(w) for w in words)


def _of_layer(text: Config, key: str, index: int, default: float) -> float:
    """One number for all layers, or a list with one for each."""
    value = text.get(key)
    if isinstance(value, list):
        value = value[index] if index < len(value) else default
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{text.where}: {key} has no number for layer {index}")
    return float(value)


def _rope(text: Config, width: int, index: int, kind: str) -> Rope:
    scaled = [str(k) for k in text.items("yarn_only_types")]
    scaling = dict(text.table("rope_scaling", "rope_parameters")) if not scaled or kind in scaled else {}
    share = _of_layer(text, "partial_rotary_factors", index, 1.0)
    params = {**scaling, "rope_theta": _of_layer(text, "rope_theta", index, 5e5), "partial_rotary_factor": share}
    return rope_of(text, width, params=params)


def _layer(builder: Builder, text: Config, index: int, kind: str, sparse: bool) -> Layer:
    hidden = text.integer("hidden_size")
    heads, kv = text.integer("num_attention_heads"), text.integer("num_attention_groups")
    width = text.integer("head_dim", default=hidden // heads)
    other = text.sub("attention_other_setting")
    if other.text("attention_type") == kind:
        heads, kv = other.integer("num_attention_heads"), other.integer("num_attention_groups")
        width = other.integer("head_dim", default=width)
    window = text.integer("sliding_window", default=0, low=0) if kind == "sliding_attention" else 0
    site = builder.site(f"model.layers.{index}")
    modules: list[Module] = [
        site.qkv(hidden, heads, kv, width, bias=text.flag("attention_bias")),
        site.row("self_attn.o_proj", hidden, heads * width, "attention"),
        site.norm("self_attn.q_norm", width),
        site.norm("self_attn.k_norm", width),
        *(
            [site.column("self_attn.g_proj", heads, hidden, "attention")]
            if text.flag("use_head_wise_attn_gate")
            else []
        ),
        *(_experts(site, text) if sparse else site.gated_mlp(hidden, text.integer("intermediate_size"))),
        site.norm("input_layernorm", hidden),
        site.norm("post_attention_layernorm", hidden),
    ]
    rope = _rope(text, width, index, kind)
    attention = Attention("sliding_window" if window else "full", heads, kv, width, width, window=window, rope=rope)
    return builder.layer(index, site.prefix, [attention], modules)


def _routing(text: Config) -> Routing:
    """step3p5.py:366 (0.32.0)."""
    scoring = text.text("moe_router_activation", default="sigmoid")
    whole = text.flag("norm_expert_weight", default=True)
    return Routing("softmax" if scoring == "softmax" else "sigmoid", whole, biased=text.flag("use_moe_router_bias"))


def _experts(site: Site, text: Config) -> list[Module]:
    hidden, count, inner = (
        text.integer("hidden_size"),
        text.integer("moe_num_experts"),
        text.integer("moe_intermediate_size"),
    )
    top_k = text.integer("moe_top_k")
    shared = text.integer("share_expert_dim", default=inner * top_k)
    gate = site.replicated("moe.gate", count, hidden, "router", quantised=False)
    return [
        replace(gate, created_dtype="F32"),
        Param("moe.router_bias", (count,), site.b.dtype, "router", created_dtype="F32"),
        *site.gated_mlp(hidden, shared, at="share_expert", role="shared_experts"),
        site.experts(count, hidden, inner, top_k, at="moe", layout="stacked", routing=_routing(text)),
    ]
