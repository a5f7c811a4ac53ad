"""Cohere2-MoE: Command's attention with experts. vLLM: models/cohere2_moe.py (0.32.0).

Behind it: Command A Vision.
"""

from oomph.ir import Modality, Module, Routing, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.decoder import Style, attention, decoder_root, layer_kinds, tied_outside
from oomph.sources.arch.siglip import siglip
from oomph.sources.arch.text import text_model
from oomph.sources.config import Config

STYLE = Style(
    qkv_bias=False,
    norms=("input_layernorm",),
    everywhere=("embed", "norm"),
    every=4,
    defaults=(("tie_word_embeddings", True), ("sliding_window", 4096), ("num_shared_experts", 0)),
)


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(**dict(STYLE.defaults))
    hidden = text.integer("hidden_size")
    heads, kv, width = heads_of(text)
    rope = rope_of(text, width, positions=text.integer("model_max_length", default=0, low=0))
    # cohere2_moe.py:200: one token more than the config says
    window = text.integer("sliding_window") + 1
    layers = tuple(
        site.layer(
            [attention(text, window if kind == "sliding_attention" else 0, rope)],
            [
                site.qkv(hidden, heads, kv, width),
                site.row("self_attn.o_proj", hidden, heads * width, "attention"),
                *_mlp(site, site.index),
                site.norm("input_layernorm", hidden),
            ],
        )
        for site, kind in zip(builder.sites("model.layers"), layer_kinds(text, STYLE))
    )
    return Skeleton(layers, decoder_root(builder, STYLE))


def _mlp(site: Site, index: int) -> list[Module]:
    text = site.b.text
    hidden, inner = text.integer("hidden_size"), text.integer("intermediate_size")
    kinds = text.items("mlp_layer_types")
    if index < len(kinds) and kinds[index] == "dense":
        return site.gated_mlp(hidden, text.integer("prefix_dense_intermediate_size", default=inner))
    count, shared = text.integer("num_experts"), text.integer("num_shared_experts", low=0)
    custom = "cohere" if text.text("expert_selection_fn") == "sigmoid" else ""
    routing = Routing(renormalised=text.flag("norm_topk_prob", default=True), custom=custom)
    return [
        site.replicated("mlp.gate", count, hidden, "router", quantised=False),
        *(site.gated_mlp(hidden, inner * shared, at="mlp.shared_experts", role="shared_experts") if shared else []),
        site.experts(count, hidden, inner, text.integer("num_experts_per_tok"), routing=routing),
    ]


# Command A Vision: a SigLIP encoder, a gated projector, Command's decoder. vLLM: models/cohere2_vision.py (0.32.0).

_MOST_TILES = 12  # Cohere2VisionImageProcessor max_patches, and the whole image once more


def build_vision(builder: Builder) -> Skeleton:
    config, vision = builder.config, builder.config.sub("vision_config")
    prefix, outer, head = builder.language_root("model.language_model", "language_model.model")
    layers, root = text_model(builder, prefix, head)
    tower = siglip(builder, f"{outer}vision_tower.vision_model", vision)
    side = vision.integer("image_size") // vision.integer("patch_size")
    tokens = (side // config.integer("downsample_factor", default=2)) ** 2 * (_MOST_TILES + 1)
    return Skeleton(
        layers,
        tied_outside(builder, root, head),
        towers=(tower, _projector(builder, f"{outer}multi_modal_projector", vision)),
        modalities=(Modality("image", tokens),),
    )


def _projector(builder: Builder, prefix: str, vision: Config) -> Tower:
    site, config = builder.site(prefix), builder.config
    wide = vision.integer("hidden_size") * config.integer("downsample_factor", default=2) ** 2
    half = config.integer("alignment_intermediate_size", default=36864) // 2
    modules: list[Module] = [
        site.column("linear_1", 2 * half, wide, "multimodal", bias=True, quantised=False),
        site.row("linear_2", builder.text.integer("hidden_size"), half, "multimodal", bias=True, quantised=False),
    ]
    return site.tower("multi_modal_projector", "vision", [(1, modules)])
