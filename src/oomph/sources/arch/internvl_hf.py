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


def build(b: Builder) -> Skeleton:
    config, v = b.config, b.config.sub("vision_config")
    v.fill(
        hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, norm_type="layer_norm"
    )
    ratio = config.number("downsample_ratio", default=0.5)
    prefix = b.root("language_model.model", "model.language_model")
    outer = "model." if prefix.startswith("model.") else ""
    head = "lm_head" if outer else "language_model.lm_head"
    layers, root = text_model(b, prefix, head)
    tokens = config.integer("image_seq_length", default=256) * (_MOST_TILES + 1)
    return Skeleton(
        layers,
        tied_outside(b, root, head),
        towers=(_vision(b, f"{outer}vision_tower", v), _projector(b, f"{outer}multi_modal_projector", v, ratio)),
        modalities=(Modality("image", tokens), Modality("video", tokens)),
    )


def _pair(v: Config, key: str, default: int) -> int:
    """Sizes are given as one number or as height and width."""
    values = v.integers(key) if isinstance(v.get(key), list) else []
    return values[0] if values else v.integer(key, default=default)


def _vision(b: Builder, prefix: str, v: Config) -> Tower:
    hidden, inner, heads = v.integer("hidden_size"), v.integer("intermediate_size"), v.integer("num_attention_heads")
    patch, count = _pair(v, "patch_size", 14), v.integer("num_hidden_layers", high=10_000)
    positions = (_pair(v, "image_size", 448) // patch) ** 2 + 1
    s = b.site(prefix)
    conv = "embeddings.patch_embeddings.projection"
    first: list[Module] = [
        Param("embeddings.cls_token", (1, 1, hidden), b.dtype, "multimodal"),
        Param("embeddings.position_embeddings", (1, positions, hidden), b.dtype, "multimodal"),
        Param(f"{conv}.weight", (hidden, v.integer("num_channels", default=3), patch, patch), b.dtype, "multimodal"),
        Param(f"{conv}.bias", (hidden,), b.dtype, "multimodal"),
    ]
    if v.flag("use_mask_token"):
        first.append(Param("embeddings.mask_token", (1, 1, hidden), b.dtype, "multimodal"))
    at, bias, rms = "encoder.layer.0", v.flag("attention_bias"), v.text("norm_type") == "rms_norm"
    layer: list[Module] = [
        s.replicated(f"{at}.attention.{q}_proj", hidden, hidden, "multimodal", bias=bias, quantised=False)
        for q in "qkv"
    ]
    if v.flag("use_qk_norm"):
        layer += [Param(f"{at}.attention.{q}_norm.weight", (hidden,), b.dtype, "multimodal") for q in "qk"]
    layer += [
        s.replicated(f"{at}.attention.projection_layer", hidden, hidden, "multimodal", bias=True, quantised=False),
        # interns1_vit.py:397 (0.21.0) does not hand the quantisation config on
        s.column(f"{at}.mlp.fc1", inner, hidden, "multimodal", bias=True, quantised=False),
        s.row(f"{at}.mlp.fc2", hidden, inner, "multimodal", bias=True, quantised=False),
        *(Param(f"{at}.lambda_{n}", (hidden,), b.dtype, "multimodal") for n in (1, 2)),
    ]
    for name in ("layernorm_before", "layernorm_after"):
        layer += layer_norm(s, f"{at}.{name}", hidden)[: 1 if rms else 2]
    last = [] if v.flag("use_mean_pooling", default=True) else layer_norm(s, "layernorm", hidden)
    blocks = ((1, b.block(first)), (count, b.block(layer)), (1, b.block(last)))
    return Tower("vision_tower", "vision", s.prefix, blocks, count, hidden, inner, heads)


def _projector(b: Builder, prefix: str, v: Config, ratio: float) -> Tower:
    wide = v.integer("hidden_size") * int(1 / ratio) ** 2 if 0 < ratio <= 1 else v.integer("hidden_size")
    hidden, s = b.text.integer("hidden_size"), b.site(prefix)
    modules: list[Module] = [
        *layer_norm(s, "layer_norm", wide),
        s.replicated("linear_1", hidden, wide, "multimodal", bias=True, quantised=False),
        s.replicated("linear_2", hidden, hidden, "multimodal", bias=True, quantised=False),
    ]
    return Tower("multi_modal_projector", "vision", prefix, ((1, b.block(modules)),))
