"""Cosmos3 Edge: SigLIP 2, a merger, and a Nemotron-H that has attention and MLP layers only.

vLLM: models/cosmos3_edge.py.
"""

from __future__ import annotations

from oomph.ir.model import Attention, Modality, Module, Tower
from oomph.sources.arch.base import Builder, Skeleton, heads_of, rope_of
from oomph.sources.arch.lfm2_vl import siglip2
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config

_PIXELS = 4096 * 4096  # cosmos3_edge.py Qwen3VLProcessingInfo: the largest image of Qwen3-VL's processor


def build(builder: Builder) -> Skeleton:
    text, vision = builder.text, builder.config.sub("vision_config")
    # Cosmos3EdgeTextConfig, Siglip2VisionConfig, Cosmos3EdgeProjectorConfig
    text.fill(num_hidden_layers=28, head_dim=128)
    vision.fill(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12)
    vision.fill(num_channels=3, patch_size=16, num_patches=256)
    projector = builder.config.sub("projector_config")
    projector.fill(input_hidden_size=1024, spatial_merge_size=2, merger_intermediate_size=11520, out_hidden_size=1024)
    hidden, inner = text.integer("hidden_size"), text.integer("intermediate_size")
    heads, kv, width = heads_of(text)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    bias, at, layers = text.flag("attention_bias"), "model.language_model.layers", []
    for i in range(text.integer("num_hidden_layers", high=5_000)):
        site = builder.site(f"{at}.{i}")
        mixer: list[Module] = [
            site.qkv(hidden, heads, kv, width, bias=bias),
            site.row("self_attn.o_proj", hidden, heads * width, "attention", bias=bias),
            site.norm("input_layernorm", hidden),
        ]
        mlp: list[Module] = [
            site.column("mlp.up_proj", inner, hidden, "mlp", bias=text.flag("mlp_bias")),
            site.row("mlp.down_proj", hidden, inner, "mlp", bias=text.flag("mlp_bias")),
            site.norm("post_attention_layernorm", hidden),
        ]
        layers.append(builder.layer(2 * i, site.prefix, [attention], mixer))
        layers.append(builder.layer(2 * i + 1, site.prefix, [], mlp))
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        embed="model.language_model.embed_tokens",
        norm="model.language_model.norm.weight",
        everywhere=True,  # nemotron_h.py
    )
    unit = vision.integer("patch_size") * projector.integer("spatial_merge_size")
    return Skeleton(
        tuple(layers),
        root,
        towers=(siglip2(builder, "model.visual", vision), _projector(builder, projector)),
        modalities=(Modality("image", _PIXELS // unit**2),),
    )


def _projector(builder: Builder, config: Config) -> Tower:
    site, narrow = builder.site("model.projector"), config.integer("input_hidden_size")
    wide = narrow * config.integer("spatial_merge_size") ** 2
    inner, out = config.integer("merger_intermediate_size"), config.integer("out_hidden_size")
    modules: list[Module] = [
        *layer_norm(site, "norm", wide if config.flag("use_postshuffle_norm") else narrow),
        site.column("linear_fc1", inner, wide, "multimodal", bias=True),
        site.row("linear_fc2", out, inner, "multimodal", bias=True),
    ]
    return Tower("projector", "vision", site.prefix, ((1, builder.block(modules)),))
