"""The SigLIP vision encoder (vLLM: models/siglip.py), as Gemma 3 and PaliGemma carry it."""

from oomph.ir import Module, Param, Tower
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


def _fill(vision: Config) -> None:
    """What neither the config nor the family has a value for."""
    vision.fill(**{k: value for k, value in _DEFAULTS.items() if not vision.has(k)})


def patches(vision: Config) -> int:
    _fill(vision)
    side = vision.integer("image_size") // vision.integer("patch_size")
    return side * side


def siglip(builder: Builder, prefix: str, vision: Config, *, idefics: bool = False) -> Tower:
    """`idefics`: the same network in idefics2_vision_model.py, which quantises what siglip.py leaves alone."""
    _fill(vision)
    hidden, inter, heads = (
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
        vision.integer("num_attention_heads"),
    )
    patch, count = vision.integer("patch_size"), vision.integer("num_hidden_layers", high=10_000)
    site = builder.site(prefix)
    conv = (hidden, vision.integer("num_channels"), patch, patch)
    positions = patches(vision)
    first: list[Module] = [
        site.tensor("embeddings.patch_embedding.weight", *conv),
        site.tensor("embeddings.patch_embedding.bias", hidden),
        site.tensor("embeddings.position_embedding.weight", positions, hidden),
    ]
    if not idefics:  # siglip.py: register_buffer("position_ids"), not in the checkpoint
        shape = (1, positions)
        first.append(Param("embeddings.position_ids", shape, "I64", "multimodal", stored=False, created_dtype="I64"))
    layer = _layer(site, hidden, inter, heads, idefics)
    blocks = [(1, first), (count, layer), (1, layer_norm(site, "post_layernorm", hidden))]
    return site.tower("vision_tower", "vision", blocks, count, hidden, inter, heads)


def _layer(site: Site, hidden: int, inter: int, heads: int, any_width: bool) -> list[Module]:
    at = "encoder.layers.0."
    # siglip.py:446 (0.21.0): Marlin wants multiples of 64; bitsandbytes does not care
    method = site.b.quant.facts.method if site.b.quant else ""
    fits = any_width or method == "bitsandbytes" or (hidden % 64 == 0 and inter % 64 == 0)
    return [
        site.qkv(hidden, heads, heads, hidden // heads, at=f"{at}self_attn", bias=True, role="multimodal"),
        site.row(f"{at}self_attn.out_proj", hidden, hidden, "multimodal", bias=True),
        *layer_norm(site, f"{at}layer_norm1", hidden),
        site.column(f"{at}mlp.fc1", inter, hidden, "multimodal", bias=True, quantised=fits),
        site.row(f"{at}mlp.fc2", hidden, inter, "multimodal", bias=True, quantised=fits),
        *layer_norm(site, f"{at}layer_norm2", hidden),
    ]


def layer_norm(site: Site, name: str, dim: int) -> list[Module]:
    return [site.tensor(f"{name}.{part}", dim) for part in ("weight", "bias")]
