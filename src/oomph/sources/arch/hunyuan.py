"""Hunyuan 3: grouped attention with norms of heads, a float32 router, shared and routed experts.

vLLM: models/hy_v3.py (0.32.0).

Behind it: Hunyuan 4, HunyuanOCR.
"""

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Indexer, Linear, Modality, Module, Param, Part, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.decoder import (
    ALL_STAGES,
    Names,
    Style,
    attention_modules,
    decoder,
    decoder_layers,
    decoder_root,
    dims,
    fill,
)
from oomph.sources.arch.mla import indexer_modules, mla_mixer, mla_modules, nextn_modules
from oomph.sources.arch.towers import TowerStyle, styled_tower
from oomph.sources.config import Config

STYLE = Style(
    qkv_bias=False,
    qk_norm="head",
    qk_norm_flag="qk_norm",
    everywhere=ALL_STAGES,
    defaults=(("num_shared_experts", 0), ("route_norm", True)),
    aliases=(("expert_hidden_dim", "moe_intermediate_size"),),
)


def build(builder: Builder) -> Skeleton:
    model, text = decoder(builder, STYLE, mlp=_mlp), builder.text
    hidden, sizes = text.integer("hidden_size"), dims(text, STYLE)
    drafts = []  # hy_v3_mtp.py: embedding and head are the target's
    nextn = text.integer("num_nextn_predict_layers", default=0, low=0, high=100)
    for site in builder.sites("model.layers", nextn, len(model.layers)):
        norms = [site.norm(name, hidden) for name in STYLE.norms]
        block = [*attention_modules(builder, site, STYLE, *sizes), *_mlp(site, site.index), *norms]
        own = nextn_modules(site, hidden, text.integer("vocab_size"), block, own_vocab=False)
        drafts.append(site.layer(model.layers[0].mixers, own))
    return replace(model, drafts=tuple(drafts))


def _mlp(site: Site, index: int) -> list[Module]:
    text = site.b.text
    hidden = text.integer("hidden_size")
    if index < text.integer("first_k_dense_replace", low=0):
        return site.gated_mlp(hidden, text.integer("intermediate_size"))
    inner, count = text.integer("moe_intermediate_size"), text.integer("num_experts")
    shared = text.integer("num_shared_experts", low=0)
    routing = Routing("sigmoid", text.flag("route_norm", default=True), 1, biased=True)
    return [
        Linear("mlp.gate", (Part("mlp.gate", count),), hidden, "replicated", "router", "F32", created_dtype="F32"),
        *(site.gated_mlp(hidden, inner * shared, at="mlp.shared_mlp", role="shared_experts") if shared else []),
        Param("mlp.expert_bias", (count,), "F32", "router", created_dtype="F32"),
        site.experts(count, hidden, inner, text.integer("num_experts_per_tok"), routing=routing),
    ]


# Hunyuan 4: gated latent attention with sinks and a sparse indexer, hyper-connections, experts.
#
# vLLM: models/hy_v4/nvidia/ (0.32.0). Its multi-token-prediction layer is not planned.

_SPARSE = ("indexed_attention", "deepseek_sparse_attention", "sparse_attention", "sparse")


def build_v4(builder: Builder) -> Skeleton:
    text = builder.text
    # HYV4Config
    text.fill(
        vocab_size=120832, hidden_size=2816, intermediate_size=6912, moe_intermediate_size=768, num_hidden_layers=34,
        num_attention_heads=32, max_position_embeddings=262144, n_routed_experts=256, n_shared_experts=1,
        num_experts_per_tok=8, q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=192, qk_rope_head_dim=64,
        v_head_dim=256, index_topk=2048, index_head_dim=128, index_n_heads=16, hc_mult=4, gating_type="elementwise",
    )  # fmt: skip
    count, hidden = text.integer("num_hidden_layers", high=10_000), text.integer("hidden_size")
    kinds = {key: _listed(text, key, count) for key in ("layer_types", "indexer_types", "mlp_layer_types")}
    layers = []
    for i, site in enumerate(builder.sites("model.layers", count)):
        chooses = kinds["indexer_types"][i] == "full" if kinds["indexer_types"] else i == 0 or (i - 1) % 4 == 0
        sparse = bool(kinds["layer_types"]) and kinds["layer_types"][i] in _SPARSE and chooses
        indexer = _indexer(text) if sparse else None
        dense = kinds["mlp_layer_types"][i] == "dense" if kinds["mlp_layer_types"] else i == 0
        modules = [
            *mla_modules(site, text),
            *(indexer_modules(site, text, indexer) if indexer else []),
            *_gate(site, text),
            *_sinks(text),
            *(site.gated_mlp(hidden, text.integer("intermediate_size")) if dense else _experts(site, text)),
            site.norm("input_layernorm", hidden),
            site.norm("post_attention_layernorm", hidden),
            *_connection("hc_attn_layer", text),
            *_connection("hc_mlp_layer", text),
        ]
        layers.append(site.layer([mla_mixer(text, indexer=indexer)], modules))
    root = builder.head(
        text.integer("vocab_size"), hidden, tied=text.flag("tie_word_embeddings"), extra=_head(text, hidden)
    )
    return Skeleton(tuple(layers), root, params=(("index_topk", text.integer("index_topk")),))


def _listed(text: Config, key: str, count: int) -> list[str]:
    values = [str(value) for value in text.items(key)]
    if values and len(values) < count:
        raise ConfigError(f"{text.where}: {key} does not name {count} layers")
    return values


def _indexer(text: Config) -> Indexer:
    """Both rotary tables interleave: they are one."""
    return Indexer(text.integer("index_n_heads"), text.integer("index_head_dim"), text.integer("index_topk"))


def _gate(site: Site, text: Config) -> list[Module]:
    if not text.flag("gated_mla", default=True):
        return []
    heads, name = text.integer("num_attention_heads"), "self_attn.linear_gate"
    wide = 1 if text.text("gating_type") == "headwise" else text.integer("v_head_dim")
    return [site.linear(name, [(name, heads * wide, heads)], text.integer("hidden_size"), "column", "attention")]


def _sinks(text: Config) -> list[Module]:
    if not text.flag("learnable_sink", default=True):
        return []
    name, heads = "self_attn.learnable_sink_param", text.integer("num_attention_heads")
    return [Param(name, (heads,), "F32", "attention", created_dtype="F32", shard_dim=0)]


def _experts(site: Site, text: Config) -> list[Module]:
    hidden, inner, count = (text.integer(k) for k in ("hidden_size", "moe_intermediate_size", "n_routed_experts"))
    shared = inner * text.integer("n_shared_experts", low=0)
    routing = Routing("sigmoid", text.flag("norm_topk_prob", default=True), 1, biased=True)
    return [
        Linear("mlp.gate", (Part("mlp.gate", count),), hidden, "replicated", "router", "F32", created_dtype="F32"),
        *(site.gated_mlp(hidden, shared, at="mlp.shared_experts", role="shared_experts") if shared else []),
        Param("mlp.gate.e_score_correction_bias", (count,), "F32", "router", created_dtype="F32"),
        site.experts(count, hidden, inner, text.integer("num_experts_per_tok"), routing=routing),
    ]


def _connection(at: str, text: Config) -> list[Module]:
    """hc.py HYV4HCPreLayer: how the residual channels mix before and after a sub-block."""
    if not text.flag("enable_ihc", default=True):
        return []
    channels = text.integer("hc_mult")
    shapes = {"hc_fn": (2 * channels, channels * text.integer("hidden_size")), "hc_scale": (2,)}
    shapes["hc_base"] = (2 * channels,)
    return [Param(f"{at}.hc_pre.{n}", shape, "F32", "other", created_dtype="F32") for n, shape in shapes.items()]


def _head(text: Config, hidden: int) -> list[Module]:
    if not text.flag("enable_ihc", default=True):
        return []
    channels, at = text.integer("hc_mult"), "model.hc_head"
    shapes = {"hc_head_fn": (channels, channels * hidden), "hc_head_base": (channels,), "hc_head_scale": (1,)}
    # the role of the last norm: on the last stage
    return [Param(f"{at}.{n}", shape, "F32", "norm", created_dtype="F32") for n, shape in shapes.items()]


# --- HunyuanOCR: transformers' own encoder and patch merger, a dense Hunyuan ------------------------------------------

_VISION = TowerStyle(
    sizes=(
        ("H", "hidden_size=1152"), ("I", "intermediate_size=4304"), ("A", "num_attention_heads=16"),
        ("N", "num_hidden_layers=27"), ("P", "patch_size=16"), ("S", "max_image_size=2048"),
    ),
    rows="""
        embeddings.patch_embedding              conv+    H 3 P P
        embeddings.position_embedding.weight    tensor   L H
      each N
        layers.0.layer_norm1                    norm+    H
        layers.0.self_attn.q_proj               whole+   H H
        layers.0.self_attn.k_proj               whole+   H H
        layers.0.self_attn.v_proj               whole+   H H
        layers.0.self_attn.o_proj               whole+   H H
        layers.0.layer_norm2                    norm+    H
        layers.0.mlp.fc1                        whole+   I H
        layers.0.mlp.fc2                        whole+   H I
      then
        patch_merger.image_newline              tensor   4*H
        patch_merger.image_begin                tensor   O
        patch_merger.image_end                  tensor   O
        patch_merger.image_sep                  tensor   O
        patch_merger.proj_conv                  conv+    2*H H 2 2
        patch_merger.proj_out                   conv+    4*H 2*H 1 1
        patch_merger.mlp                        whole+   O 4*H
        patch_merger.before_rms                 norm     H
        patch_merger.after_rms                  norm     O
    """,
)  # fmt: skip
_DENSE = Style(
    qk_norm="head",
    names=Names(q_norm="query_layernorm", k_norm="key_layernorm"),
    defaults=(("max_position_embeddings", 2048), ("head_dim", 128)),
)


def build_vision(builder: Builder) -> Skeleton:
    vision = builder.config.sub("vision_config")
    fill(builder, _DENSE)
    side = vision.integer("max_image_size", default=2048) // vision.integer("patch_size", default=16)
    own = {"L": side * side + 1, "O": builder.text.integer("hidden_size")}
    _, _, width = dims(builder.text, _DENSE)
    prefix = "model.language_model"
    # transformers keeps the frequencies, no table
    table = replace(rope_of(builder.text, width), only="vLLM's own HunYuanVL", short=-1)
    layers = decoder_layers(builder, _DENSE, prefix, rope=table)
    root = decoder_root(builder, _DENSE, prefix)
    frequencies = [
        Param(
            f"{prefix}.rotary_emb.{name}",
            (width // 2,),
            "F32",
            "other",
            stored=False,
            created_dtype="F32",
            everywhere=True,
        )
        for name in ("inv_freq", "original_inv_freq")
    ]
    return Skeleton(
        layers,
        builder.block([*root.modules, *frequencies]),
        towers=(styled_tower(builder, _VISION, "model.vision_tower", vision, own),),
        modalities=(Modality("image", (side // 2) ** 2 + side // 2 + 2),),
    )
