"""Laguna: experts with a sigmoid router, gated attention, windows, heads that differ by layer.

vLLM: models/laguna.py.
"""

from __future__ import annotations

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Module, Param, Role, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.decoder import Style, decoder_root, layer_kinds
from oomph.sources.config import Config

_DEFAULTS = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "gating": True,
    "max_position_embeddings": 131072,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [0],
}


def build(b: Builder) -> Skeleton:
    t = b.text
    t.fill(**_DEFAULTS)
    hidden = t.integer("hidden_size")
    kinds = layer_kinds(t, Style())
    heads = _heads(t, len(kinds))
    sparse = _sparse(t, len(kinds))
    layers = []
    for i, kind in enumerate(kinds):
        s = b.site(f"model.layers.{i}")
        attention = _attention(t, kind, heads[i])
        modules = _attention_modules(s, attention)
        modules += _experts(s) if sparse[i] else _mlp(s, "mlp", t.integer("intermediate_size"))
        modules += [s.norm("input_layernorm", hidden), s.norm("post_attention_layernorm", hidden)]
        layers.append(b.layer(i, s.prefix, [attention], modules))
    return Skeleton(tuple(layers), decoder_root(b, Style()))


def _heads(t: Config, count: int) -> list[int]:
    listed = t.integers("num_attention_heads_per_layer")
    if not listed:
        return [t.integer("num_attention_heads")] * count
    if len(listed) < count:
        raise ConfigError(f"{t.where}: num_attention_heads_per_layer does not name {count} layers")
    return listed


def _sparse(t: Config, count: int) -> list[bool]:
    kinds = t.items("mlp_layer_types")
    if len(kinds) >= count:
        return [k == "sparse" for k in kinds[:count]]
    dense, step = frozenset(t.integers("mlp_only_layers")), t.integer("decoder_sparse_step")
    return [i not in dense and (i + 1) % step == 0 for i in range(count)]


def _attention(t: Config, kind: str, heads: int) -> Attention:
    """laguna.py:355 (0.21.0): rope parameters by kind of layer, or swa_rope_parameters for the sliding ones."""
    sliding = kind == "sliding_attention"
    head_dim = t.integer("head_dim")
    table = t.table("rope_parameters", "rope_scaling")
    params = table.get(kind) or table.get("full_attention")
    swa = t.table("swa_rope_parameters")
    if sliding and swa:
        params = dict(swa)
    return Attention(
        "sliding_window" if sliding else "full",
        heads,
        t.integer("num_key_value_heads"),
        head_dim,
        head_dim,
        window=t.integer("sliding_window") if sliding else 0,
        sinks=sliding and t.flag("swa_attention_sink_enabled"),
        rope=rope_of(t, head_dim, params=params if isinstance(params, dict) else None),
    )


def _attention_modules(s: Site, a: Attention) -> list[Module]:
    t = s.b.text
    hidden = t.integer("hidden_size")
    modules: list[Module] = [
        s.qkv(hidden, a.num_heads, a.num_kv_heads, a.head_dim, bias=t.flag("qkv_bias")),
        s.row("self_attn.o_proj", hidden, a.num_heads * a.head_dim, "attention", bias=t.flag("attention_bias")),
    ]
    gating = t.get("gating")
    if gating:
        # true and "per-head": one gate a head; "per-element": one for each of its channels too
        width = a.num_heads if gating is True or gating == "per-head" else a.num_heads * a.head_dim
        modules.append(s.column("self_attn.g_proj", width, hidden, "attention"))
    if a.sinks:
        modules.append(Param("self_attn.sink", (a.num_heads,), s.b.dtype, "attention", shard_dim=0))
    return [*modules, s.norm("self_attn.q_norm", a.head_dim), s.norm("self_attn.k_norm", a.head_dim)]


def _mlp(s: Site, at: str, inner: int, *, shared: bool = False) -> list[Module]:
    """laguna.py:83: gate and up are two layers, not one fused."""
    hidden = s.b.text.integer("hidden_size")
    role: Role = "shared_experts" if shared else "mlp"
    return [
        s.linear(f"{at}.gate_proj", [(f"{at}.gate_proj", inner)], hidden, "column", role),
        s.linear(f"{at}.up_proj", [(f"{at}.up_proj", inner)], hidden, "column", role),
        s.linear(f"{at}.down_proj", [(f"{at}.down_proj", hidden)], inner, "row", role),
    ]


def _experts(s: Site) -> list[Module]:
    t = s.b.text
    hidden, count = t.integer("hidden_size"), t.integer("num_experts")
    shared = t.integer("shared_expert_intermediate_size", low=0)
    return [
        s.replicated("mlp.gate", count, hidden, "router", quantised=False),
        *(_mlp(s, "mlp.shared_expert", shared, shared=True) if shared else []),
        Param("mlp.experts.e_score_correction_bias", (count,), "F32", "router", created_dtype="F32"),
        s.experts(
            count,
            hidden,
            t.integer("moe_intermediate_size"),
            t.integer("num_experts_per_tok"),
            routing=Routing("sigmoid", biased=True),
        ),
    ]
