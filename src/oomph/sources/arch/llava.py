"""LLaVA and its kind: a CLIP, SigLIP or Pixtral encoder, two linear layers, any language model.

vLLM: models/llava.py, llava_next.py, llava_onevision.py, clip.py, siglip.py.
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir.model import Block, Linear, Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.pixtral import pixtral
from oomph.sources.arch.siglip import layer_norm, patches, siglip
from oomph.sources.arch.text import text_model
from oomph.sources.config import Config

# nn.Linear: whole on every rank
_PLAIN_PROJECTORS = ("LlavaNextVideoForConditionalGeneration", "LlavaOnevisionForConditionalGeneration")


def build(builder: Builder) -> Skeleton:
    vision = builder.config.sub("vision_config")
    onevision = builder.architecture == "LlavaOnevisionForConditionalGeneration"
    prefix = builder.root("language_model.model", "model.language_model")
    outer = "model." if prefix.startswith("model.") else ""
    tower, tokens = _tower(builder, f"{outer}vision_tower", vision, -1 if onevision else -2)
    layers, root = text_model(builder, prefix, "lm_head" if outer else "language_model.lm_head")
    towers = [tower, _projector(builder, f"{outer}multi_modal_projector", vision)]
    if builder.architecture == "LlavaNextVideoForConditionalGeneration":
        # llava_next_video.py:105 (0.32.0): as many pooled frames as the context holds
        side = vision.integer("image_size") // vision.integer("patch_size")
        frame = max(1, -((-side // builder.config.integer("spatial_pool_stride", default=2)) ** 2))
        video = builder.text.integer("max_position_embeddings", default=4096) // frame * frame
        return Skeleton(layers, root, towers=tuple(towers), modalities=(Modality("video", max(frame, video)),))
    if builder.architecture != "LlavaForConditionalGeneration":
        newline = Param("image_newline", (builder.text.integer("hidden_size"),), builder.dtype, "multimodal")
        towers.append(Tower("image_newline", "vision", outer.rstrip("."), ((1, builder.block([newline])),)))
        tokens *= _tiles(builder.config, vision)
    return Skeleton(layers, root, towers=tuple(towers), modalities=(Modality("image", tokens),))


def _tower(builder: Builder, prefix: str, vision: Config, default_layer: int) -> tuple[Tower, int]:
    """llava.py:430 (0.21.0): only the layers up to the one that is read are built, and no norm behind them."""
    kind = vision.text("model_type", default="clip_vision_model")
    if kind == "pixtral":
        tower = pixtral(builder, prefix, vision)
        side = vision.integer("image_size") // vision.integer("patch_size")
        return up_to(tower, _wanted(builder.config, tower.layers, -1), 1), side * side
    if kind.startswith("siglip"):
        vision.fill(vision_use_head=False)
        tower, tokens = siglip(builder, f"{prefix}.vision_model", vision), patches(vision)
    else:
        tower = clip(builder, f"{prefix}.vision_model", vision)
        whole = builder.config.text("vision_feature_select_strategy", default="default") == "full"
        tokens = _grid(vision) + whole
    return up_to(tower, _wanted(builder.config, tower.layers, default_layer), 1), tokens


def _wanted(config: Config, count: int, default: int) -> int:
    value = config.get("vision_feature_layer", default=default)
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(n, int) and -count <= n < count for n in values):
        raise ConfigError(f"{config.where}: vision_feature_layer names a layer that the encoder does not have")
    depth: int = max(n + 1 + count if n < 0 else n + 1 for n in values)
    return depth


def up_to(tower: Tower, wanted: int, at: int) -> Tower:
    """The tower with layers from `wanted` on stored but not created; `at`: which of its blocks are the layers."""
    count, layer = tower.blocks[at]
    rest = [(times, _skipped(block)) for times, block in tower.blocks[at + 1 :]]
    tail = rest if tower.prefix.endswith("vision_model") else list(tower.blocks[at + 1 :])
    cut = [(wanted, layer), *([(count - wanted, _skipped(layer))] if wanted < count else [])]
    return replace(tower, blocks=(*tower.blocks[:at], *cut, *tail))


def without(tower: Tower, at: int) -> Tower:
    """The tower with one of its blocks stored but not created."""
    blocks = [(times, _skipped(block)) if i == at else (times, block) for i, (times, block) in enumerate(tower.blocks)]
    return replace(tower, blocks=tuple(blocks))


def _skipped(block: Block) -> Block:
    def skip(module: Module) -> Module:
        if isinstance(module, Linear):
            return replace(module, parts=tuple(replace(p, created=False) for p in module.parts))
        return replace(module, created=False) if isinstance(module, Param) else module

    return Block(tuple(skip(module) for module in block.modules))


def _grid(vision: Config) -> int:
    return (vision.integer("image_size") // vision.integer("patch_size")) ** 2


def clip(builder: Builder, prefix: str, vision: Config) -> Tower:
    vision.fill(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16)
    vision.fill(num_channels=3, image_size=336, patch_size=14)
    hidden, inner, heads = (
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
        vision.integer("num_attention_heads"),
    )
    patch, count = vision.integer("patch_size"), vision.integer("num_hidden_layers", high=10_000)
    positions = _grid(vision) + 1
    conv = (hidden, vision.integer("num_channels"), patch, patch)
    site = builder.site(prefix)
    first: list[Module] = [
        Param("embeddings.class_embedding", (hidden,), builder.dtype, "multimodal"),
        Param("embeddings.patch_embedding.weight", conv, builder.dtype, "multimodal"),
        Param("embeddings.position_embedding.weight", (positions, hidden), builder.dtype, "multimodal"),
        Param("embeddings.position_ids", (1, positions), "I64", "multimodal", stored=False, created_dtype="I64"),
        *layer_norm(site, "pre_layrnorm", hidden),
    ]
    at = "encoder.layers.0"
    layer: list[Module] = [
        site.qkv(hidden, heads, heads, hidden // heads, at=f"{at}.self_attn", bias=True, role="multimodal"),
        site.row(f"{at}.self_attn.out_proj", hidden, hidden, "multimodal", bias=True),
        *layer_norm(site, f"{at}.layer_norm1", hidden),
        site.column(f"{at}.mlp.fc1", inner, hidden, "multimodal", bias=True),
        site.row(f"{at}.mlp.fc2", hidden, inner, "multimodal", bias=True),
        *layer_norm(site, f"{at}.layer_norm2", hidden),
    ]
    last = layer_norm(site, "post_layernorm", hidden)
    blocks = ((1, builder.block(first)), (count, builder.block(layer)), (1, builder.block(last)))
    return Tower("vision_tower", "vision", prefix, blocks, count, hidden, inner, heads)


def _projector(builder: Builder, prefix: str, config: Config) -> Tower:
    vision, hidden = config.integer("hidden_size"), builder.text.integer("hidden_size")
    bias = builder.config.flag("multimodal_projector_bias", default=True)
    site = builder.site(prefix)
    modules: list[Module] = [
        site.column("linear_1", hidden, vision, "multimodal", bias=bias),
        site.row("linear_2", hidden, hidden, "multimodal", bias=bias),
    ]
    if builder.architecture in _PLAIN_PROJECTORS:
        modules = [
            site.replicated("linear_1", hidden, vision, "multimodal", bias=bias, quantised=False),
            site.replicated("linear_2", hidden, hidden, "multimodal", bias=bias, quantised=False),
        ]
    return Tower("multi_modal_projector", "vision", prefix, ((1, builder.block(modules)),))


def _tiles(config: Config, vision: Config) -> int:
    """The largest entry of image_grid_pinpoints in tiles, and the whole image once more."""
    size = vision.integer("image_size")
    most = 4
    for entry in config.items("image_grid_pinpoints"):
        if isinstance(entry, list) and len(entry) == 2 and all(isinstance(n, int) and n > 0 for n in entry):
            most = max(most, (entry[0] // size) * (entry[1] // size))
    return most + 1
