"""Phi-3 and Phi-3.5 vision: CLIP up to its last layer but one, two linear layers, a Llama. vLLM: models/phi3v.py."""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Param, Tower, Vocab
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import Names, Style, decoder_layers, decoder_root
from oomph.sources.arch.llava import clip, up_to
from oomph.sources.config import Config

STYLE = Style(names=Names(packed_qkv="qkv_proj", packed_gate_up="gate_up_proj"))
_LAYERS = 24  # phi3v.py CLIP_VIT_LARGE_PATCH14_336_CONFIG


def build(builder: Builder) -> Skeleton:
    text, image = builder.text, builder.config.sub("img_processor")
    hidden, wide = text.integer("hidden_size"), 4 * image.integer("image_dim_out", default=1024)
    site = builder.site("model.vision_embed_tokens")
    # CLIP's own defaults are the ones that this class has in its file
    tower = clip(builder, f"{site.prefix}.img_processor.vision_model", Config({}, where=builder.config.where))
    first = image.integer("layer_idx", default=-2, low=-_LAYERS)
    tower = up_to(tower, first + _LAYERS + 1 if first < 0 else first + 1, 1)
    modules: list[Module] = [
        Param("glb_GN", (1, 1, wide), builder.dtype, "multimodal"),
        Param("sub_GN", (1, 1, 1, wide), builder.dtype, "multimodal"),
        site.replicated("img_projection.0", hidden, wide, "multimodal", bias=True, quantised=False),
        site.replicated("img_projection.2", hidden, hidden, "multimodal", bias=True, quantised=False),
        # the class has a table of its own beside the language model's
        Vocab("embed_tokens", text.integer("vocab_size"), hidden, builder.dtype, "embed", stored=False),
    ]
    project = Tower("vision_embed_tokens", "vision", site.prefix, ((1, builder.block(modules)),))
    tokens = image.integer("num_img_tokens", default=144)
    return Skeleton(
        decoder_layers(builder, STYLE),
        decoder_root(builder, STYLE),
        towers=(tower, project),
        modalities=(Modality("image", tokens * 17 + 1),),  # 16 crops and the whole image
    )
