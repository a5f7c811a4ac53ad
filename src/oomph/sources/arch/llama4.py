"""Llama 4: attention in chunks with every fourth layer global and without rope, experts, a vision encoder.

vLLM: models/llama4.py, mllama4.py.
"""

from typing import Literal

from oomph.errors import ConfigError
from oomph.ir import Attention, Layer, Modality, Module, Param, Routing, Tower
from oomph.sources.arch.base import SHARED_WHOLE, Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.decoder import Style, decoder_root
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config

_TEXT = {
    "attention_chunk_size": 8192,
    "head_dim": 128,
    "hidden_size": 5120,
    "interleave_moe_layer_step": 1,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "max_position_embeddings": 131072,
    "num_attention_heads": 40,
    "num_experts_per_tok": 1,
    "num_hidden_layers": 48,
    "num_key_value_heads": 8,
    "num_local_experts": 16,
    "no_rope_layer_interval": 4,
    "rope_theta": 500000.0,
    "vocab_size": 202048,
}
_VISION = {
    "hidden_size": 768,
    "image_size": 448,
    "intermediate_size": 5632,
    "num_attention_heads": 16,
    "num_channels": 3,
    "num_hidden_layers": 34,
    "patch_size": 14,
    "projector_input_dim": 4096,
    "projector_output_dim": 4096,
    "vision_output_dim": 7680,
}
_TILES = 17  # the processor's max_patches of 16 and the whole image once more


def build(builder: Builder) -> Skeleton:
    builder.text.fill(**_TEXT)
    if builder.architecture == "Llama4ForCausalLM":
        return Skeleton(_layers(builder, "model"), decoder_root(builder, Style()))
    vision = builder.config.sub("vision_config")
    vision.fill(**_VISION)
    side = vision.integer("image_size") // vision.integer("patch_size")
    ratio = vision.number("pixel_shuffle_ratio", default=0.5)
    tokens = side * side // max(1, round(1 / ratio**2)) if ratio > 0 else side * side
    prefix = "language_model.model"
    return Skeleton(
        _layers(builder, prefix),
        decoder_root(builder, Style(), prefix, "language_model.lm_head"),
        towers=(_vision(builder, vision), _projector(builder, vision)),
        modalities=(Modality("image", tokens * _TILES),),
    )


def _layers(builder: Builder, prefix: str) -> tuple[Layer, ...]:
    text = builder.text
    hidden = text.integer("hidden_size")
    heads, kv, head_dim = heads_of(text)
    count = text.integer("num_hidden_layers", high=10_000)
    chunk = text.integer("attention_chunk_size", default=0, low=0)
    local = Attention(
        "chunked_local" if chunk else "full", heads, kv, head_dim, head_dim, chunk=chunk, rope=rope_of(text, head_dim)
    )
    whole = Attention("full", heads, kv, head_dim, head_dim)
    return tuple(
        site.layer(
            [local if rotary else whole],
            [
                site.qkv(hidden, heads, kv, head_dim),
                site.row("self_attn.o_proj", hidden, heads * head_dim, "attention"),
                *_feed_forward(site, site.index),
                site.norm("input_layernorm", hidden),
                site.norm("post_attention_layernorm", hidden),
            ],
        )
        for site, rotary in zip(builder.sites(f"{prefix}.layers", count), _rope_layers(text, count))
    )


def _rope_layers(text: Config, count: int) -> list[bool]:
    """`no_rope_layers` has 1 where a layer does have rope."""
    listed = text.integers("no_rope_layers")
    if not listed:
        every = text.integer("no_rope_layer_interval")
        return [(i + 1) % every != 0 for i in range(count)]
    if len(listed) < count:
        raise ConfigError(f"{text.where}: no_rope_layers does not name {count} layers")
    return [bool(x) for x in listed[:count]]


def _feed_forward(site: Site, index: int) -> list[Module]:
    text = site.b.text
    hidden, inner = text.integer("hidden_size"), text.integer("intermediate_size")
    step = text.integer("interleave_moe_layer_step", low=0)
    if not step or (index + 1) % step:
        return site.gated_mlp(hidden, text.integer("intermediate_size_mlp"), at="feed_forward")
    experts, top_k = text.integer("num_local_experts"), text.integer("num_experts_per_tok")
    site.b.shared_whole_by = SHARED_WHOLE
    layout: Literal["each", "stacked"] = "stacked" if site.b.quant is None else "each"
    return [
        site.replicated("feed_forward.router", experts, hidden, "router", quantised=False),
        *site.gated_mlp(hidden, inner, at="feed_forward.shared_expert", role="shared_experts"),
        site.experts(
            experts,
            hidden,
            inner,
            top_k,
            at="feed_forward.experts",
            layout=layout,
            routing=Routing("sigmoid", custom="llama4"),
        ),
    ]


def _vision(builder: Builder, vision: Config) -> Tower:
    """mllama4.py builds the encoder unquantised."""
    hidden, inner, heads = (
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
        vision.integer("num_attention_heads"),
    )
    patch, count = vision.integer("patch_size"), vision.integer("num_hidden_layers", high=10_000)
    patches = (vision.integer("image_size") // patch) ** 2
    site = builder.site("vision_model")
    first: list[Module] = [
        _plain(site, "patch_embedding.linear", hidden, vision.integer("num_channels") * patch * patch, "column"),
        site.tensor("class_embedding", hidden),
        site.tensor("positional_embedding_vlm", patches + 1, hidden),
        *layer_norm(site, "layernorm_pre", hidden),
        *layer_norm(site, "layernorm_post", hidden),
        # llama4_vision_rope.py: complex64, a row for each patch and one for the class token
        Param("rotary_emb.cos_sin_cache", (patches + 1, hidden // heads // 2), "C64", "multimodal", stored=False,
              created_dtype="C64"),
    ]  # fmt: skip
    at = "model.layers.0"
    parts = [(f"{at}.self_attn.{q}_proj", hidden, heads) for q in "qkv"]
    layer: list[Module] = [
        site.linear(f"{at}.self_attn.qkv_proj", parts, hidden, "column", "multimodal", bias=True, quantised=False),
        _plain(site, f"{at}.self_attn.o_proj", hidden, hidden, "row", bias=True),
        _plain(site, f"{at}.mlp.fc1", inner, hidden, "column", bias=True),
        _plain(site, f"{at}.mlp.fc2", hidden, inner, "row", bias=True),
        *layer_norm(site, f"{at}.input_layernorm", hidden),
        *layer_norm(site, f"{at}.post_attention_layernorm", hidden),
    ]
    bias = vision.flag("multi_modal_projector_bias")
    wide, out = vision.integer("projector_input_dim"), vision.integer("projector_output_dim")
    last: list[Module] = [
        _plain(site, "vision_adapter.mlp.fc1", wide, inner, "column", bias=bias),
        _plain(site, "vision_adapter.mlp.fc2", out, wide, "row", bias=bias),
    ]
    return site.tower("vision_model", "vision", [(1, first), (count, layer), (1, last)], count, hidden, inner, heads)


def _projector(builder: Builder, vision: Config) -> Tower:
    site = builder.site("multi_modal_projector")
    linear = _plain(
        site, "linear_1", builder.text.integer("hidden_size"), vision.integer("vision_output_dim"), "column"
    )
    return site.tower("multi_modal_projector", "vision", [(1, [linear])])


def _plain(site: Site, name: str, out: int, in_features: int, shard: str, *, bias: bool = False) -> Module:
    make = site.column if shard == "column" else site.row
    return make(name, out, in_features, "multimodal", bias=bias, quantised=False)
