"""Pixtral and Mistral Small 3 as Mistral's own files describe them. vLLM: models/pixtral.py (VisionTransformer)."""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill
from oomph.sources.arch.llama import MISTRAL
from oomph.sources.config import Config


def build(b: Builder) -> Skeleton:
    fill(b, MISTRAL)
    v = b.config.sub("vision_config")
    v.fill(image_size=v.integer("max_image_size", default=1024), patch_size=16, num_channels=3)
    merge = v.integer("spatial_merge_size", default=1)
    side = v.integer("image_size") // (v.integer("patch_size") * merge)
    return Skeleton(
        decoder_layers(b, MISTRAL, "language_model.model"),
        decoder_root(b, MISTRAL, "language_model.model", "language_model.lm_head"),
        towers=(_tower(b, v), _adapter(b, v, merge)),
        modalities=(Modality("image", side * (side + 1)),),
    )


def _tower(b: Builder, v: Config) -> Tower:
    hidden, inner, heads = v.integer("hidden_size"), v.integer("intermediate_size"), v.integer("num_attention_heads")
    patch, count = v.integer("patch_size"), v.integer("num_hidden_layers", high=10_000)
    s, at = b.site("vision_encoder"), "transformer.layers.0"
    first: list[Module] = [
        Param("patch_conv.weight", (hidden, v.integer("num_channels"), patch, patch), b.dtype, "multimodal"),
        Param("ln_pre.weight", (hidden,), b.dtype, "multimodal"),
    ]
    q, k, w = (f"{at}.attention.{name}" for name in ("wq", "wk", "wv"))
    qkv = [(name, hidden, heads) for name in (q, k, w)]
    ffn = f"{at}.feed_forward"
    # the class gives its encoder no quantisation config
    layer: list[Module] = [
        s.linear(f"{at}.attention.qkv_proj", qkv, hidden, "column", "multimodal", quantised=False),
        s.row(f"{at}.attention.wo", hidden, hidden, "multimodal", quantised=False),
        s.linear(
            f"{ffn}.gate_up_proj",
            [(f"{ffn}.w1", inner), (f"{ffn}.w3", inner)],
            hidden,
            "column",
            "multimodal",
            quantised=False,
        ),
        s.row(f"{ffn}.w2", hidden, inner, "multimodal", quantised=False),
        Param(f"{at}.attention_norm.weight", (hidden,), b.dtype, "multimodal"),
        Param(f"{at}.ffn_norm.weight", (hidden,), b.dtype, "multimodal"),
    ]
    blocks = ((1, b.block(first)), (count, b.block(layer)))
    return Tower("vision_encoder", "vision", s.prefix, blocks, count, hidden, inner, heads)


def _adapter(b: Builder, v: Config, merge: int) -> Tower:
    vision, hidden, bias = v.integer("hidden_size"), b.text.integer("hidden_size"), v.flag("adapter_bias", default=True)
    s = b.site("vision_language_adapter")
    modules: list[Module] = [
        s.replicated("w_in", hidden, vision, "multimodal", bias=bias, quantised=False),
        s.replicated("w_out", hidden, hidden, "multimodal", bias=bias, quantised=False),
    ]
    if v.flag("add_pre_mm_projector_layer_norm"):
        modules.append(Param("pre_mm_projector_norm.weight", (vision,), b.dtype, "multimodal"))
    if v.text("mm_projector_id") == "patch_merge":
        wide = vision * merge * merge
        modules.append(s.replicated("patch_merger.merging_layer", vision, wide, "multimodal", quantised=False))
    return Tower("vision_language_adapter", "vision", s.prefix, ((1, b.block(modules)),))
