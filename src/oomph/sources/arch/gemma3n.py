"""Gemma 3n: four parallel streams (AltUp), low-rank side paths (Laurel), per-layer embeddings, shared caches.

vLLM: models/gemma3n.py, gemma3n_mm.py.

Behind it: its encoders.
"""

from typing import Literal

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Attention, Block, Layer, Modality, Module, Param, Part, Tower, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.gemma import layer_rope, layer_types
from oomph.sources.config import Config

SHARED = "kv of layers that share a cache"


def build(builder: Builder) -> Skeleton:
    text = builder.text
    # Gemma3nTextConfig
    text.fill(
        vocab_size=262400, hidden_size=2048, intermediate_size=16384, num_hidden_layers=35, num_attention_heads=8,
        num_key_value_heads=2, head_dim=256, max_position_embeddings=32768, sliding_window=512, rope_theta=1e6,
        rope_local_base_freq=1e4, vocab_size_per_layer_input=262144, hidden_size_per_layer_input=256,
        altup_num_inputs=4, num_kv_shared_layers=15, laurel_rank=64,
    )  # fmt: skip
    wrapped = builder.architecture == "Gemma3nForConditionalGeneration"
    prefix = builder.root("model.language_model", "language_model.model") if wrapped else "model"
    types = layer_types(text, 5)
    mixers = _mixers(text, types)
    first = _first_shared(text, types)
    places = builder.sites(f"{prefix}.layers", len(mixers))
    layers = tuple(_layer(site, mixer, shares=site.index >= first) for site, mixer in zip(places, mixers))
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


def _layer(site: Site, mixer: Attention, *, shares: bool) -> Layer:
    builder, text = site.b, site.b.text
    hidden, streams = text.integer("hidden_size"), text.integer("altup_num_inputs")
    ple, rank = text.integer("hidden_size_per_layer_input"), text.integer("laurel_rank")
    modules: list[Module] = [
        # created without a dtype before the model's default is set (gemma3n.py:124)
        Param("altup.correct_output_scale", (hidden,), builder.dtype, "other", created_dtype="F32"),
        site.replicated("altup.correction_coefs", streams, streams, "other"),
        site.replicated("altup.prediction_coefs", streams * streams, streams, "other"),
        site.replicated("altup.modality_router", streams, hidden, "other"),
        site.norm("altup.router_norm", hidden),
        _scalar(builder, "altup.router_input_scale"),
        *_attention(site, mixer, hidden, text.flag("attention_bias"), SHARED if shares else ""),
        *site.gated_mlp(hidden, _inner(text, site.index)),
        site.column("laurel.linear_left", rank, hidden, "other"),
        site.row("laurel.linear_right", hidden, rank, "other"),
        site.norm("laurel.post_laurel_norm", hidden),
        site.replicated("per_layer_input_gate", ple, hidden, "other"),
        site.replicated("per_layer_projection", hidden, ple, "other"),
        *(
            site.norm(f"{n}_layernorm", hidden)
            for n in ("input", "post_attention", "pre_feedforward", "post_feedforward")
        ),
        site.norm("post_per_layer_input_norm", hidden),
    ]
    return site.layer([mixer], modules)


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


_SCALARS = ("embed_scale", "embed_scale_per_layer", "per_layer_input_scale", "per_layer_projection_scale")


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
        *(_scalar(builder, f"{prefix}.{n}") for n in _SCALARS),
        *(
            site.column(f"{prefix}.{name}.{i}", hidden, hidden, "other")
            for name in ("altup_projections", "altup_unembed_projections")
            for i in range(text.integer("altup_num_inputs", high=64) - 1)
        ),
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


# Gemma 3n's encoders: transformers' own classes inside vLLM, so every rank holds all of them.

# timm's mobilenetv5_300m_enc. Convolutions: (outputs, inputs per group, kernel side, how many); then norms and scales.
_CONVOLUTIONS = (
    *((64, 3, 3, 1), (256, 64, 3, 1), (128, 256, 1, 1), (512, 128, 3, 2), (128, 512, 1, 2), (128, 1, 3, 1)),
    *((768, 128, 1, 1), (768, 1, 5, 1), (256, 768, 1, 1), (256, 1, 5, 3), (1024, 256, 1, 4), (256, 1024, 1, 4)),
    *((256, 1, 3, 2), (1536, 256, 1, 1), (1536, 1, 5, 1), (640, 1536, 1, 1), (640, 1, 5, 8), (2560, 640, 1, 7)),
    *((640, 2560, 1, 7), (640, 640, 1, 2), (768, 640, 1, 14), (640, 1, 3, 28), (64, 640, 1, 28), (640, 768, 1, 14)),
    *((1280, 640, 1, 14), (640, 1280, 1, 14), (3840, 640, 1, 1), (3840, 1, 5, 1), (1280, 3840, 1, 1)),
    *((1536, 1280, 1, 19), (96, 1280, 1, 38), (1280, 1536, 1, 19), (2560, 1280, 1, 19), (1280, 2560, 1, 19)),
    *((3840, 1920, 1, 1), (2048, 3840, 1, 1)),
)
_VECTORS = (
    *((64, 2), (256, 16), (128, 4), (512, 2), (768, 2), (1024, 4), (1536, 2), (640, 111), (2560, 26), (1280, 92)),
    *((3840, 3), (2048, 2)),
)


def vision_tower(builder: Builder, prefix: str) -> Tower:
    site = builder.site(prefix)
    blocks = [
        *(
            (times, [site.tensor(f"timm_model.conv_{n}x{k}x{side}.weight", n, k, side, side)])
            for n, k, side, times in _CONVOLUTIONS
        ),
        *((times, [site.tensor(f"timm_model.norm_{n}.weight", n)]) for n, times in _VECTORS),
    ]
    return site.tower("vision_tower", "vision", blocks, layers=84, hidden=2048)


def embedder(
    builder: Builder, prefix: str, modality: Literal["vision", "audio"], config: Config, hidden: int, width: int
) -> Tower:
    """gemma3n_mm.py Gemma3nMultimodalEmbedder."""
    width, site = config.integer("hidden_size", default=width), builder.site(prefix)
    modules: list[Module] = [
        Vocab("embedding", config.integer("vocab_size", default=128), width, builder.dtype, "multimodal"),
        site.tensor("hard_embedding_norm.weight", width),
        site.tensor("soft_embedding_norm.weight", width),
        site.row("embedding_projection", hidden, width, "multimodal", quantised=False),
    ]
    return site.tower(prefix.removeprefix("model."), modality, [(1, modules)])


def audio_tower(builder: Builder, prefix: str, audio: Config) -> Tower:
    audio.fill(hidden_size=1536, conf_num_attention_heads=8, conf_num_hidden_layers=12, conf_conv_kernel_size=5)
    hidden, heads = audio.integer("hidden_size"), audio.integer("conf_num_attention_heads")
    count, kernel = audio.integer("conf_num_hidden_layers", high=10_000), audio.integer("conf_conv_kernel_size")
    sub, site = "subsample_conv_projection.", builder.site(prefix)
    first: list[Module] = [
        site.tensor(f"{sub}conv_0.conv.weight", 128, 1, 3, 3),
        site.tensor(f"{sub}conv_0.norm.weight", 128),
        site.tensor(f"{sub}conv_1.conv.weight", 32, 128, 3, 3),
        site.tensor(f"{sub}conv_1.norm.weight", 32),
        # 128 mel bins, halved twice by the convolutions
        site.tensor(f"{sub}input_proj_linear.weight", hidden, 32 * 32),
    ]
    layer = _conformer(site, hidden, heads, kernel, audio)
    return site.tower("audio_tower", "audio", [(1, first), (count, layer)], count, hidden, 4 * hidden, heads)


def _feed_forward(site: Site, at: str, hidden: int) -> list[Module]:
    return [
        site.tensor(f"{at}.pre_layer_norm.weight", hidden),
        site.tensor(f"{at}.ffw_layer_1.weight", 4 * hidden, hidden),
        site.tensor(f"{at}.ffw_layer_2.weight", hidden, 4 * hidden),
        site.tensor(f"{at}.post_layer_norm.weight", hidden),
    ]


def _conformer(site: Site, hidden: int, heads: int, kernel: int, audio: Config) -> list[Module]:
    at = "conformer.0."
    squares = ("attn.relative_position_embedding.pos_proj", "attn.q_proj", "attn.k_proj", "attn.v_proj", "post")
    return [
        *_feed_forward(site, f"{at}ffw_layer_start", hidden),
        *_feed_forward(site, f"{at}ffw_layer_end", hidden),
        site.tensor(f"{at}attention.pre_attn_norm.weight", hidden),
        site.tensor(f"{at}attention.attn.per_dim_scale", hidden // heads),
        *[site.tensor(f"{at}attention.{n}.weight", hidden, hidden) for n in squares],
        site.tensor(f"{at}attention.post_norm.weight", hidden),
        site.tensor(f"{at}lconv1d.pre_layer_norm.weight", hidden),
        site.tensor(f"{at}lconv1d.linear_start.weight", 2 * hidden, hidden),
        site.tensor(f"{at}lconv1d.depthwise_conv1d.weight", hidden, 1, kernel),
        site.tensor(f"{at}lconv1d.conv_norm.weight", hidden),
        site.tensor(f"{at}lconv1d.linear_end.weight", hidden, hidden),
        site.tensor(f"{at}norm.weight", hidden),
        *_conformer_buffers(site.b, hidden, at, audio),
    ]


def _conformer_buffers(builder: Builder, hidden: int, at: str, audio: Config) -> list[Module]:
    """modeling_gemma3n.py: register_buffer, not in the checkpoint"""
    chunk = audio.integer("conf_attention_chunk_size", default=12)
    context = chunk + audio.integer("conf_attention_context_left", default=13) - 1
    context += audio.integer("conf_attention_context_right", default=0, low=0)
    clips = ("", "ffw_layer_start.", "ffw_layer_end.", "attention.", "lconv1d.")
    modules: list[Module] = [
        Param(f"{at}{n}gradient_clipping", (), builder.dtype, "multimodal", stored=False) for n in clips
    ]
    attn = f"{at}attention.attn."
    return [
        *modules,
        Param(f"{attn}q_scale", (), builder.dtype, "multimodal", stored=False),
        Param(f"{attn}local_causal_valid_mask", (chunk, context), "U8", "multimodal", stored=False, created_dtype="U8"),
        Param(f"{attn}softcap", (), "F32", "multimodal", stored=False, created_dtype="F32"),
        Param(
            f"{attn}relative_position_embedding.inv_timescales",
            (1, 1, hidden // 2),
            "F32",
            "multimodal",
            stored=False,
            created_dtype="F32",
        ),
    ]
