"""InternVL as Transformers writes it (names ending in -hf), and Intern-S1: the same encoder under other names.

vLLM: models/interns1.py, interns1_vit.py. The encoder's attention is plain nn.Linear: whole on every rank.
"""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import tied_outside
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.arch.text import text_model
from oomph.sources.config import Config

_MOST_TILES = 12  # GotOcr2ImageProcessor max_patches, and the whole image once more


def build(builder: Builder) -> Skeleton:
    config, vision = builder.config, builder.config.sub("vision_config")
    vision.fill(
        hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, norm_type="layer_norm"
    )
    ratio = config.number("downsample_ratio", default=0.5)
    prefix = builder.root("language_model.model", "model.language_model")
    outer = "model." if prefix.startswith("model.") else ""
    head = "lm_head" if outer else "language_model.lm_head"
    layers, root = text_model(builder, prefix, head)
    tokens = config.integer("image_seq_length", default=256) * (_MOST_TILES + 1)
    return Skeleton(
        layers,
        tied_outside(builder, root, head),
        towers=(
            _vision(builder, f"{outer}vision_tower", vision),
            _projector(builder, f"{outer}multi_modal_projector", vision, ratio),
        ),
        modalities=(Modality("image", tokens), Modality("video", tokens)),
    )


def _pair(vision: Config, key: str, default: int) -> int:
    """Sizes are given as one number or as height and width."""
    values = vision.integers(key) if isinstance(vision.get(key), list) else []
    return values[0] if values else vision.integer(key, default=default)


def _vision(builder: Builder, prefix: str, vision: Config) -> Tower:
    hidden, inner, heads = (
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
        vision.integer("num_attention_heads"),
    )
    patch, count = _pair(vision, "patch_size", 14), vision.integer("num_hidden_layers", high=10_000)
    positions = (_pair(vision, "image_size", 448) // patch) ** 2 + 1
    site = builder.site(prefix)
    conv = "embeddings.patch_embeddings.projection"
    first: list[Module] = [
        Param("embeddings.cls_token", (1, 1, hidden), builder.dtype, "multimodal"),
        Param("embeddings.position_embeddings", (1, positions, hidden), builder.dtype, "multimodal"),
        Param(
            f"{conv}.weight",
            (hidden, vision.integer("num_channels", default=3), patch, patch),
            builder.dtype,
            "multimodal",
        ),
        Param(f"{conv}.bias", (hidden,), builder.dtype, "multimodal"),
    ]
    if vision.flag("use_mask_token"):
        first.append(Param("embeddings.mask_token", (1, 1, hidden), builder.dtype, "multimodal"))
    at, bias, rms = "encoder.layer.0", vision.flag("attention_bias"), vision.text("norm_type") == "rms_norm"
    layer: list[Module] = [
        site.replicated(f"{at}.attention.{letter}_proj", hidden, hidden, "multimodal", bias=bias, quantised=False)
        for letter in "qkv"
    ]
    if vision.flag("use_qk_norm"):
        layer += [Param(f"{at}.attention.{q}_norm.weight", (hidden,), builder.dtype, "multimodal") for q in "qk"]
    layer += [
        site.replicated(f"{at}.attention.projection_layer", hidden, hidden, "multimodal", bias=True, quantised=False),
        # interns1_vit.py:397 (0.21.0) does not hand the quantisation config on
        site.column(f"{at}.mlp.fc1", inner, hidden, "multimodal", bias=True, quantised=False),
        site.row(f"{at}.mlp.fc2", hidden, inner, "multimodal", bias=True, quantised=False),
        *(Param(f"{at}.lambda_{n}", (hidden,), builder.dtype, "multimodal") for n in (1, 2)),
    ]
    for name in ("layernorm_before", "layernorm_after"):
        layer += layer_norm(site, f"{at}.{name}", hidden)[: 1 if rms else 2]
    last = [] if vision.flag("use_mean_pooling", default=True) else layer_norm(site, "layernorm", hidden)
    blocks = ((1, builder.block(first)), (count, builder.block(layer)), (1, builder.block(last)))
    return Tower("vision_tower", "vision", site.prefix, blocks, count, hidden, inner, heads)


def _projector(builder: Builder, prefix: str, vision: Config, ratio: float) -> Tower:
    wide = vision.integer("hidden_size") * int(1 / ratio) ** 2 if 0 < ratio <= 1 else vision.integer("hidden_size")
    hidden, site = builder.text.integer("hidden_size"), builder.site(prefix)
    modules: list[Module] = [
        *layer_norm(site, "layer_norm", wide),
        site.replicated("linear_1", hidden, wide, "multimodal", bias=True, quantised=False),
        site.replicated("linear_2", hidden, hidden, "multimodal", bias=True, quantised=False),
    ]
    return Tower("multi_modal_projector", "vision", prefix, ((1, builder.block(modules)),))
