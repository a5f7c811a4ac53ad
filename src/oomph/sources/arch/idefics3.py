"""Idefics3 and SmolVLM: SigLIP, pixels shuffled together, and a Llama. vLLM: models/idefics3.py, smolvlm.py."""

from __future__ import annotations

from oomph.ir.model import Modality, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill
from oomph.sources.arch.llama import LLAMA
from oomph.sources.arch.siglip import patches, siglip
from oomph.sources.config import Config


def build(b: Builder) -> Skeleton:
    fill(b, LLAMA)
    v = b.config.sub("vision_config")
    # Idefics3VisionConfig
    v.fill(hidden_size=1152, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=16)
    v.fill(image_size=224, patch_size=32)
    scale = b.config.integer("scale_factor", default=2)
    tower = siglip(b, "model.vision_model", v, idefics=True)
    wide, text = v.integer("hidden_size") * scale * scale, b.text.integer("hidden_size")
    s = b.site("model.connector")
    project = s.replicated("modality_projection.proj", text, wide, "multimodal")
    connector = Tower("connector", "vision", s.prefix, ((1, b.block([project])),))
    tied = b.config.flag("tie_word_embeddings", default=b.text.flag("tie_word_embeddings"))
    return Skeleton(
        decoder_layers(b, LLAMA, "model.text_model"),
        decoder_root(b, LLAMA, "model.text_model", "lm_head", tied=tied),
        towers=(tower, connector),
        modalities=(Modality("image", _pieces(v) * (patches(v) // (scale * scale))),),
    )


def _pieces(v: Config) -> int:
    """idefics3.py get_num_patches: the largest image is cut into squares of image_size, and shown whole once more."""
    longest = v.sub("size").integer("longest_edge", default=4 * 364)
    side = -(-longest // v.sub("max_image_size").integer("longest_edge", default=364))
    return side * side + 1
