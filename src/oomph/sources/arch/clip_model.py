"""CLIP as an embedding model: a causal text transformer that has a cache, and the vision encoder beside it.

vLLM: models/clip.py CLIPEmbeddingModel.
"""

from __future__ import annotations

from oomph.ir import Attention, Modality, Module, Param, Tower, Vocab
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import norm
from oomph.sources.arch.llava import clip


def build(builder: Builder) -> Skeleton:
    text, vision = builder.text, builder.config.sub("vision_config")
    # CLIPTextConfig, CLIPVisionConfig
    text.fill(
        vocab_size=49408, hidden_size=512, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=8,
        max_position_embeddings=77,
    )  # fmt: skip
    vision.fill(
        hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, image_size=224,
        patch_size=32,
    )  # fmt: skip
    hidden, heads, inner = (text.integer(k) for k in ("hidden_size", "num_attention_heads", "intermediate_size"))
    width = hidden // heads
    attention = Attention("full", heads, heads, width, width)
    layers = []
    for i in range(text.integer("num_hidden_layers", high=10_000)):
        site = builder.site(f"text_model.encoder.layers.{i}")
        modules: list[Module] = [
            site.qkv(hidden, heads, heads, width, bias=True),
            site.row("self_attn.out_proj", hidden, hidden, "attention", bias=True),
            *norm(site, "layer_norm1", hidden, True),
            site.column("mlp.fc1", inner, hidden, "mlp", bias=True),
            site.row("mlp.fc2", hidden, inner, "mlp", bias=True),
            *norm(site, "layer_norm2", hidden, True),
        ]
        layers.append(builder.layer(i, site.prefix, [attention], modules))
    project = builder.config.integer("projection_dim", default=512)
    positions, at = text.integer("max_position_embeddings"), "text_model"
    root: list[Module] = [
        Vocab(f"{at}.embeddings.token_embedding", text.integer("vocab_size"), hidden, builder.dtype, "embed"),
        Vocab(f"{at}.embeddings.position_embedding", positions, hidden, builder.dtype, "embed"),
        *(Param(f"{at}.final_layer_norm.{part}", (hidden,), builder.dtype, "norm") for part in ("weight", "bias")),
        Param("text_projection.weight", (project, hidden), builder.dtype, "other"),
    ]
    tower = clip(builder, "vision_model", vision)
    wide = vision.integer("hidden_size")
    visual = Param("visual_projection.weight", (project, wide), builder.dtype, "multimodal")
    patches = (vision.integer("image_size") // vision.integer("patch_size")) ** 2
    return Skeleton(
        tuple(layers),
        builder.block(root),
        towers=(tower, Tower("visual_projection", "vision", "", ((1, builder.block([visual])),))),
        modalities=(Modality("image", patches + 1),),
        pooling=True,
    )
