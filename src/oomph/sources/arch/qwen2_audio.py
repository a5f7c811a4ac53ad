"""Qwen2-Audio: transformers' own Whisper-like encoder, one linear layer, and a Qwen2. vLLM: models/qwen2_audio.py.

Behind it: Audio Flamingo 3, GLM-ASR.
"""

from oomph.ir import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import Style, decoder_layers, decoder_root, fill, tied_outside
from oomph.sources.arch.llama import LLAMA, QWEN2
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config

_TOKENS = 750  # 30 s of sound: 3,000 frames, halved by the convolution and by the pooling


def build(builder: Builder) -> Skeleton:
    fill(builder, QWEN2)
    builder.text.fill(  # Qwen2Config
        hidden_size=4096, intermediate_size=22016, num_hidden_layers=32, num_attention_heads=32, vocab_size=151936,
        num_key_value_heads=32,
    )  # fmt: skip
    audio = builder.config.sub("audio_config")
    audio.fill(  # Qwen2AudioEncoderConfig
        d_model=1280, encoder_layers=32, encoder_attention_heads=20, encoder_ffn_dim=5120, num_mel_bins=128,
        max_source_positions=1500,
    )  # fmt: skip
    return _behind(builder, QWEN2, (whisper_encoder(builder, audio), _projector(builder, audio)), _TOKENS)


def _behind(builder: Builder, style: Style, towers: tuple[Tower, ...], tokens: int) -> Skeleton:
    """A decoder behind the towers of an audio encoder."""
    head = "language_model.lm_head"
    root = decoder_root(builder, style, "language_model.model", head)
    return Skeleton(
        decoder_layers(builder, style, "language_model.model"),
        tied_outside(builder, root, head, default=False),
        towers=towers,
        modalities=(Modality("audio", tokens),),
    )


def whisper_encoder(builder: Builder, audio: Config) -> Tower:
    """Whole on every rank, and never quantised."""
    dim, inner, heads = (
        audio.integer("d_model"),
        audio.integer("encoder_ffn_dim"),
        audio.integer("encoder_attention_heads"),
    )
    count, site = audio.integer("encoder_layers", high=10_000), builder.site("audio_tower")

    first: list[Module] = [
        site.tensor("conv1.weight", dim, audio.integer("num_mel_bins"), 3),
        site.tensor("conv1.bias", dim),
        site.tensor("conv2.weight", dim, dim, 3),
        site.tensor("conv2.bias", dim),
        site.tensor("embed_positions.weight", audio.integer("max_source_positions"), dim),
    ]
    at = "layers.0"
    layer: list[Module] = [
        *(
            site.replicated(f"{at}.self_attn.{n}", dim, dim, "multimodal", bias=n != "k_proj", quantised=False)
            for n in ("k_proj", "v_proj", "q_proj", "out_proj")
        ),
        *layer_norm(site, f"{at}.self_attn_layer_norm", dim),
        site.replicated(f"{at}.fc1", inner, dim, "multimodal", bias=True, quantised=False),
        site.replicated(f"{at}.fc2", dim, inner, "multimodal", bias=True, quantised=False),
        *layer_norm(site, f"{at}.final_layer_norm", dim),
    ]
    return site.tower(
        "audio_tower",
        "audio",
        [(1, first), (count, layer), (1, layer_norm(site, "layer_norm", dim))],
        count,
        dim,
        inner,
        heads,
    )


def _projector(builder: Builder, audio: Config) -> Tower:
    site = builder.site("multi_modal_projector")
    wide = builder.text.integer("hidden_size")
    linear = site.replicated("linear", wide, audio.integer("d_model"), "multimodal", bias=True, quantised=False)
    return site.tower("multi_modal_projector", "audio", [(1, [linear])])


# Audio Flamingo 3: Qwen2-Audio's encoder, two linear layers, and a Qwen2. vLLM: models/audioflamingo3.py.

_FLAMINGO_TOKENS = 20 * 750  # audioflamingo3.py:57 (0.32.0) MAX_AUDIO_LEN, ten minutes in pieces of 30 s


def build_flamingo(builder: Builder) -> Skeleton:
    fill(builder, QWEN2)
    audio = builder.config.sub("audio_config")
    audio.fill(hidden_size=1280, num_hidden_layers=32, num_attention_heads=20, intermediate_size=5120)
    audio.fill(
        d_model=audio.integer("hidden_size"),
        encoder_layers=audio.integer("num_hidden_layers", high=10_000),
        encoder_attention_heads=audio.integer("num_attention_heads"),
        encoder_ffn_dim=audio.integer("intermediate_size"),
        num_mel_bins=128,
        max_source_positions=1500,
    )
    towers = (whisper_encoder(builder, audio), _flamingo_projector(builder, audio.integer("d_model")))
    return _behind(builder, QWEN2, towers, _FLAMINGO_TOKENS)


def _flamingo_projector(builder: Builder, dim: int) -> Tower:
    site, wide = builder.site("multi_modal_projector"), builder.text.integer("hidden_size")
    bias = builder.config.flag("projector_bias", default=True)
    linears = [
        site.replicated("linear_1", wide, dim, "multimodal", bias=bias, quantised=False),
        site.replicated("linear_2", wide, wide, "multimodal", bias=bias, quantised=False),
    ]
    return site.tower("multi_modal_projector", "audio", [(1, linears)])


# GLM-ASR: an encoder with rotary positions, two linear layers, and a Llama. vLLM: models/glmasr.py (0.32.0).

_GLMASR_TOKENS = 375  # 30 s of sound: 3,000 frames, halved by a convolution, four of them in one token


def build_glmasr(builder: Builder) -> Skeleton:
    fill(builder, LLAMA)
    audio = builder.config.sub("audio_config")
    audio.fill(
        hidden_size=1280, num_hidden_layers=32, num_attention_heads=20, intermediate_size=5120, num_mel_bins=128,
    )  # fmt: skip
    return _behind(builder, LLAMA, (_encoder(builder, audio), _glmasr_projector(builder, audio)), _GLMASR_TOKENS)


def _encoder(builder: Builder, audio: Config) -> Tower:
    dim, inner, heads = (audio.integer(k) for k in ("hidden_size", "intermediate_size", "num_attention_heads"))
    kv = audio.integer("num_key_value_heads", default=heads)
    count, site, at = audio.integer("num_hidden_layers", high=10_000), builder.site("audio_tower"), "layers.0"
    sounds = audio.integer("num_mel_bins")
    first: list[Module] = [
        site.tensor("conv1.weight", dim, sounds, 3),
        site.tensor("conv1.bias", dim),
        site.tensor("conv2.weight", dim, dim, 3),
        site.tensor("conv2.bias", dim),
    ]
    layer: list[Module] = [
        site.qkv(dim, heads, kv, dim // heads, at=f"{at}.self_attn", bias=True, role="multimodal"),
        site.row(f"{at}.self_attn.o_proj", dim, dim, "multimodal", bias=True),
        site.column(f"{at}.mlp.fc1", inner, dim, "multimodal", bias=True),
        site.row(f"{at}.mlp.fc2", dim, inner, "multimodal", bias=True),
        *layer_norm(site, f"{at}.input_layernorm", dim),
        *layer_norm(site, f"{at}.post_attention_layernorm", dim),
    ]
    # GlmAsrEncoderRotaryEmbedding.inv_freq: half of each head is turned
    turned = Param("rotary_emb.inv_freq", (dim // heads // 4,), "F32", "multimodal", stored=False, created_dtype="F32")
    return site.tower(
        "audio_tower",
        "audio",
        [(1, first), (count, layer), (1, [*layer_norm(site, "norm", dim), turned])],
        count,
        dim,
        inner,
        heads,
    )


def _glmasr_projector(builder: Builder, audio: Config) -> Tower:
    site, wide = builder.site("multi_modal_projector"), builder.text.integer("hidden_size")
    linears: list[Module] = [
        site.column("linear_1", 2 * wide, audio.integer("intermediate_size"), "multimodal", bias=True),
        site.row("linear_2", wide, 2 * wide, "multimodal", bias=True),
    ]
    return site.tower("multi_modal_projector", "audio", [(1, linears)])
