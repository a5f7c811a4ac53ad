"""Mistral 3 (Mistral Small 3.1 and later, Ministral 3) with its Pixtral vision encoder.

vLLM: models/mistral3.py, pixtral.py (PixtralHFVisionModel).
"""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import Style, decoder_layers, decoder_root, fill, tied_outside
from oomph.sources.arch.llama import MISTRAL
from oomph.sources.config import Config

# text_config's model_type -> the class vLLM gives it
_TEXT = {"mistral": MISTRAL, "ministral3": Style(defaults=(("max_position_embeddings", 262144), ("head_dim", 128)))}


def build(b: Builder) -> Skeleton:
    style = _TEXT.get(b.text.text("model_type", default="mistral"), MISTRAL)
    fill(b, style)
    b.config.fill(spatial_merge_size=2)
    v = b.config.sub("vision_config")
    # transformers 4.52 and later write everything below "model"
    prefix = b.root("language_model.model", "model.language_model")
    outer = "model." if prefix.startswith("model.") else ""
    tower = pixtral(b, f"{outer}vision_tower", v)
    projector = _projector(b, f"{outer}multi_modal_projector", v)
    side = v.integer("image_size") // (v.integer("patch_size") * b.config.integer("spatial_merge_size"))
    head = "lm_head" if outer else "language_model.lm_head"
    root = tied_outside(b, decoder_root(b, style, prefix, head), head)
    return Skeleton(
        decoder_layers(b, style, prefix),
        root,
        towers=(tower, projector),
        modalities=(Modality("image", side * side),),
    )


def pixtral(b: Builder, prefix: str, v: Config) -> Tower:
    v.fill(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16)
    v.fill(num_channels=3, image_size=1024, patch_size=16)
    hidden, inner, heads = v.integer("hidden_size"), v.integer("intermediate_size"), v.integer("num_attention_heads")
    patch, count = v.integer("patch_size"), v.integer("num_hidden_layers", high=10_000)
    s = b.site(prefix)
    at = "transformer.layers.0"
    layer: list[Module] = [
        Param(f"{at}.attention_norm.weight", (hidden,), b.dtype, "multimodal"),
        s.qkv(hidden, heads, heads, hidden // heads, at=f"{at}.attention", role="multimodal"),
        s.row(f"{at}.attention.o_proj", hidden, hidden, "multimodal"),
        *s.gated_mlp(hidden, inner, at=f"{at}.feed_forward", role="multimodal"),
        Param(f"{at}.ffn_norm.weight", (hidden,), b.dtype, "multimodal"),
    ]
    side = v.integer("image_size") // patch
    dim = v.integer("head_dim", default=hidden // heads)
    first: list[Module] = [
        Param("patch_conv.weight", (hidden, v.integer("num_channels"), patch, patch), b.dtype, "multimodal"),
        Param("ln_pre.weight", (hidden,), b.dtype, "multimodal"),
    ]
    rows = (side * side, dim)
    tables = [
        _table("inv_freq", rows, "Pixtral frequencies of every patch"),
        _table("original_inv_freq", rows, "Pixtral frequencies of every patch, a copy"),
        _table("frequencies", (dim,), "Pixtral frequencies by axis"),
    ]
    return Tower(
        "vision_tower",
        "vision",
        prefix,
        ((1, b.block(first)), (count, b.block(layer)), (1, b.block(tables))),
        layers=count,
        hidden=hidden,
        intermediate=inner,
        num_heads=heads,
    )


def _table(name: str, shape: tuple[int, ...], only: str) -> Param:
    """facts/vllm/structure.py says which releases have which."""
    name = f"patch_positional_embedding.{name}"
    return Param(name, shape, "F32", "multimodal", stored=False, created_dtype="F32", only=only)


def _projector(b: Builder, prefix: str, v: Config) -> Tower:
    vision, hidden = v.integer("hidden_size"), b.text.integer("hidden_size")
    merge = b.config.integer("spatial_merge_size")
    bias = b.config.flag("multimodal_projector_bias")
    s = b.site(prefix)
    modules: list[Module] = [
        Param("norm.weight", (vision,), b.dtype, "multimodal"),
        s.replicated("patch_merger.merging_layer", vision, vision * merge * merge, "multimodal", quantised=False),
        s.column("linear_1", hidden, vision, "multimodal", bias=bias),
        s.row("linear_2", hidden, hidden, "multimodal", bias=bias),
    ]
    return Tower("multi_modal_projector", "vision", prefix, ((1, b.block(modules)),))
