"""The SigLIP vision encoder (vLLM: models/siglip.py), as Gemma 3 and PaliGemma carry it."""

from __future__ import annotations

from oomph.ir.model import Module, Param, Tower
from oomph.sources.arch.base import Builder, Site
from oomph.sources.config import Config

# SiglipVisionConfig
_DEFAULTS = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_channels": 3,
    "image_size": 224,
    "patch_size": 16,
}


def _fill(v: Config) -> None:
    """What neither the config nor the family has a value for."""
    v.fill(**{k: value for k, value in _DEFAULTS.items() if not v.has(k)})


def patches(v: Config) -> int:
    _fill(v)
    side = v.integer("image_size") // v.integer("patch_size")
    return side * side


def siglip(b: Builder, prefix: str, v: Config, *, idefics: bool = False) -> Tower:
    """`idefics`: the same network in idefics2_vision_model.py, which quantises what siglip.py leaves alone."""
    _fill(v)
    hidden, inter, heads = v.integer("hidden_size"), v.integer("intermediate_size"), v.integer("num_attention_heads")
    patch, count = v.integer("patch_size"), v.integer("num_hidden_layers", high=10_000)
    s = b.site(prefix)
    conv = (hidden, v.integer("num_channels"), patch, patch)
    positions = patches(v)
    first: list[Module] = [
        Param("embeddings.patch_embedding.weight", conv, b.dtype, "multimodal"),
        Param("embeddings.patch_embedding.bias", (hidden,), b.dtype, "multimodal"),
        Param("embeddings.position_embedding.weight", (positions, hidden), b.dtype, "multimodal"),
    ]
    if not idefics:  # siglip.py: register_buffer("position_ids"), not in the checkpoint
        shape = (1, positions)
        first.append(Param("embeddings.position_ids", shape, "I64", "multimodal", stored=False, created_dtype="I64"))
    last = layer_norm(s, "post_layernorm", hidden)
    return Tower(
        "vision_tower",
        "vision",
        prefix,
        ((1, b.block(first)), (count, b.block(_layer(s, hidden, inter, heads, idefics))), (1, b.block(last))),
        layers=count,
        hidden=hidden,
        intermediate=inter,
        num_heads=heads,
    )


def _layer(s: Site, hidden: int, inter: int, heads: int, any_width: bool) -> list[Module]:
    at = "encoder.layers.0."
    # siglip.py:446 (0.21.0): Marlin wants multiples of 64; bitsandbytes does not care
    method = s.b.quant.facts.method if s.b.quant else ""
    fits = any_width or method == "bitsandbytes" or (hidden % 64 == 0 and inter % 64 == 0)
    return [
        s.qkv(hidden, heads, heads, hidden // heads, at=f"{at}self_attn", bias=True, role="multimodal"),
        s.row(f"{at}self_attn.out_proj", hidden, hidden, "multimodal", bias=True),
        *layer_norm(s, f"{at}layer_norm1", hidden),
        s.column(f"{at}mlp.fc1", inter, hidden, "multimodal", bias=True, quantised=fits),
        s.row(f"{at}mlp.fc2", hidden, inter, "multimodal", bias=True, quantised=fits),
        *layer_norm(s, f"{at}layer_norm2", hidden),
    ]


def layer_norm(s: Site, name: str, dim: int) -> list[Module]:
    return [Param(f"{name}.{part}", (dim,), s.b.dtype, "multimodal") for part in ("weight", "bias")]
