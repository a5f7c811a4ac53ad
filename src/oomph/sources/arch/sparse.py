"""More decoders with experts: OLMoE, FlexOlmo, Phi-3.5-MoE, Ernie 4.5 MoE, Hunyuan MoE.

vLLM: models/olmoe.py, flex_olmo.py, phimoe.py, ernie45_moe.py, hunyuan_v1.py.
"""

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Layer, Linear, Module, Param, Part, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.decoder import (
    ALL_STAGES,
    Mlp,
    Names,
    Style,
    attention_modules,
    backed,
    decoder_layers,
    decoder_root,
    dense_mlp,
    dims,
    fill,
    frequencies,
)
from oomph.sources.arch.moe import mixtral_mlp
from oomph.sources.config import Config

STYLES: dict[str, Style] = {
    "Ernie4_5_MoeForCausalLM": Style(
        o_bias=False,
        defaults=(
            ("tie_word_embeddings", True),
            ("max_position_embeddings", 131072),
            ("moe_layer_start_index", 1),
            ("moe_layer_interval", 1),
            ("moe_num_shared_experts", 2),
        ),
        aliases=(("use_bias", "attention_bias"), ("use_bias", "mlp_bias")),
    ),
    "FlexOlmoForCausalLM": Style(
        qkv_bias=False,
        qk_norm="whole",
        own_head_dim=False,
        norms=("post_attention_layernorm", "post_feedforward_layernorm"),
        everywhere=ALL_STAGES,
        defaults=(("num_experts", 7), ("num_experts_per_tok", 5), ("max_position_embeddings", 4096)),
    ),
    "HunYuanMoEV1ForCausalLM": Style(
        qk_norm="head",
        qk_norm_flag="use_qk_norm",
        names=Names(q_norm="query_layernorm", k_norm="key_layernorm"),
        defaults=(("max_position_embeddings", 2048), ("moe_topk", 1), ("num_shared_expert", 1)),
        aliases=(("attention_head_dim", "head_dim"),),
    ),
    "OlmoeForCausalLM": Style(
        qkv_bias=False,
        qk_norm="whole",
        own_head_dim=False,
        everywhere=ALL_STAGES,
        defaults=(("num_experts", 64), ("num_experts_per_tok", 8), ("max_position_embeddings", 4096)),
    ),
    "PhiMoEForCausalLM": Style(
        qkv_bias=True,
        o_bias=True,
        norm_bias=True,
        everywhere=ALL_STAGES,
        defaults=(("num_local_experts", 16), ("num_experts_per_tok", 2), ("max_position_embeddings", 131072)),
    ),
}


def build(builder: Builder) -> Skeleton:
    style = STYLES[builder.architecture]
    fill(builder, style)
    makers = {
        "Ernie4_5_MoeForCausalLM": _ernie,
        "FlexOlmoForCausalLM": _olmoe,
        "HunYuanMoEV1ForCausalLM": _hunyuan,
        "OlmoeForCausalLM": _olmoe,
        "PhiMoEForCausalLM": mixtral_mlp,
    }
    original = builder.text.table("rope_parameters", "rope_scaling").get("original_max_position_embeddings")
    if isinstance(original, int) and builder.architecture == "PhiMoEForCausalLM":
        builder.text.fill(original_max_position_embeddings=original)  # PhimoeConfig lifts it out of the rope parameters
    mlp = makers[builder.architecture](builder, style)
    root = decoder_root(builder, style, head_bias=builder.architecture == "PhiMoEForCausalLM")
    if builder.architecture not in ("FlexOlmoForCausalLM", "HunYuanMoEV1ForCausalLM"):
        layers = decoder_layers(builder, style, mlp=mlp)
        ernie = builder.architecture == "Ernie4_5_MoeForCausalLM"
        return Skeleton(layers, root, drafts=_ernie_drafts(builder, style, layers) if ernie else ())
    _, _, head_dim = dims(builder.text, style)
    layers = decoder_layers(builder, style, mlp=mlp, rope=backed(builder, rope_of(builder.text, head_dim)))
    return Skeleton(layers, builder.block([*root.modules, *frequencies(builder, layers)]))


def _ernie_drafts(builder: Builder, style: Style, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """ernie_mtp.py: a dense decoder layer behind norms of embedding and hidden state; embedding and head are the
    target's. Checkpoints keep it in tensors of their own, `model.mtp_*`."""
    text = builder.text
    count = text.integer("num_nextn_predict_layers", default=0, low=0, high=100)
    hidden, dense = text.integer("hidden_size"), dense_mlp(builder, style)
    heads, kv, width = dims(text, style)
    drafts = []
    for i in range(count):
        site = builder.site(f"model.mtp_block.{i}", len(layers) + i)
        modules: list[Module] = [
            site.norm("mtp_emb_norm", hidden),
            site.norm("mtp_hidden_norm", hidden),
            site.replicated("mtp_linear_proj", hidden, 2 * hidden, "other", quantised=False),
            *attention_modules(builder, site, style, heads, kv, width),
            *dense(site, i),
            site.norm("input_layernorm", hidden),
            site.norm("post_attention_layernorm", hidden),
        ]
        drafts.append(site.layer(layers[0].mixers, modules))
    return tuple(drafts)


def _olmoe(builder: Builder, style: Style) -> Mlp:
    text = builder.text
    hidden, inner, count = text.integer("hidden_size"), text.integer("intermediate_size"), text.integer("num_experts")

    def mlp(site: Site, index: int) -> list[Module]:
        routing = Routing(renormalised=False)  # olmoe.py:95 (0.32.0)
        experts = site.experts(count, hidden, inner, text.integer("num_experts_per_tok"), routing=routing)
        if (
            builder.architecture == "FlexOlmoForCausalLM"
        ):  # flex_olmo.py:74 (0.21.0): experts without a quantisation config
            experts = replace(experts, only="FlexOlmoForCausalLM by transformers")
        return [site.replicated("mlp.gate", count, hidden, "router", quantised=False), experts]

    return mlp


def _ernie(builder: Builder, style: Style) -> Mlp:
    """ernie45_moe.py:357 (0.21.0): which layers have experts; the router and its correction are float32."""
    text = builder.text
    count, hidden = text.integer("moe_num_experts", default=0, low=0), text.integer("hidden_size")
    first, step = text.integer("moe_layer_start_index", low=0), text.integer("moe_layer_interval")
    last = text.integer("moe_layer_end_index", default=-1, low=-1)
    last = last if last >= 0 else text.integer("num_hidden_layers", high=10_000) - 1
    dense = dense_mlp(builder, style)

    def mlp(site: Site, index: int) -> list[Module]:
        if not count or not first <= index <= last or (index + 1) % step:
            return dense(site, index)
        inner, shared = text.integer("moe_intermediate_size"), text.integer("moe_num_shared_experts", default=0, low=0)
        return [
            Linear("mlp.gate", (Part("mlp.gate", count),), hidden, "replicated", "router", "F32", created_dtype="F32"),
            Param("mlp.moe_statics.e_score_correction_bias", (1, count), "F32", "router", created_dtype="F32"),
            *(site.gated_mlp(hidden, inner * shared, at="mlp.shared_experts", role="shared_experts") if shared else []),
            site.experts(count, hidden, inner, text.integer("moe_k", default=6), routing=Routing(biased=True)),
        ]

    return mlp


def _hunyuan(builder: Builder, style: Style) -> Mlp:
    text = builder.text
    hidden, inner, count = (
        text.integer("hidden_size"),
        text.integer("intermediate_size"),
        text.integer("num_experts", default=1),
    )
    dense = dense_mlp(builder, style)

    def mlp(site: Site, index: int) -> list[Module]:
        if count == 1:
            return dense(site, index)
        shared = _of_layer(text, "num_shared_expert", index, 1) if text.flag("use_mixed_mlp_moe") else 0
        return [
            replace(
                site.replicated("mlp.gate.wg", count, hidden, "router"),
                quantised_by=f"{builder.architecture} by transformers",
            ),
            *(site.gated_mlp(hidden, inner * shared, at="mlp.shared_mlp", role="shared_experts") if shared else []),
            site.experts(
                count,
                hidden,
                _of_layer(text, "moe_intermediate_size", index, inner),
                _of_layer(text, "moe_topk", index, 1),
            ),
        ]

    return mlp


def _of_layer(text: Config, key: str, index: int, default: int) -> int:
    """A number for all layers, or a list with one for each."""
    if not isinstance(text.get(key), list):
        return text.integer(key, default=default)
    values = text.integers(key)
    if index >= len(values) or values[index] < 1:
        raise ConfigError(f"{text.where}: {key} has no sensible number for layer {index}")
    return values[index]
