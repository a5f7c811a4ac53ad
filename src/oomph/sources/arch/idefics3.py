"""Idefics3 and SmolVLM: SigLIP, pixels shuffled together, and a Llama. vLLM: models/idefics3.py, smolvlm.py."""

from __future__ import annotations

from oomph.ir.model import Modality, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill
from oomph.sources.arch.llama import LLAMA
from oomph.sources.arch.siglip import patches, siglip
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    fill(builder, LLAMA)
    vision = builder.config.sub("vision_config")
    # Idefics3VisionConfig
    vision.fill(hidden_size=1152, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=16)
    vision.fill(image_size=224, patch_size=32)
    scale = builder.config.integer("scale_factor", default=2)
    tower = siglip(builder, "model.vision_model", vision, idefics=True)
    wide, text = vision.integer("hidden_size") * scale * scale, builder.text.integer("hidden_size")
    site = builder.site("model.connector")
    project = site.replicated("modality_projection.proj", text, wide, "multimodal")
    connector = Tower("connector", "vision", site.prefix, ((1, builder.block([project])),))
    tied = builder.config.flag("tie_word_embeddings", default=builder.text.flag("tie_word_embeddings"))
    return Skeleton(
        decoder_layers(builder, LLAMA, "model.text_model"),
        decoder_root(builder, LLAMA, "model.text_model", "lm_head", tied=tied),
        towers=(tower, connector),
        modalities=(Modality("image", _pieces(vision) * (patches(vision) // (scale * scale))),),
    )


def _pieces(vision: Config) -> int:
    """idefics3.py get_num_patches: the largest image is cut into squares of image_size, and shown whole once more."""
    longest = vision.sub("size").integer("longest_edge", default=4 * 364)
    side = -(-longest // vision.sub("max_image_size").integer("longest_edge", default=364))
    return side * side + 1
