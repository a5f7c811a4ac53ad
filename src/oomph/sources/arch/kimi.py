"""Kimi VL and Kimi K2.5 to K2.7: DeepSeek-V3's language model behind a MoonViT vision tower.

vLLM: models/kimi_vl.py, moonvit.py; kimi_k25.py, kimi_k25_vit.py.
"""

from math import prod

from oomph.ir import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.deepseek import language_model
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config

# kimi_k25.py MaxImageTokenMeta: 3000 x 3000 pixels, which its processor brings down to 16,384 patches, merged 2 x 2
IMAGE_TOKENS = 16384 // 4
_VL_IMAGE_TOKENS = 37 * 37  # kimi_vl.py MaxImageTokenMeta: 1024 x 1024 pixels in merged patches of 28


def build(builder: Builder) -> Skeleton:
    vision = builder.config.sub("vision_config")
    if builder.architecture == "KimiVLForConditionalGeneration":
        return _kimi_vl(builder, vision)
    return language_model(
        builder,
        "language_model.model",
        "language_model.lm_head",
        towers=(_vision(builder, vision), _projector(builder, vision)),
        modalities=(Modality("vision_chunk", IMAGE_TOKENS),),
    )


def _kimi_vl(builder: Builder, vision: Config) -> Skeleton:
    """models/kimi_vl.py, moonvit.py: the same tower under other keys, without time."""
    own = Config(
        {
            f"vt_{k}"
            if k in ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers")
            else k: value
            for k, value in vision.raw.items()
        }
        | {"mm_hidden_size": vision.get("hidden_size"), "init_pos_emb_time": 0},
        vision.where,
    )
    return language_model(
        builder,
        "language_model.model",
        "language_model.lm_head",
        towers=(_vision(builder, own), _projector(builder, own, "multi_modal_projector", ("linear_1", "linear_2"))),
        modalities=(Modality("image", _VL_IMAGE_TOKENS),),
    )


def _vision(builder: Builder, vision: Config) -> Tower:
    hidden, inter = vision.integer("vt_hidden_size", default=1152), vision.integer("vt_intermediate_size", default=4304)
    heads, count = (
        vision.integer("vt_num_attention_heads", default=16),
        vision.integer("vt_num_hidden_layers", default=27),
    )
    patch = vision.integer("patch_size", default=14)
    height, width = vision.integer("init_pos_emb_height", default=64), vision.integer("init_pos_emb_width", default=64)
    site = builder.site("vision_tower")
    frames = vision.integer("init_pos_emb_time", default=4, low=0)
    first: list[Module] = [
        site.tensor("patch_embed.proj.weight", hidden, 3, patch, patch),
        site.tensor("patch_embed.proj.bias", hidden),
        site.tensor("patch_embed.pos_emb.weight", height, width, hidden),
        *(_time_table(builder, frames, hidden) if frames else []),
    ]
    last = layer_norm(site, "encoder.final_layernorm", hidden)
    return site.tower(
        "vision_tower",
        "vision",
        [(1, first), (count, _layer(site, hidden, inter, heads)), (1, last)],
        count,
        hidden,
        inter,
        heads,
        alone="tower",
    )


def _time_table(builder: Builder, frames: int, hidden: int) -> list[Module]:
    name, shape = "patch_embed.pos_emb.time_weight", (frames, 1, hidden)
    if not _quantised(builder):
        return [Param(name, shape, builder.dtype, "multimodal", stored=False)]
    cast, built = "Kimi vision table cast", "Kimi vision table as built"
    return [
        Param(name, shape, builder.dtype, "multimodal", stored=False, only=cast),
        Param(name, shape, "F32", "multimodal", stored=False, created_dtype="F32", only=built),
    ]


def _layer(site: Site, hidden: int, inter: int, heads: int) -> list[Module]:
    """Quantised where a ModelOpt list does not name it; vLLM ignores compressed-tensors here (kimi_k25.py:368), as
    its checkpoints do."""
    at, quantised = "encoder.blocks.0", _quantised(site.b)
    # one tensor holds q, k and v, each split over the heads
    qkv = site.linear(
        f"{at}.wqkv",
        [(f"{at}.wqkv", 3 * hidden, heads)],
        hidden,
        "column",
        "multimodal",
        bias=True,
        quantised=quantised,
    )
    return [
        *layer_norm(site, f"{at}.norm0", hidden),
        *layer_norm(site, f"{at}.norm1", hidden),
        site.column(f"{at}.mlp.fc0", inter, hidden, "multimodal", bias=True, quantised=quantised),
        site.row(f"{at}.mlp.fc1", hidden, inter, "multimodal", bias=True, quantised=quantised),
        qkv,
        site.row(f"{at}.wo", hidden, hidden, "multimodal", bias=True, quantised=quantised),
    ]


def _projector(
    builder: Builder, vision: Config, name: str = "mm_projector", linears: tuple[str, str] = ("proj.0", "proj.2")
) -> Tower:
    site = builder.site(name)
    hidden = vision.integer("mm_hidden_size", default=1152)
    text = vision.integer("text_hidden_size", default=builder.text.integer("hidden_size"))
    merged = hidden * prod(vision.integers("merge_kernel_size") or [2, 2])
    quantised = _quantised(builder)
    modules: list[Module] = [
        *layer_norm(site, "pre_norm", hidden),
        site.replicated(linears[0], merged, merged, "multimodal", bias=True, quantised=quantised),
        site.replicated(linears[1], text, merged, "multimodal", bias=True, quantised=quantised),
    ]
    return site.tower(name, "vision", [(1, modules)])


def _quantised(builder: Builder) -> bool:
    return builder.quant is not None and builder.quant.facts.method != "compressed-tensors"
