"""K-EXAONE: EXAONE 4's attention, DeepSeek's router and experts. vLLM: models/exaone_moe.py, exaone_moe_mtp.py.

Behind it: EXAONE 4.5.
"""

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Layer, Module, Rope
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of, sigmoid_routing
from oomph.sources.arch.decoder import (
    Style,
    attention,
    attention_modules,
    decoder_layers,
    decoder_root,
    dims,
    fill,
    layer_kinds,
)
from oomph.sources.arch.dense import STYLES
from oomph.sources.arch.mla import score_correction
from oomph.sources.arch.qwen_vision import qwen2_5_vision

STYLE = Style(qkv_bias=False, qk_norm="head", norms=())


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(n_group=1, norm_topk_prob=True, first_k_dense_replace=1, num_shared_experts=0)
    rope = rope_of(text, dims(text, STYLE)[2])
    kinds = layer_kinds(text, STYLE)
    count = len(kinds)
    layers = tuple(
        _layer(site, kinds[site.index], rope, _is_sparse(builder, site.index)) for site in builder.sites("model.layers")
    )
    nextn = text.integer("num_nextn_predict_layers", default=0, low=0, high=100)
    drafts = tuple(_layer(site, kinds[site.index % count], rope, False) for site in builder.sites("mtp.layers", nextn))
    return Skeleton(
        layers,
        decoder_root(builder, STYLE),
        drafts=drafts,
        draft_root=builder.block(_draft_root(builder) if nextn else []),
    )


def _draft_root(builder: Builder) -> list[Module]:
    """exaone_moe_mtp.py: one projection of embedding and hidden state together; embedding and head are the target's."""
    hidden, site = builder.text.integer("hidden_size"), builder.site("mtp")
    return [
        site.column("fc", hidden, 2 * hidden, "other"),
        site.norm("pre_fc_norm_hidden", hidden),
        site.norm("pre_fc_norm_embedding", hidden),
        site.norm("norm", hidden),
    ]


def _is_sparse(builder: Builder, index: int) -> bool:
    listed = builder.text.items("is_moe_layer")
    if listed:
        if index >= len(listed):
            raise ConfigError(f"{builder.text.where}: is_moe_layer does not name {index + 1} layers")
        return bool(listed[index])
    kinds = builder.text.items("mlp_layer_types")
    if index < len(kinds):
        return bool(kinds[index] == "sparse")
    return index >= builder.text.integer("first_k_dense_replace", low=0)


def _layer(site: Site, kind: str, rope: Rope, sparse: bool) -> Layer:
    text = site.b.text
    hidden = text.integer("hidden_size")
    window = text.integer("sliding_window", default=0, low=0) if kind == "sliding_attention" else 0
    modules = [
        *attention_modules(site.b, site, STYLE, *dims(text, STYLE)),
        *(_experts(site) if sparse else site.gated_mlp(hidden, text.integer("intermediate_size"))),
        site.norm("input_layernorm", hidden),
        site.norm("post_attention_layernorm", hidden),
    ]
    return site.layer([attention(text, window, rope)], modules)


def _experts(site: Site) -> list[Module]:
    text = site.b.text
    hidden, count, inner = (
        text.integer("hidden_size"),
        text.integer("num_experts"),
        text.integer("moe_intermediate_size"),
    )
    shared = text.integer("num_shared_experts", low=0)
    return [
        site.replicated("mlp.gate", count, hidden, "router", quantised=False),
        score_correction("mlp.e_score_correction_bias", count),
        *(site.gated_mlp(hidden, inner * shared, at="mlp.shared_experts", role="shared_experts") if shared else []),
        site.experts(count, hidden, inner, text.integer("num_experts_per_tok"), routing=sigmoid_routing(text)),
    ]


# EXAONE 4.5: EXAONE 4 behind Qwen2.5-VL's encoder with fewer key-value heads. vLLM: models/exaone4_5.py (0.32.0).

VISION_STYLE = STYLES["Exaone4ForCausalLM"]


def build_vision(builder: Builder) -> Skeleton:
    fill(builder, VISION_STYLE)
    visual = builder.root("model.visual", "visual")
    prefix = "model.language_model" if visual.startswith("model.") else "model"
    tower, modalities = qwen2_5_vision(builder, visual, builder.config.sub("vision_config"))
    layers = decoder_layers(builder, VISION_STYLE, prefix)
    # exaone4_5_mtp.py: layers of the same kind
    nextn = builder.text.integer("num_nextn_predict_layers", default=0, low=0, high=100)
    sites = builder.sites("mtp.layers", nextn, len(layers))
    return Skeleton(
        layers,
        decoder_root(builder, VISION_STYLE, prefix),
        drafts=tuple(replace(layers[-1], index=site.index, prefix=site.prefix) for site in sites),
        draft_root=builder.block(_draft_root(builder) if nextn else []),
        towers=(tower,),
        modalities=modalities,
    )
