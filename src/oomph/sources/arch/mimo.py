"""MiMo-7B (Qwen2 with multi-token-prediction layers) and MiMo-V2-Flash (experts, windows with sinks).

vLLM: models/mimo.py, mimo_mtp.py, mimo_v2.py.
"""

from oomph.errors import ConfigError
from oomph.ir import Attention, Layer, Module, Param
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


def build(builder: Builder) -> Skeleton:
    if builder.architecture == "MiMoForCausalLM":
        fill(builder, QWEN2)
        layers = decoder_layers(builder, QWEN2)
        count = builder.text.integer("num_nextn_predict_layers", default=0, low=0, high=64)
        drafts = tuple(_mtp_layer(site, layers[0]) for site in builder.sites("model.mtp_layers", count))
        return Skeleton(layers, decoder_root(builder, QWEN2), drafts)
    return _v2(builder)


def _mtp_layer(site: Site, like: Layer) -> Layer:
    text = site.b.text
    hidden = text.integer("hidden_size")
    modules: list[Module] = [
        site.norm("token_layernorm", hidden),
        site.norm("hidden_layernorm", hidden),
        site.replicated("input_proj", hidden, 2 * hidden, "other", quantised=False),
        *attention_modules(site.b, site, QWEN2, *dims(text, QWEN2)),
        *dense_mlp(site.b, QWEN2)(site, site.index),
        site.norm("input_layernorm", hidden),
        site.norm("post_attention_layernorm", hidden),
        site.norm("final_layernorm", hidden),
    ]
    return site.layer(like.mixers, modules)


# --- MiMo-V2 -------------------------------------------------------------------------------------------------------


def _v2(builder: Builder) -> Skeleton:
    text = builder.text
    count = text.integer("num_hidden_layers", high=10_000)
    hidden, sliding = text.integer("hidden_size"), _pattern(text, "hybrid_layer_pattern", count)
    sparse = _pattern(text, "moe_layer_freq", count)
    whole = _v2_attention(text, "", 0)
    local = _v2_attention(text, "swa_", text.integer("sliding_window_size", "sliding_window"))
    layers = []
    for i, site in enumerate(builder.sites("model.layers", count)):
        attention = local if sliding[i] else whole
        modules = [
            *_v2_modules(site, attention),
            *(_v2_experts(site) if sparse[i] else site.gated_mlp(hidden, text.integer("intermediate_size"))),
            site.norm("input_layernorm", hidden),
            site.norm("post_attention_layernorm", hidden),
        ]
        layers.append(site.layer([attention], modules))
    return Skeleton(tuple(layers), decoder_root(builder, Style()), drafts=_v2_draft(builder, local, len(layers)))


def _v2_draft(builder: Builder, attention: Attention, index: int) -> tuple[Layer, ...]:
    """mimo_v2_mtp.py: one sliding layer with a dense MLP, of however many the checkpoint has."""
    text, site = builder.text, builder.site("model.mtp.layers.0", index)
    if not text.integer("num_nextn_predict_layers", "num_mtp_layers", default=0, low=0):
        return ()
    hidden = text.integer("hidden_size")
    modules: list[Module] = [
        *(site.norm(name, hidden) for name in ("enorm", "hnorm")),
        site.replicated("eh_proj", hidden, 2 * hidden, "other", quantised=False),
        *_v2_modules(site, attention),
        *site.gated_mlp(hidden, text.integer("intermediate_size")),
        *(site.norm(name, hidden) for name in ("input_layernorm", "pre_mlp_layernorm", "final_layernorm")),
    ]
    return (site.layer([attention], modules),)


def _pattern(text: Config, key: str, count: int) -> list[int]:
    values = text.integers(key)
    if len(values) < count:
        raise ConfigError(f"{text.where}: {key} does not name {count} layers")
    return values


def _v2_attention(text: Config, swa: str, window: int) -> Attention:
    """Sliding layers have heads, widths and a rope base of their own, and a sink for each head."""
    heads = text.integer(f"{swa}num_attention_heads")
    head_dim = text.integer(f"{swa}head_dim")
    theta = text.number("rope_theta", default=1000000.0)
    rope = {
        "rope_theta": text.number("swa_rope_theta", default=theta) if swa else theta,
        "partial_rotary_factor": text.number("partial_rotary_factor", default=1.0),
    }
    return Attention(
        "sliding_window" if window else "full",
        heads,
        text.integer(f"{swa}num_key_value_heads", default=heads),
        head_dim,
        text.integer(f"{swa}v_head_dim", default=head_dim),
        window=window,
        sinks=bool(swa) and text.flag("add_swa_attention_sink_bias"),
        rope=rope_of(text, head_dim, params=rope),
    )


def _v2_modules(site: Site, attention: Attention) -> list[Module]:
    hidden = site.b.text.integer("hidden_size")
    bias = site.b.text.flag("attention_bias")
    modules: list[Module] = [
        site.qkv(
            hidden,
            attention.num_heads,
            attention.num_kv_heads,
            attention.head_dim,
            head_dim_v=attention.head_dim_v,
            bias=bias,
        ),
        site.row("self_attn.o_proj", hidden, attention.num_heads * attention.head_dim_v, "attention"),
    ]
    if attention.sinks:
        modules.append(
            Param("self_attn.attention_sink_bias", (attention.num_heads,), site.b.dtype, "attention", shard_dim=0)
        )
    return modules


def _v2_experts(site: Site) -> list[Module]:
    """mimo_v2.py:153 (0.21.0): the router is float32 unless moe_router_dtype says otherwise."""
    text = site.b.text
    hidden, count = text.integer("hidden_size"), text.integer("n_routed_experts")
    dtype = {"bfloat16": "BF16", "float16": "F16"}.get(text.text("moe_router_dtype"), "F32")
    return [
        Param("mlp.gate.weight", (count, hidden), site.b.dtype, "router", created_dtype=dtype),
        Param("mlp.gate.e_score_correction_bias", (count,), "F32", "router", created_dtype=dtype),
        site.experts(
            count,
            hidden,
            text.integer("moe_intermediate_size"),
            text.integer("num_experts_per_tok"),
            routing=sigmoid_routing(text),
        ),
    ]
