"""Gemma 3n: four parallel streams (AltUp), low-rank side paths (Laurel), per-layer embeddings, shared caches.

vLLM: models/gemma3n.py, gemma3n_mm.py.
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Block, Layer, Modality, Module, Param, Part, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.gemma import layer_rope, layer_types
from oomph.sources.arch.gemma3n_towers import audio_tower, embedder, vision_tower
from oomph.sources.config import Config

SHARED = "kv of layers that share a cache"


def build(builder: Builder) -> Skeleton:
    text = builder.text
    # Gemma3nTextConfig
    text.fill(vocab_size=262400, hidden_size=2048, intermediate_size=16384, num_hidden_layers=35, num_attention_heads=8)
    text.fill(num_key_value_heads=2, head_dim=256, max_position_embeddings=32768, sliding_window=512)
    text.fill(rope_theta=1e6, rope_local_base_freq=1e4, vocab_size_per_layer_input=262144)
    text.fill(hidden_size_per_layer_input=256, altup_num_inputs=4, num_kv_shared_layers=15, laurel_rank=64)
    wrapped = builder.architecture == "Gemma3nForConditionalGeneration"
    prefix = builder.root("model.language_model", "language_model.model") if wrapped else "model"
    types = layer_types(text, 5)
    mixers = _mixers(text, types)
    first = _first_shared(text, types)
    layers = tuple(_layer(builder, prefix, i, mixer, shares=i >= first) for i, mixer in enumerate(mixers))
    root = _root(builder, prefix)
    if not wrapped:
        return Skeleton(layers, root)
    before = "model." if prefix.startswith("model.") else ""
    hidden, vision, audio = (
        text.integer("hidden_size"),
        builder.config.sub("vision_config"),
        builder.config.sub("audio_config"),
    )
    towers = (
        vision_tower(builder, f"{before}vision_tower"),
        embedder(builder, f"{before}embed_vision", "vision", vision, hidden, 2048),
        audio_tower(builder, f"{before}audio_tower", audio),
        embedder(builder, f"{before}embed_audio", "audio", audio, hidden, 1536),
    )
    modalities = (
        Modality("image", builder.config.integer("vision_soft_tokens_per_image", default=256)),
        Modality("audio", builder.config.integer("audio_soft_tokens_per_image", default=188)),
    )
    # gemma3n_mm.py: a buffer of this many values per scheduled token, kept for the CUDA graphs
    wide = text.integer("hidden_size_per_layer_input") * len(types)
    return Skeleton(layers, root, towers=towers, modalities=modalities, params=(("per_layer_embeddings", wide),))


def _mixers(text: Config, types: list[str]) -> list[Attention]:
    """gemma3n.py:353 (0.21.0): shared layers read the last own cache of their kind: full attention the last layer
    before the shared ones, sliding attention the one before it."""
    heads, kv, width = (
        text.integer("num_attention_heads"),
        text.integer("num_key_value_heads"),
        text.integer("head_dim"),
    )
    window = text.integer("sliding_window")
    modules = {
        "full_attention": Attention("full", heads, kv, width, width, rope=layer_rope(text, "full_attention", width)),
        "sliding_attention": Attention(
            "sliding_window", heads, kv, width, width, window=window, rope=layer_rope(text, "sliding_attention", width)
        ),
    }
    first = _first_shared(text, types)
    out = []
    for i, kind in enumerate(types):
        if kind not in modules:
            raise ConfigError(f"{text.where}: layer_types has {kind!r}, which is not known")
        owner = first - (2 if kind == "sliding_attention" else 1)
        # a layer that has no layer to read from keeps a cache of its own
        out.append(modules[kind] if i < first or owner < 0 else replace(modules[kind], shares_cache_of=owner))
    return out


def _first_shared(text: Config, types: list[str]) -> int:
    """The first layer without keys and values of its own; negative where all are to share."""
    return len(types) - text.integer("num_kv_shared_layers", low=0, high=10_000)


def _layer(builder: Builder, prefix: str, index: int, mixer: Attention, *, shares: bool) -> Layer:
    text = builder.text
    hidden, streams = text.integer("hidden_size"), text.integer("altup_num_inputs")
    ple, rank = text.integer("hidden_size_per_layer_input"), text.integer("laurel_rank")
    site = builder.site(f"{prefix}.layers.{index}")
    modules: list[Module] = [
        # created without a dtype before the model's default is set (gemma3n.py:124)
        Param("altup.correct_output_scale", (hidden,), builder.dtype, "other", created_dtype="F32"),
        site.replicated("altup.correction_coefs", streams, streams, "other"),
        site.replicated("altup.prediction_coefs", streams * streams, streams, "other"),
        site.replicated("altup.modality_router", streams, hidden, "other"),
        site.norm("altup.router_norm", hidden),
        _scalar(builder, "altup.router_input_scale"),
        *_attention(site, mixer, hidden, text.flag("attention_bias"), SHARED if shares else ""),
        *site.gated_mlp(hidden, _inner(text, index)),
        site.column("laurel.linear_left", rank, hidden, "other"),
        site.row("laurel.linear_right", hidden, rank, "other"),
        site.norm("laurel.post_laurel_norm", hidden),
        site.replicated("per_layer_input_gate", ple, hidden, "other"),
        site.replicated("per_layer_projection", hidden, ple, "other"),
    ]
    norms = ("input", "post_attention", "pre_feedforward", "post_feedforward")
    modules += [site.norm(f"{n}_layernorm", hidden) for n in norms]
    modules.append(site.norm("post_per_layer_input_norm", hidden))
    return builder.layer(index, site.prefix, [mixer], modules)


def _scalar(builder: Builder, name: str) -> Param:
    return Param(name, (), builder.dtype, "other", stored=False, only="Gemma 3n scalars as buffers", everywhere=True)


def _attention(site: Site, mixer: Attention, hidden: int, bias: bool, only: str) -> list[Module]:
    heads, kv, width = mixer.num_heads, mixer.num_kv_heads, mixer.head_dim
    parts = [
        Part("self_attn.q_proj", heads * width, heads),
        Part("self_attn.k_proj", kv * width, kv, only=only),
        Part("self_attn.v_proj", kv * width, kv, only=only),
    ]
    return [
        site.linear("self_attn.qkv_proj", parts, hidden, "column", "attention", bias=bias),
        site.row("self_attn.o_proj", hidden, heads * width, "attention", bias=bias),
        site.norm("self_attn.q_norm", width),
        replace(site.norm("self_attn.k_norm", width), only=only),
    ]


def _inner(text: Config, index: int) -> int:
    if not isinstance(text.get("intermediate_size"), list):
        return text.integer("intermediate_size")
    sizes = text.integers("intermediate_size")
    if index >= len(sizes) or sizes[index] < 1:
        raise ConfigError(f"{text.where}: intermediate_size does not name a size for each layer")
    return sizes[index]


def _root(builder: Builder, prefix: str) -> Block:
    text = builder.text
    hidden, ple = text.integer("hidden_size"), text.integer("hidden_size_per_layer_input")
    wide = ple * text.integer("num_hidden_layers")
    site = builder.site("")
    extra: list[Module] = [
        Vocab(
            f"{prefix}.embed_tokens_per_layer", text.integer("vocab_size_per_layer_input"), wide, builder.dtype, "embed"
        ),
        site.column(f"{prefix}.per_layer_model_projection", wide, hidden, "other"),
        Param(f"{prefix}.per_layer_projection_norm.weight", (ple,), builder.dtype, "norm"),
    ]
    scalars = ("embed_scale", "embed_scale_per_layer", "per_layer_input_scale", "per_layer_projection_scale")
    extra += [_scalar(builder, f"{prefix}.{n}") for n in scalars]
    for name in ("altup_projections", "altup_unembed_projections"):
        extra += [
            site.column(f"{prefix}.{name}.{i}", hidden, hidden, "other")
            for i in range(text.integer("altup_num_inputs", high=64) - 1)
        ]
    return builder.head(
        text.integer("vocab_size"),
        hidden,
        embed=f"{prefix}.embed_tokens",
        norm=f"{prefix}.norm.weight",
        tied=True,
        extra=extra,
        everywhere=True,
    )
