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


def build(b: Builder) -> Skeleton:
    v = b.config.sub("vision_config")
    onevision = b.architecture == "LlavaOnevisionForConditionalGeneration"
    prefix = b.root("language_model.model", "model.language_model")
    outer = "model." if prefix.startswith("model.") else ""
    tower, tokens = _tower(b, f"{outer}vision_tower", v, -1 if onevision else -2)
    layers, root = text_model(b, prefix, "lm_head" if outer else "language_model.lm_head")
    towers = [tower, _projector(b, f"{outer}multi_modal_projector", v)]
    if b.architecture != "LlavaForConditionalGeneration":
        newline = Param("image_newline", (b.text.integer("hidden_size"),), b.dtype, "multimodal")
        towers.append(Tower("image_newline", "vision", outer.rstrip("."), ((1, b.block([newline])),)))
        tokens *= _tiles(b.config, v)
    return Skeleton(layers, root, towers=tuple(towers), modalities=(Modality("image", tokens),))


def _tower(b: Builder, prefix: str, v: Config, default_layer: int) -> tuple[Tower, int]:
    """llava.py:430 (0.21.0): only the layers up to the one that is read are built, and no norm behind them."""
    kind = v.text("model_type", default="clip_vision_model")
    if kind == "pixtral":
        tower = pixtral(b, prefix, v)
        side = v.integer("image_size") // v.integer("patch_size")
        return up_to(tower, _wanted(b.config, tower.layers, -1), 1), side * side
    if kind.startswith("siglip"):
        v.fill(vision_use_head=False)
        tower, tokens = siglip(b, f"{prefix}.vision_model", v), patches(v)
    else:
        tower = clip(b, f"{prefix}.vision_model", v)
        whole = b.config.text("vision_feature_select_strategy", default="default") == "full"
        tokens = _grid(v) + whole
    return up_to(tower, _wanted(b.config, tower.layers, default_layer), 1), tokens


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


def _skipped(block: Block) -> Block:
    def skip(m: Module) -> Module:
        if isinstance(m, Linear):
            return replace(m, parts=tuple(replace(p, created=False) for p in m.parts))
        return replace(m, created=False) if isinstance(m, Param) else m

    return Block(tuple(skip(m) for m in block.modules))


def _grid(v: Config) -> int:
    return (v.integer("image_size") // v.integer("patch_size")) ** 2


def clip(b: Builder, prefix: str, v: Config) -> Tower:
    v.fill(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16)
    v.fill(num_channels=3, image_size=336, patch_size=14)
    hidden, inner, heads = v.integer("hidden_size"), v.integer("intermediate_size"), v.integer("num_attention_heads")
    patch, count = v.integer("patch_size"), v.integer("num_hidden_layers", high=10_000)
    positions = _grid(v) + 1
    conv = (hidden, v.integer("num_channels"), patch, patch)
    s = b.site(prefix)
    first: list[Module] = [
        Param("embeddings.class_embedding", (hidden,), b.dtype, "multimodal"),
        Param("embeddings.patch_embedding.weight", conv, b.dtype, "multimodal"),
        Param("embeddings.position_embedding.weight", (positions, hidden), b.dtype, "multimodal"),
        Param("embeddings.position_ids", (1, positions), "I64", "multimodal", stored=False, created_dtype="I64"),
        *layer_norm(s, "pre_layrnorm", hidden),
    ]
    at = "encoder.layers.0"
    layer: list[Module] = [
        s.qkv(hidden, heads, heads, hidden // heads, at=f"{at}.self_attn", bias=True, role="multimodal"),
        s.row(f"{at}.self_attn.out_proj", hidden, hidden, "multimodal", bias=True),
        *layer_norm(s, f"{at}.layer_norm1", hidden),
        s.column(f"{at}.mlp.fc1", inner, hidden, "multimodal", bias=True),
        s.row(f"{at}.mlp.fc2", hidden, inner, "multimodal", bias=True),
        *layer_norm(s, f"{at}.layer_norm2", hidden),
    ]
    last = layer_norm(s, "post_layernorm", hidden)
    blocks = ((1, b.block(first)), (count, b.block(layer)), (1, b.block(last)))
    return Tower("vision_tower", "vision", prefix, blocks, count, hidden, inner, heads)


def _projector(b: Builder, prefix: str, v: Config) -> Tower:
    vision, hidden = v.integer("hidden_size"), b.text.integer("hidden_size")
    bias = b.config.flag("multimodal_projector_bias", default=True)
    s = b.site(prefix)
    modules: list[Module] = [
        s.column("linear_1", hidden, vision, "multimodal", bias=bias),
        s.row("linear_2", hidden, hidden, "multimodal", bias=bias),
    ]
    if b.architecture == "LlavaOnevisionForConditionalGeneration":  # plain nn.Linear there
        modules = [
            s.replicated("linear_1", hidden, vision, "multimodal", bias=bias, quantised=False),
            s.replicated("linear_2", hidden, hidden, "multimodal", bias=bias, quantised=False),
        ]
    return Tower("multi_modal_projector", "vision", prefix, ((1, b.block(modules)),))


def _tiles(config: Config, v: Config) -> int:
    """The largest entry of image_grid_pinpoints in tiles, and the whole image once more."""
    size = v.integer("image_size")
    most = 4
    for entry in config.items("image_grid_pinpoints"):
        if isinstance(entry, list) and len(entry) == 2 and all(isinstance(n, int) and n > 0 for n in entry):
            most = max(most, (entry[0] // size) * (entry[1] // size))
    return most + 1
