"""Aria: SigLIP's network, a cross-attention projector and a Llama with experts. vLLM: models/aria.py."""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill
from oomph.sources.arch.llama import LLAMA
from oomph.sources.arch.llava import without
from oomph.sources.arch.siglip import layer_norm, siglip
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    text, config = builder.text, builder.config
    fill(builder, LLAMA)
    # AriaTextConfig, Idefics3VisionConfig
    text.fill(moe_num_experts=8, moe_topk=2, moe_num_shared_experts=2, intermediate_size=4096)
    vision = config.sub("vision_config")
    vision.fill(hidden_size=1152, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=16)
    vision.fill(image_size=224, patch_size=32)
    tower = siglip(builder, "vision_tower", vision, idefics=True)
    queries = [size for size in config.table("projector_patch_to_query_dict").values() if isinstance(size, int)]
    most = max(queries, default=256)
    root = decoder_root(builder, LLAMA, "language_model.model", "language_model.lm_head", tied=False)
    return Skeleton(
        decoder_layers(builder, LLAMA, "language_model.model", lambda site, index: _experts(site, text)),
        root,
        towers=(without(tower, 2), _projector(builder, vision, most)),  # no norm behind the last layer
        modalities=(Modality("image", most),),
    )


def _experts(site: Site, text: Config) -> list[Module]:
    """The routed experts' router is a bare parameter; the shared experts are one MLP."""
    count, hidden, inner = (
        text.integer("moe_num_experts"),
        text.integer("hidden_size"),
        text.integer("intermediate_size"),
    )
    shared = inner * text.integer("moe_num_shared_experts")
    return [
        Param("mlp.router.weight", (count, hidden), site.b.dtype, "router"),
        *site.gated_mlp(hidden, shared, at="mlp.shared_experts", bias=text.flag("mlp_bias"), role="shared_experts"),
        site.experts(count, hidden, inner, text.integer("moe_topk"), layout="stacked"),
    ]


def _projector(builder: Builder, vision: Config, queries: int) -> Tower:
    """transformers' AriaCrossAttention, of plain layers, then two linear ones that are split."""
    site = builder.site("multi_modal_projector")
    wide, hidden = vision.integer("hidden_size"), builder.text.integer("hidden_size")
    at = "cross_attn"
    modules: list[Module] = [Param("query", (queries, wide), builder.dtype, "multimodal")]
    for name in ("q_proj", "k_proj", "v_proj"):
        modules.append(site.replicated(f"{at}.{name}", wide, wide, "multimodal", quantised=False))
    modules += [
        Param(f"{at}.multihead_attn.in_proj_weight", (3 * wide, wide), builder.dtype, "multimodal"),
        Param(f"{at}.multihead_attn.in_proj_bias", (3 * wide,), builder.dtype, "multimodal"),
        site.replicated(f"{at}.multihead_attn.out_proj", wide, wide, "multimodal", bias=True, quantised=False),
        site.replicated(f"{at}.linear", wide, wide, "multimodal", bias=True, quantised=False),
        *layer_norm(site, f"{at}.layer_norm", wide),
        *layer_norm(site, f"{at}.layer_norm_kv", wide),
        *layer_norm(site, "layer_norm", wide),
        site.column("feed_forward.linear_in", hidden, wide, "multimodal", quantised=False),
        site.row("feed_forward.linear_out", hidden, hidden, "multimodal", quantised=False),
    ]
    return Tower("multi_modal_projector", "vision", site.prefix, ((1, builder.block(modules)),))
