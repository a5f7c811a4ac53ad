"""DeepSeek-OCR: SAM-B and CLIP-L behind each other, one linear layer, and a small DeepSeek with ordinary attention.

vLLM: models/deepseek_ocr.py, deepencoder.py. The encoders' sizes are the classes' own.
"""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.deepseek import language_model
from oomph.sources.arch.llava import clip
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config

_SAM, _SAM_LAYERS, _SAM_HEADS = 768, 12, 12
_WHOLE = (2, 5, 8, 11)  # layers that see the whole image; the others windows of 14 patches
# a whole view of 16 rows of 16 and a newline, six tiles of 10 x 10 side by side, a separator
_TOKENS = 16 * 17 + 30 * 21 + 1


def build(builder: Builder) -> Skeleton:
    return language_model(
        builder,
        "model",
        "lm_head",
        towers=(_sam(builder), _clip(builder), _projector(builder)),
        modalities=(Modality("image", _TOKENS),),
    )


def _sam(builder: Builder) -> Tower:
    """Plain modules of torch: whole on every rank."""
    site, wide = builder.site("model.sam_model"), _SAM

    def param(name: str, *shape: int) -> Param:
        return Param(name, shape, builder.dtype, "multimodal")

    def layer(rows: int) -> list[Module]:
        at = "blocks.0"
        return [
            *layer_norm(site, f"{at}.norm1", wide),
            param(f"{at}.attn.rel_pos_h", 2 * rows - 1, wide // _SAM_HEADS),
            param(f"{at}.attn.rel_pos_w", 2 * rows - 1, wide // _SAM_HEADS),
            site.replicated(f"{at}.attn.qkv", 3 * wide, wide, "multimodal", bias=True, quantised=False),
            site.replicated(f"{at}.attn.proj", wide, wide, "multimodal", bias=True, quantised=False),
            *layer_norm(site, f"{at}.norm2", wide),
            site.replicated(f"{at}.mlp.lin1", 4 * wide, wide, "multimodal", bias=True, quantised=False),
            site.replicated(f"{at}.mlp.lin2", wide, 4 * wide, "multimodal", bias=True, quantised=False),
        ]

    first: list[Module] = [
        param("pos_embed", 1, 64, 64, wide),
        param("patch_embed.proj.weight", wide, 3, 16, 16),
        param("patch_embed.proj.bias", wide),
        param("neck.0.weight", 256, wide, 1, 1),
        *layer_norm(site, "neck.1", 256),
        param("neck.2.weight", 256, 256, 3, 3),
        *layer_norm(site, "neck.3", 256),
        param("net_2.weight", 512, 256, 3, 3),
        param("net_3.weight", 1024, 512, 3, 3),
    ]
    blocks = (
        (1, builder.block(first)),
        (_SAM_LAYERS - len(_WHOLE), builder.block(layer(14))),
        (len(_WHOLE), builder.block(layer(64))),
    )
    return Tower("sam_model", "vision", site.prefix, blocks, _SAM_LAYERS, wide, 4 * wide, _SAM_HEADS)


def _clip(builder: Builder) -> Tower:
    sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}
    tower = clip(builder, "model.vision_model", Config({**sizes, "image_size": 224, "patch_size": 14}, "CLIP-L"))
    first, layer, _ = tower.blocks  # no norm behind the layers
    return Tower(tower.name, "vision", tower.prefix, (first, layer), 24, 1024, 4096, 16)


def _projector(builder: Builder) -> Tower:
    hidden = builder.text.integer("hidden_size")
    site = builder.site("model")
    modules: list[Module] = [
        Param("image_newline", (hidden,), builder.dtype, "multimodal"),
        Param("view_seperator", (hidden,), builder.dtype, "multimodal"),
        site.replicated("projector.layers", hidden, 2048, "multimodal", bias=True, quantised=False),
    ]
    return Tower("projector", "vision", site.prefix, ((1, builder.block(modules)),))
