"""MiniCPM-V 2.5 to 4.5: a SigLIP encoder, a resampler with learnt queries, a language model by version.

vLLM: models/minicpmv.py, idefics2_vision_model.py, layers/resampler.py.
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.errors import UnknownCache
from oomph.ir.model import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import Style, decoder_layers, decoder_root, fill
from oomph.sources.arch.llama import LLAMA, QWEN2, QWEN3
from oomph.sources.arch.siglip import siglip

# minicpmv.py _SUPPORT_VERSION and each class's init_llm (0.32.0); version 2.0 has a tower of timm's
_TEXT: dict[str, Style] = {"2.5": LLAMA, "2.6": QWEN2, "4.0": LLAMA, "4": LLAMA, "4.5": QWEN3}
_SIDE = 70  # Resampler2_5: the longest grid for which positions are kept


def build(builder: Builder) -> Skeleton:
    version = builder.config.get("version")
    style = _TEXT.get(str(version))
    if style is None:
        raise UnknownCache(f"{builder.config.where}: MiniCPM-V of version {version} is not known")
    fill(builder, style)
    hidden = builder.text.integer("hidden_size")
    vision = builder.config.sub("vision_config")
    vision.fill(hidden_size=1152, intermediate_size=4304, num_hidden_layers=27, num_attention_heads=16)
    vision.fill(image_size=980, patch_size=14)
    tower = siglip(builder, "vpm", vision, idefics=True)
    if builder.config.flag("drop_vision_last_layer", default=True):
        (count, layer), rest = tower.blocks[1], tower.blocks[2:]
        tower = replace(tower, blocks=(tower.blocks[0], (count - 1, layer), *rest))
    queries = builder.config.integer("query_num", default=64)
    pieces = builder.config.sub("slice_config").integer("max_slice_nums", default=9) + 1
    return Skeleton(
        decoder_layers(builder, style, "llm.model"),
        decoder_root(builder, style, "llm.model", "llm.lm_head"),
        towers=(tower, _resampler(builder, hidden, vision.integer("hidden_size"), queries)),
        modalities=(Modality("image", queries * pieces),),
    )


def _resampler(builder: Builder, hidden: int, vision: int, queries: int) -> Tower:
    site = builder.site("resampler")

    def param(name: str, *shape: int) -> Param:
        return Param(name, shape, builder.dtype, "multimodal")

    modules: list[Module] = [
        param("query", queries, hidden),
        site.replicated("kv_proj", hidden, vision, "multimodal"),
        param("attn.in_proj_weight", 3 * hidden, hidden),
        param("attn.in_proj_bias", 3 * hidden),
        param("attn.out_proj.weight", hidden, hidden),
        param("attn.out_proj.bias", hidden),
        *(param(f"{norm}.{n}", hidden) for norm in ("ln_q", "ln_kv", "ln_post") for n in ("weight", "bias")),
        param("proj", hidden, hidden),
        Param("pos_embed", (_SIDE, _SIDE, hidden), builder.dtype, "multimodal", stored=False),
    ]
    return Tower("resampler", "vision", "resampler", ((1, builder.block(modules)),))
