"""Pixtral and Mistral Small 3 as Mistral's own files describe them. vLLM: models/pixtral.py (VisionTransformer)."""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill
from oomph.sources.arch.llama import MISTRAL
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    fill(builder, MISTRAL)
    vision = builder.config.sub("vision_config")
    vision.fill(image_size=vision.integer("max_image_size", default=1024), patch_size=16, num_channels=3)
    merge = vision.integer("spatial_merge_size", default=1)
    side = vision.integer("image_size") // (vision.integer("patch_size") * merge)
    return Skeleton(
        decoder_layers(builder, MISTRAL, "language_model.model"),
        decoder_root(builder, MISTRAL, "language_model.model", "language_model.lm_head"),
        towers=(_tower(builder, vision), _adapter(builder, vision, merge)),
        modalities=(Modality("image", side * (side + 1)),),
    )


def _tower(builder: Builder, vision: Config) -> Tower:
    hidden, inner, heads = (
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
        vision.integer("num_attention_heads"),
    )
    patch, count = vision.integer("patch_size"), vision.integer("num_hidden_layers", high=10_000)
    site, at = builder.site("vision_encoder"), "transformer.layers.0"
    first: list[Module] = [
        Param("patch_conv.weight", (hidden, vision.integer("num_channels"), patch, patch), builder.dtype, "multimodal"),
        Param("ln_pre.weight", (hidden,), builder.dtype, "multimodal"),
    ]
    query, k, value = (f"{at}.attention.{name}" for name in ("wq", "wk", "wv"))
    qkv = [(name, hidden, heads) for name in (query, k, value)]
    ffn = f"{at}.feed_forward"
    # the class gives its encoder no quantisation config
    layer: list[Module] = [
        site.linear(f"{at}.attention.qkv_proj", qkv, hidden, "column", "multimodal", quantised=False),
        site.row(f"{at}.attention.wo", hidden, hidden, "multimodal", quantised=False),
        site.linear(
            f"{ffn}.gate_up_proj",
            [(f"{ffn}.w1", inner), (f"{ffn}.w3", inner)],
            hidden,
            "column",
            "multimodal",
            quantised=False,
        ),
        site.row(f"{ffn}.w2", hidden, inner, "multimodal", quantised=False),
        Param(f"{at}.attention_norm.weight", (hidden,), builder.dtype, "multimodal"),
        Param(f"{at}.ffn_norm.weight", (hidden,), builder.dtype, "multimodal"),
    ]
    blocks = ((1, builder.block(first)), (count, builder.block(layer)))
    return Tower("vision_encoder", "vision", site.prefix, blocks, count, hidden, inner, heads)


def _adapter(builder: Builder, config: Config, merge: int) -> Tower:
    vision, hidden, bias = (
        config.integer("hidden_size"),
        builder.text.integer("hidden_size"),
        config.flag("adapter_bias", default=True),
    )
    site = builder.site("vision_language_adapter")
    modules: list[Module] = [
        site.replicated("w_in", hidden, vision, "multimodal", bias=bias, quantised=False),
        site.replicated("w_out", hidden, hidden, "multimodal", bias=bias, quantised=False),
    ]
    if config.flag("add_pre_mm_projector_layer_norm"):
        modules.append(Param("pre_mm_projector_norm.weight", (vision,), builder.dtype, "multimodal"))
    if config.text("mm_projector_id") == "patch_merge":
        wide = vision * merge * merge
        modules.append(site.replicated("patch_merger.merging_layer", vision, wide, "multimodal", quantised=False))
    return Tower("vision_language_adapter", "vision", site.prefix, ((1, builder.block(modules)),))
