"""Granite 3 MoE and Granite 4 hybrid: attention or Mamba 2, experts in one tensor, a shared MLP.

vLLM: models/granitemoe.py, granitemoeshared.py, granitemoehybrid.py.
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Linear, Mixer, Module, Param, Part
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of
from oomph.sources.arch.mamba import granite_mamba2, mamba2_modules
from oomph.sources.arch.rope import rope_of
from oomph.sources.config import Config


def build(b: Builder) -> Skeleton:
    t = b.text
    hybrid = b.architecture == "GraniteMoeHybridForCausalLM"
    t.fill(vocab_size=32000, hidden_size=4096, intermediate_size=11008, num_hidden_layers=32)  # GraniteMoe*Config
    t.fill(num_attention_heads=32, max_position_embeddings=2048, num_local_experts=8, num_experts_per_tok=2)
    hidden = t.integer("hidden_size")
    heads, kv, width = heads_of(t)
    # granitemoehybrid.py:274 (0.21.0): a table only where position_embedding_type is "rope"
    rotary = not hybrid or t.text("position_embedding_type") == "rope"
    attention = Attention("full", heads, kv, width, width, rope=rope_of(t, width) if rotary else None)
    kinds = _kinds(t, hybrid)
    inner = t.integer("mamba_expand", default=2) * hidden
    mamba = granite_mamba2(t, inner) if "mamba" in kinds else None
    layers = []
    for i, kind in enumerate(kinds):
        s = b.site(f"model.layers.{i}")
        if kind == "mamba" and mamba is not None:
            mixer: Mixer = mamba.mixer
            modules = mamba2_modules(s, mamba, "mamba")
        else:
            mixer, bias = attention, t.flag("attention_bias")
            modules = [
                s.qkv(hidden, heads, kv, width, bias=bias),
                s.row("self_attn.o_proj", hidden, heads * width, "attention", bias=bias),
            ]
        modules += _mlp(s, t, hidden)
        modules += [s.norm("input_layernorm", hidden), s.norm("post_attention_layernorm", hidden)]
        layers.append(b.layer(i, s.prefix, [mixer], modules))
    root = b.head(t.integer("vocab_size"), hidden, tied=t.flag("tie_word_embeddings"), everywhere=hybrid)
    return Skeleton(tuple(layers), root)


def _kinds(t: Config, hybrid: bool) -> list[str]:
    count = t.integer("num_hidden_layers", high=10_000)
    kinds = t.items("layer_types", "layers_block_type") if hybrid else []
    if not kinds:
        return ["mamba" if hybrid else "attention"] * count
    if len(kinds) < count or not all(k in ("mamba", "attention") for k in kinds):
        raise ConfigError(f"{t.where}: layer_types does not name {count} layers as mamba or attention")
    return [str(k) for k in kinds[:count]]


def _mlp(s: Site, t: Config, hidden: int) -> list[Module]:
    modules: list[Module] = []
    count = t.integer("num_local_experts", default=0, low=0)
    at, dtype = "block_sparse_moe", s.b.dtype
    if count:
        inter = t.integer("intermediate_size")
        experts = s.experts(count, hidden, inter, t.integer("num_experts_per_tok"), at=f"{at}.experts")
        modules += [
            s.replicated(f"{at}.router.layer", count, hidden, "router", quantised=False),
            # the checkpoint has all experts in two tensors
            Param(f"{at}.input_linear.weight", (count, 2 * inter, hidden), dtype, "experts", created=False),
            Param(f"{at}.output_linear.weight", (count, hidden, inter), dtype, "experts", created=False),
            replace(experts, stored=False),
        ]
    shared = t.integer("shared_intermediate_size", default=0, low=0)
    if shared:
        name = "shared_mlp.input_linear"
        parts = (Part(name, 2 * shared, created=False), *[Part(f"{name}.{i}", shared, stored=False) for i in (0, 1)])
        scheme = s.b.scheme([f"{s.prefix}.{name}"])
        modules += [
            Linear(name, parts, hidden, "column", "shared_experts", dtype, scheme=scheme),
            s.row("shared_mlp.output_linear", hidden, shared, "shared_experts"),
        ]
    return modules
