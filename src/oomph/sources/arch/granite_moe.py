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

_WORDS = {"linear_attention": "mamba", "full_attention": "attention"}  # what transformers writes since 5.16


def build(builder: Builder) -> Skeleton:
    text = builder.text
    hybrid = builder.architecture == "GraniteMoeHybridForCausalLM"
    text.fill(vocab_size=32000, hidden_size=4096, intermediate_size=11008, num_hidden_layers=32)  # GraniteMoe*Config
    text.fill(num_attention_heads=32, max_position_embeddings=2048, num_local_experts=8, num_experts_per_tok=2)
    hidden = text.integer("hidden_size")
    heads, kv, width = heads_of(text)
    # granitemoehybrid.py:274 (0.21.0): a table only where position_embedding_type is "rope"
    rotary = not hybrid or text.text("position_embedding_type") == "rope"
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width) if rotary else None)
    kinds = _kinds(text, hybrid)
    inner = text.integer("mamba_expand", default=2) * hidden
    mamba = granite_mamba2(text, inner) if "mamba" in kinds else None
    layers = []
    for i, kind in enumerate(kinds):
        site = builder.site(f"model.layers.{i}")
        if kind == "mamba" and mamba is not None:
            mixer: Mixer = mamba.mixer
            modules = mamba2_modules(site, mamba, "mamba")
        else:
            mixer, bias = attention, text.flag("attention_bias")
            modules = [
                site.qkv(hidden, heads, kv, width, bias=bias),
                site.row("self_attn.o_proj", hidden, heads * width, "attention", bias=bias),
            ]
        modules += granite_mlp(site, text, hidden)
        modules += [site.norm("input_layernorm", hidden), site.norm("post_attention_layernorm", hidden)]
        layers.append(builder.layer(i, site.prefix, [mixer], modules))
    root = builder.head(text.integer("vocab_size"), hidden, tied=text.flag("tie_word_embeddings"), everywhere=True)
    return Skeleton(tuple(layers), root)


def _kinds(text: Config, hybrid: bool) -> list[str]:
    count = text.integer("num_hidden_layers", high=10_000)
    kinds = text.items("layer_types", "layers_block_type") if hybrid else []
    if not kinds:
        return ["mamba" if hybrid else "attention"] * count
    kinds = [_WORDS.get(kind, kind) if isinstance(kind, str) else kind for kind in kinds]
    if len(kinds) < count or not all(k in ("mamba", "attention") for k in kinds):
        raise ConfigError(f"{text.where}: layer_types does not name {count} layers as mamba or attention")
    return [str(k) for k in kinds[:count]]


def granite_mlp(site: Site, text: Config, hidden: int) -> list[Module]:
    modules: list[Module] = []
    count = text.integer("num_local_experts", default=0, low=0)
    at, dtype = "block_sparse_moe", site.b.dtype
    if count:
        inter = text.integer("intermediate_size")
        experts = site.experts(count, hidden, inter, text.integer("num_experts_per_tok"), at=f"{at}.experts")
        modules += [
            site.replicated(f"{at}.router.layer", count, hidden, "router", quantised=False),
            # the checkpoint has all experts in two tensors
            Param(f"{at}.input_linear.weight", (count, 2 * inter, hidden), dtype, "experts", created=False),
            Param(f"{at}.output_linear.weight", (count, hidden, inter), dtype, "experts", created=False),
            replace(experts, stored=False),
        ]
    shared = text.integer("shared_intermediate_size", default=0, low=0)
    if shared:
        name = "shared_mlp.input_linear"
        parts = (Part(name, 2 * shared, created=False), *[Part(f"{name}.{i}", shared, stored=False) for i in (0, 1)])
        scheme = site.b.scheme([f"{site.prefix}.{name}"])
        modules += [
            Linear(name, parts, hidden, "column", "shared_experts", dtype, scheme=scheme),
            site.row("shared_mlp.output_linear", hidden, shared, "shared_experts"),
        ]
    return modules
