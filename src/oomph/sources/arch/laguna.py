"""Laguna: experts with a sigmoid router, gated attention, windows, heads that differ by layer.

vLLM: models/laguna.py.
"""

from oomph.errors import ConfigError
from oomph.ir import Attention, Module, Param, Role, Routing
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


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(**_DEFAULTS)
    hidden = text.integer("hidden_size")
    kinds = layer_kinds(text, Style())
    heads = _heads(text, len(kinds))
    sparse = _sparse(text, len(kinds))
    layers = []
    for i, site in enumerate(builder.sites("model.layers")):
        attention = _attention(text, kinds[i], heads[i])
        modules = [
            *_attention_modules(site, attention),
            *(_experts(site) if sparse[i] else _mlp(site, "mlp", text.integer("intermediate_size"))),
            site.norm("input_layernorm", hidden),
            site.norm("post_attention_layernorm", hidden),
        ]
        layers.append(site.layer([attention], modules))
    return Skeleton(tuple(layers), decoder_root(builder, Style()))


def _heads(text: Config, count: int) -> list[int]:
    listed = text.integers("num_attention_heads_per_layer")
    if not listed:
        return [text.integer("num_attention_heads")] * count
    if len(listed) < count:
        raise ConfigError(f"{text.where}: num_attention_heads_per_layer does not name {count} layers")
    return listed


def _sparse(text: Config, count: int) -> list[bool]:
    kinds = text.items("mlp_layer_types")
    if len(kinds) >= count:
        return [k == "sparse" for k in kinds[:count]]
    dense, step = frozenset(text.integers("mlp_only_layers")), text.integer("decoder_sparse_step")
    return [i not in dense and (i + 1) % step == 0 for i in range(count)]


def _attention(text: Config, kind: str, heads: int) -> Attention:
    """laguna.py:355 (0.21.0): rope parameters by kind of layer, or swa_rope_parameters for the sliding ones."""
    sliding = kind == "sliding_attention"
    head_dim = text.integer("head_dim")
    table = text.table("rope_parameters", "rope_scaling")
    params = table.get(kind) or table.get("full_attention")
    swa = text.table("swa_rope_parameters")
    if sliding and swa:
        params = dict(swa)
    return Attention(
        "sliding_window" if sliding else "full",
        heads,
        text.integer("num_key_value_heads"),
        head_dim,
        head_dim,
        window=text.integer("sliding_window") if sliding else 0,
        sinks=sliding and text.flag("swa_attention_sink_enabled"),
        rope=rope_of(text, head_dim, params=params if isinstance(params, dict) else None),
    )


def _attention_modules(site: Site, attention: Attention) -> list[Module]:
    text = site.b.text
    hidden = text.integer("hidden_size")
    modules: list[Module] = [
        site.qkv(hidden, attention.num_heads, attention.num_kv_heads, attention.head_dim, bias=text.flag("qkv_bias")),
        site.row(
            "self_attn.o_proj",
            hidden,
            attention.num_heads * attention.head_dim,
            "attention",
            bias=text.flag("attention_bias"),
        ),
    ]
    gating = text.get("gating")
    if gating:
        # true and "per-head": one gate a head; "per-element": one for each of its channels too
        width = (
            attention.num_heads if gating is True or gating == "per-head" else attention.num_heads * attention.head_dim
        )
        modules.append(site.column("self_attn.g_proj", width, hidden, "attention"))
    if attention.sinks:
        modules.append(Param("self_attn.sink", (attention.num_heads,), site.b.dtype, "attention", shard_dim=0))
    return [
        *modules,
        site.norm("self_attn.q_norm", attention.head_dim),
        site.norm("self_attn.k_norm", attention.head_dim),
    ]


def _mlp(site: Site, at: str, inner: int, *, shared: bool = False) -> list[Module]:
    """laguna.py:83: gate and up are two layers, not one fused."""
    hidden = site.b.text.integer("hidden_size")
    role: Role = "shared_experts" if shared else "mlp"
    return [
        site.linear(f"{at}.gate_proj", [(f"{at}.gate_proj", inner)], hidden, "column", role),
        site.linear(f"{at}.up_proj", [(f"{at}.up_proj", inner)], hidden, "column", role),
        site.linear(f"{at}.down_proj", [(f"{at}.down_proj", hidden)], inner, "row", role),
    ]


def _experts(site: Site) -> list[Module]:
    text = site.b.text
    hidden, count = text.integer("hidden_size"), text.integer("num_experts")
    shared = text.integer("shared_expert_intermediate_size", low=0)
    return [
        site.replicated("mlp.gate", count, hidden, "router", quantised=False),
        *(_mlp(site, "mlp.shared_expert", shared, shared=True) if shared else []),
        Param("mlp.experts.e_score_correction_bias", (count,), "F32", "router", created_dtype="F32"),
        site.experts(
            count,
            hidden,
            text.integer("moe_intermediate_size"),
            text.integer("num_experts_per_tok"),
            routing=Routing("sigmoid", biased=True),
        ),
    ]
