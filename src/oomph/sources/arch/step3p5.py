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


def build(b: Builder) -> Skeleton:
    t = b.text
    t.fill(hidden_size=5120, intermediate_size=13312, num_attention_heads=40, num_attention_groups=8)  # Step3p5Config
    t.fill(num_hidden_layers=48, vocab_size=65536, moe_intermediate_size=10240, moe_num_experts=16, moe_top_k=4)
    t.fill(num_key_value_heads=t.integer("num_attention_groups"))
    count = t.integer("num_hidden_layers", high=10_000)
    kinds = [str(k) for k in t.items("layer_types")]
    if len(kinds) < count:
        kinds = ["sliding_attention" if i % 2 == 0 else "full_attention" for i in range(count)]
    sparse = _sparse(t, count)
    layers = tuple(_layer(b, t, i, kinds[i], i in sparse) for i in range(count))
    return Skeleton(
        layers, b.head(t.integer("vocab_size"), t.integer("hidden_size"), tied=t.flag("tie_word_embeddings"))
    )


def _sparse(t: Config, count: int) -> frozenset[int]:
    """`moe_layers_enum` is a list in one string; without it every layer but the first has experts."""
    listed = t.text("moe_layers_enum")
    if not listed:
        return frozenset(range(1, count))
    words = [w.strip() for w in listed.split(",")]
    if not all(w.isdigit() and len(w) < 6 for w in words):
        raise ConfigError(f"{t.where}: moe_layers_enum is not a list of layers")
    return frozenset(int(w) for w in words)


def _of_layer(t: Config, key: str, index: int, default: float) -> float:
    """One number for all layers, or a list with one for each."""
    value = t.get(key)
    if isinstance(value, list):
        value = value[index] if index < len(value) else default
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{t.where}: {key} has no number for layer {index}")
    return float(value)


def _rope(t: Config, width: int, index: int, kind: str) -> Rope:
    scaled = [str(k) for k in t.items("yarn_only_types")]
    scaling = dict(t.table("rope_scaling", "rope_parameters")) if not scaled or kind in scaled else {}
    share = _of_layer(t, "partial_rotary_factors", index, 1.0)
    params = {**scaling, "rope_theta": _of_layer(t, "rope_theta", index, 5e5), "partial_rotary_factor": share}
    return rope_of(t, width, params=params)


def _layer(b: Builder, t: Config, index: int, kind: str, sparse: bool) -> Layer:
    hidden = t.integer("hidden_size")
    heads, kv = t.integer("num_attention_heads"), t.integer("num_attention_groups")
    width = t.integer("head_dim", default=hidden // heads)
    other = t.sub("attention_other_setting")
    if other.text("attention_type") == kind:
        heads, kv = other.integer("num_attention_heads"), other.integer("num_attention_groups")
        width = other.integer("head_dim", default=width)
    window = t.integer("sliding_window", default=0, low=0) if kind == "sliding_attention" else 0
    s = b.site(f"model.layers.{index}")
    modules: list[Module] = [
        s.qkv(hidden, heads, kv, width, bias=t.flag("attention_bias")),
        s.row("self_attn.o_proj", hidden, heads * width, "attention"),
        s.norm("self_attn.q_norm", width),
        s.norm("self_attn.k_norm", width),
        *([s.column("self_attn.g_proj", heads, hidden, "attention")] if t.flag("use_head_wise_attn_gate") else []),
        *(_experts(s, t) if sparse else s.gated_mlp(hidden, t.integer("intermediate_size"))),
        s.norm("input_layernorm", hidden),
        s.norm("post_attention_layernorm", hidden),
    ]
    rope = _rope(t, width, index, kind)
    attention = Attention("sliding_window" if window else "full", heads, kv, width, width, window=window, rope=rope)
    return b.layer(index, s.prefix, [attention], modules)


def _routing(t: Config) -> Routing:
    """step3p5.py:366 (0.32.0)."""
    scoring = t.text("moe_router_activation", default="sigmoid")
    whole = t.flag("norm_expert_weight", default=True)
    return Routing("softmax" if scoring == "softmax" else "sigmoid", whole, biased=t.flag("use_moe_router_bias"))


def _experts(s: Site, t: Config) -> list[Module]:
    hidden, count, inner = t.integer("hidden_size"), t.integer("moe_num_experts"), t.integer("moe_intermediate_size")
    top_k = t.integer("moe_top_k")
    shared = t.integer("share_expert_dim", default=inner * top_k)
    gate = s.replicated("moe.gate", count, hidden, "router", quantised=False)
    return [
        replace(gate, created_dtype="F32"),
        Param("moe.router_bias", (count,), s.b.dtype, "router", created_dtype="F32"),
        *s.gated_mlp(hidden, shared, at="share_expert", role="shared_experts"),
        s.experts(count, hidden, inner, top_k, at="moe", layout="stacked", routing=_routing(t)),
    ]
