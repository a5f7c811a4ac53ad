"""MiMo-7B (Qwen2 with multi-token-prediction layers) and MiMo-V2-Flash (experts, windows with sinks).

vLLM: models/mimo.py, mimo_mtp.py, mimo_v2.py.
"""

from __future__ import annotations

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Layer, Module, Param
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of, sigmoid_routing
from oomph.sources.arch.decoder import (
    Style,
    attention_modules,
    decoder_layers,
    decoder_root,
    dense_mlp,
    dims,
    fill,
)
from oomph.sources.arch.llama import QWEN2
from oomph.sources.config import Config


def build(b: Builder) -> Skeleton:
    if b.architecture == "MiMoForCausalLM":
        fill(b, QWEN2)
        layers = decoder_layers(b, QWEN2)
        count = b.text.integer("num_nextn_predict_layers", default=0, low=0, high=64)
        drafts = tuple(_mtp_layer(b, i, layers[0]) for i in range(count))
        return Skeleton(layers, decoder_root(b, QWEN2), drafts)
    return _v2(b)


def _mtp_layer(b: Builder, index: int, like: Layer) -> Layer:
    t = b.text
    hidden = t.integer("hidden_size")
    s = b.site(f"model.mtp_layers.{index}")
    modules: list[Module] = [
        s.norm("token_layernorm", hidden),
        s.norm("hidden_layernorm", hidden),
        s.replicated("input_proj", hidden, 2 * hidden, "other", quantised=False),
        *attention_modules(b, s, QWEN2, *dims(t, QWEN2)),
        *dense_mlp(b, QWEN2)(s, index),
        s.norm("input_layernorm", hidden),
        s.norm("post_attention_layernorm", hidden),
        s.norm("final_layernorm", hidden),
    ]
    return b.layer(index, s.prefix, like.mixers, modules)


# --- MiMo-V2 -------------------------------------------------------------------------------------------------------


def _v2(b: Builder) -> Skeleton:
    t = b.text
    count = t.integer("num_hidden_layers", high=10_000)
    sliding = _pattern(t, "hybrid_layer_pattern", count)
    sparse = _pattern(t, "moe_layer_freq", count)
    whole = _v2_attention(t, "", 0)
    local = _v2_attention(t, "swa_", t.integer("sliding_window_size", "sliding_window"))
    layers = []
    for i in range(count):
        s = b.site(f"model.layers.{i}")
        attention = local if sliding[i] else whole
        modules = _v2_modules(s, attention)
        modules += (
            _v2_experts(s) if sparse[i] else s.gated_mlp(t.integer("hidden_size"), t.integer("intermediate_size"))
        )
        modules += [s.norm(n, t.integer("hidden_size")) for n in ("input_layernorm", "post_attention_layernorm")]
        layers.append(b.layer(i, s.prefix, [attention], modules))
    return Skeleton(tuple(layers), decoder_root(b, Style()))


def _pattern(t: Config, key: str, count: int) -> list[int]:
    values = t.integers(key)
    if len(values) < count:
        raise ConfigError(f"{t.where}: {key} does not name {count} layers")
    return values


def _v2_attention(t: Config, swa: str, window: int) -> Attention:
    """Sliding layers have heads, widths and a rope base of their own, and a sink for each head."""
    heads = t.integer(f"{swa}num_attention_heads")
    head_dim = t.integer(f"{swa}head_dim")
    theta = t.number("rope_theta", default=1000000.0)
    rope = {
        "rope_theta": t.number("swa_rope_theta", default=theta) if swa else theta,
        "partial_rotary_factor": t.number("partial_rotary_factor", default=1.0),
    }
    return Attention(
        "sliding_window" if window else "full",
        heads,
        t.integer(f"{swa}num_key_value_heads", default=heads),
        head_dim,
        t.integer(f"{swa}v_head_dim", default=head_dim),
        window=window,
        sinks=bool(swa) and t.flag("add_swa_attention_sink_bias"),
        rope=rope_of(t, head_dim, params=rope),
    )


def _v2_modules(s: Site, a: Attention) -> list[Module]:
    hidden = s.b.text.integer("hidden_size")
    bias = s.b.text.flag("attention_bias")
    modules: list[Module] = [
        s.qkv(hidden, a.num_heads, a.num_kv_heads, a.head_dim, head_dim_v=a.head_dim_v, bias=bias),
        s.row("self_attn.o_proj", hidden, a.num_heads * a.head_dim_v, "attention"),
    ]
    if a.sinks:
        modules.append(Param("self_attn.attention_sink_bias", (a.num_heads,), s.b.dtype, "attention", shard_dim=0))
    return modules


def _v2_experts(s: Site) -> list[Module]:
    """mimo_v2.py:153 (0.21.0): the router is float32 unless moe_router_dtype says otherwise."""
    t = s.b.text
    hidden, count = t.integer("hidden_size"), t.integer("n_routed_experts")
    dtype = {"bfloat16": "BF16", "float16": "F16"}.get(t.text("moe_router_dtype"), "F32")
    return [
        Param("mlp.gate.weight", (count, hidden), s.b.dtype, "router", created_dtype=dtype),
        Param("mlp.gate.e_score_correction_bias", (count,), "F32", "router", created_dtype=dtype),
        s.experts(
            count,
            hidden,
            t.integer("moe_intermediate_size"),
            t.integer("num_experts_per_tok"),
            routing=sigmoid_routing(t),
        ),
    ]
