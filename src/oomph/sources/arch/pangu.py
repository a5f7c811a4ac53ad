"""openPangu: Embedded (dense), Ultra-MoE (latent attention), Pro-MoE V2 (learned sinks in every layer's cache).

vLLM: models/openpangu.py, openpangu_vl.py. Behind them Sarvam's latent attention with Bailing's experts
(models/sarvam.py).
"""

from collections.abc import Callable

from msgspec.structs import replace

from oomph.ir import Attention, Layer, Linear, Mixer, Modality, Module, Param, Part, Routing
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.decoder import Style, attention_modules, decoder_root, dims
from oomph.sources.arch.mla import mla_mixer, mla_modules, nextn_modules, routed_mlp, score_correction
from oomph.sources.arch.towers import TowerStyle, styled_tower
from oomph.sources.config import Config

_PLAIN = Style(window="none")


def build(builder: Builder) -> Skeleton:
    text = builder.text
    count, hidden = text.integer("num_hidden_layers", high=10_000), text.integer("hidden_size")
    layers = tuple(_layer(site, _routed) for site in builder.sites("model.layers"))
    drafts = []
    for site in builder.sites("model.layers", text.integer("num_nextn_predict_layers", default=0, low=0), count):
        layer = _layer(site, _routed)
        own = nextn_modules(site, hidden, text.integer("vocab_size"), list(layer.block.modules), own_vocab=True)
        drafts.append(site.layer(layer.mixers, own))
    return Skeleton(layers, decoder_root(builder, _PLAIN), drafts=tuple(drafts))


def build_sarvam(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(first_k_dense_replace=1, num_shared_experts=1, score_function="sigmoid")
    layers = tuple(_layer(site, _sarvam_experts) for site in builder.sites("model.layers"))
    return Skeleton(layers, decoder_root(builder, _PLAIN))


def _layer(site: Site, experts: Callable[[Site, Config], list[Module]]) -> Layer:
    text = site.b.text
    hidden = text.integer("hidden_size")
    mixer, modules = _attention(site, text)
    first = text.integer("first_k_dense_replace", default=0, low=0)
    has_experts = text.get("n_routed_experts", "num_experts") is not None
    if has_experts and site.index >= first:
        modules += experts(site, text)
    else:
        modules += site.gated_mlp(hidden, text.integer("intermediate_size"), bias=text.flag("mlp_bias"))
    around = ("pre_mlp_layernorm", "post_mlp_layernorm") if text.flag("sandwich_norm") else ()
    modules += [site.norm(name, hidden) for name in ("input_layernorm", "post_attention_layernorm", *around)]
    return site.layer([mixer], modules)


def _attention(site: Site, text: Config) -> tuple[Mixer, list[Module]]:
    if text.has("kv_lora_rank"):
        return mla_mixer(text), mla_modules(site, text)
    if text.integer("param_sink_number", default=0, low=0):
        return _sink_attention(site, text)
    heads, kv, width = dims(text, _PLAIN)
    windows = text.get("interleaved_sliding_window")
    window = windows[site.index % len(windows)] if isinstance(windows, list) and windows else windows or 0
    rope = rope_of(text, width)
    mixer = Attention("sliding_window" if window else "full", heads, kv, width, width, window=int(window), rope=rope)
    return mixer, attention_modules(site.b, site, _PLAIN, heads, kv, width)


def _sink_attention(site: Site, text: Config) -> tuple[Mixer, list[Module]]:
    """openpangu.py OpenPanguSinkAttention: keys without and with positions beside each other, values of another width,
    and `param_sink_number` learned tokens."""
    hidden, heads = text.integer("hidden_size"), text.integer("num_attention_heads")
    kv = text.integer("num_key_value_heads", default=heads)
    rotary, value = text.integer("qk_rope_dim"), text.integer("v_channels")
    width = text.integer("qk_nope_dim") + rotary
    sinks, at = text.integer("param_sink_number"), "self_attn"
    rope = rope_of(text, rotary, params={"rope_type": "default"})
    parts = [(f"{at}.q_proj", heads * width, heads), (f"{at}.k_proj", kv * width, kv), (f"{at}.v_proj", kv * value, kv)]
    bias = text.flag("attention_bias", "bias")
    modules: list[Module] = [
        site.linear(f"{at}.qkv_proj", parts, hidden, "column", "attention", bias=text.flag("qkv_bias", default=bias)),
        site.row(f"{at}.o_proj", hidden, heads * value, "attention", bias=bias),
        site.norm(f"{at}.k_layernorm", width),
        Param(f"{at}.param_sink_key", (sinks, kv, width), site.b.dtype, "attention", shard_dim=1, heads=kv),
        Param(f"{at}.param_sink_value", (sinks, kv, value), site.b.dtype, "attention", shard_dim=1, heads=kv,
              stored=text.flag("param_sink_with_value")),
    ]  # fmt: skip
    return Attention("full", heads, kv, width, value, rope=rope), modules


def _routed(site: Site, text: Config) -> list[Module]:
    text.fill(scoring_func="sigmoid")
    return routed_mlp(site, text, correction=text.flag("router_enable_expert_bias"))


def _sarvam_experts(site: Site, text: Config) -> list[Module]:
    """sarvam.py SarvamMLAMoE: the router in the model's dtype, its correction in float32."""
    hidden, count, inner = (text.integer(key) for key in ("hidden_size", "num_experts", "moe_intermediate_size"))
    shared = text.integer("num_shared_experts", low=0)
    wide = text.integer("moe_shared_expert_intermediate_size", default=inner) * shared
    biased = text.flag("moe_router_enable_expert_bias", default=True)
    routing = Routing(
        "sigmoid" if text.text("score_function") == "sigmoid" else "softmax",
        text.flag("norm_topk_prob", default=True),
        text.integer("n_group", default=0, low=0) if text.has("topk_group") else 0,
        biased=biased,
    )
    return [
        site.replicated("mlp.gate", count, hidden, "router", quantised=False),
        *([score_correction("mlp.gate.e_score_correction_bias", count)] if biased else []),
        *(site.gated_mlp(hidden, wide, at="mlp.shared_experts", role="shared_experts") if shared else []),
        site.experts(count, hidden, inner, text.integer("num_experts_per_tok"), routing=routing),
    ]


# Param-2: Bailing's experts behind plain attention with norms over each head. vLLM: models/param2moe.py.


def build_param2(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(first_k_dense_replace=1, num_shared_experts=1, score_function="sigmoid")
    heads, kv, width = dims(text, _PLAIN)
    hidden, bias = text.integer("hidden_size"), text.flag("use_bias")
    mixer = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    norms = ("q_layernorm", "k_layernorm") if text.flag("use_qk_norm") else ()
    layers = []
    for site in builder.sites("model.layers"):
        modules: list[Module] = [
            site.qkv(hidden, heads, kv, width, bias=text.flag("use_qkv_bias")),
            site.row("self_attn.o_proj", hidden, heads * width, "attention", bias=bias),
            *(site.norm(f"self_attn.{name}", width) for name in norms),
        ]
        if text.has("num_experts") and site.index >= text.integer("first_k_dense_replace", low=0):
            gate, *rest = _sarvam_experts(site, text)
            modules += [replace(gate, created_dtype="F32") if isinstance(gate, Linear) else gate, *rest]
        else:
            modules += site.gated_mlp(hidden, text.integer("intermediate_size"), bias=bias)
        modules += [site.norm(name, hidden) for name in ("input_layernorm", "post_attention_layernorm")]
        layers.append(site.layer([mixer], modules))
    return Skeleton(tuple(layers), decoder_root(builder, _PLAIN))


# IQuest LoopCoder: Llama whose layers run `loop_num` times, with a cache for each time, windowed after the first.
#
# vLLM: models/iquest_loopcoder.py.


def build_loop(builder: Builder) -> Skeleton:
    text = builder.text
    heads, kv, _ = dims(text, _PLAIN)
    hidden = text.integer("hidden_size")
    width = hidden // heads
    full = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    window = text.integer("loop_window_size", default=64)
    looped = replace(full, kind="sliding_window", window=window)
    mixers = [full, *[looped] * (text.integer("loop_num", default=2, high=100) - 1)]
    style = Style(qkv_bias=False)
    layers = []
    for site in builder.sites("model.layers"):
        name = f"model.gate_projections.{site.index}.gate_proj"
        gate = Linear(name, (Part(name, heads),), width, "column", "attention", builder.dtype, bias=True)
        modules = [
            *attention_modules(builder, site, style, heads, kv, width),
            *site.gated_mlp(hidden, text.integer("intermediate_size")),
            *(site.norm(name, hidden) for name in ("input_layernorm", "post_attention_layernorm")),
            gate,
        ]
        layers.append(site.layer(mixers, modules))
    return Skeleton(tuple(layers), decoder_root(builder, style))


# --- openPangu-VL: a windowed encoder read at two depths, a Pangu Embedded --------------------------------------------

_VISION = TowerStyle(
    sizes=(
        ("H", "hidden_size=1152"), ("I", "intermediate_size"), ("A", "num_heads"), ("N", "depth"),
        ("P", "patch_size=14"), ("T", "temporal_patch_size=2"), ("M", "spatial_merge_size=2"), ("O", "out_hidden_size"),
    ),
    name="visual",
    rows="""
        patch_embed.proj            conv     H 3 T P P
      each N
        blocks.0.norm1              norm     H
        blocks.0.norm2              norm     H
        blocks.0.attn.qkv           qkv+     H A
        blocks.0.attn.proj          row+     H H
        blocks.0.mlp.gate_proj,blocks.0.mlp.up_proj   pair+    I H   if gated
        blocks.0.mlp.up_proj        column+  I H   if plain
        blocks.0.mlp.down_proj      row+     H I
      each K
        merger.0.ln_q               norm     H
        merger.0.mlp.0              column+  H*M*M H*M*M
        merger.0.mlp.2              row+     O H*M*M
      then
        final_layernorm             norm     H
        vision_projection.fc1       whole+!  L O
    """,
)  # fmt: skip


def build_vision(builder: Builder) -> Skeleton:
    vision, model = builder.config.sub("vision_config"), build(builder)
    gated = vision.text("hidden_act", default="silu") == "silu"
    own = {
        "K": len(vision.items("mm_unit_vision_select_layer")) or 2, "L": builder.text.integer("hidden_size"),
        "gated": int(gated), "plain": int(not gated),
    }  # fmt: skip
    unit = vision.integer("patch_size", default=14) * vision.integer("spatial_merge_size", default=2)
    tokens = 12_845_056 // unit**2
    return replace(
        model,
        towers=(styled_tower(builder, _VISION, "visual", vision, own),),
        modalities=(Modality("image", tokens), Modality("video", tokens)),
    )
