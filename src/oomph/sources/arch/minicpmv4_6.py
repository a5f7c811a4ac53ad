"""MiniCPM-V 4.6 and 4.7: a SigLIP encoder with a merger inside, another behind it, and a Qwen3.5.

vLLM: models/minicpmv4_6.py (0.32.0), idefics2_vision_model.py.
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.ir.model import Block, Modality, Module, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.qwen_gdn import language_model
from oomph.sources.arch.siglip import layer_norm, siglip
from oomph.sources.config import Config

_PATCHES = 16  # that become one token: four times in the encoder, four times behind it
_MOST_SLICES = 9  # the image processor's max_slice_nums, and the whole image once more


def build(builder: Builder) -> Skeleton:
    config, vision = builder.config, builder.config.sub("vision_config")
    tower = siglip(builder, "model.vision_tower", vision, idefics=True)
    if config.flag("drop_vision_last_layer"):
        (count, layer), rest = tower.blocks[1], tower.blocks[2:]
        tower = replace(tower, blocks=(tower.blocks[0], (count - 1, layer), *rest))
    side = config.integer("image_size", default=448) // vision.integer("patch_size")
    language = language_model(builder, "model.language_model")
    return replace(
        language,
        drafts=(),
        draft_root=Block(),
        towers=(tower, _inner_merger(builder, vision), *_mergers(builder, vision)),
        modalities=(Modality("image", max(1, side**2 // _PATCHES) * (_MOST_SLICES + 1)),),
    )


def _inner_merger(builder: Builder, vision: Config) -> Tower:
    hidden, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    heads, site = vision.integer("num_attention_heads"), builder.site("model.vision_tower.vit_merger")
    modules: list[Module] = [
        site.qkv(hidden, heads, heads, hidden // heads, bias=True, role="multimodal"),
        site.row("self_attn.out_proj", hidden, hidden, "multimodal", bias=True),
        *layer_norm(site, "layer_norm1", hidden),
        *layer_norm(site, "pre_norm", 4 * hidden),
        site.replicated("linear_1", 4 * inner, 4 * hidden, "multimodal", bias=True, quantised=False),
        site.replicated("linear_2", hidden, 4 * inner, "multimodal", bias=True, quantised=False),
    ]
    return Tower("vit_merger", "vision", site.prefix, ((1, builder.block(modules)),), num_heads=heads)


def _mergers(builder: Builder, vision: Config) -> tuple[Tower, ...]:
    """The class is built with its default of one step, whatever merger_times says."""
    wide, out = 4 * vision.integer("hidden_size"), builder.text.integer("hidden_size")
    site = builder.site("model.merger")
    modules: list[Module] = [
        *layer_norm(site, "mlp.0.pre_norm", wide),
        site.replicated("mlp.0.linear_1", wide, wide, "multimodal", bias=True, quantised=False),
        site.replicated("mlp.0.linear_2", out, wide, "multimodal", bias=True, quantised=False),
    ]
    return (Tower("merger", "vision", site.prefix, ((1, builder.block(modules)),)),)
