"""GLM-ASR: an encoder with rotary positions, two linear layers, and a Llama. vLLM: models/glmasr.py (0.32.0)."""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill, tied_outside
from oomph.sources.arch.llama import LLAMA
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config

_TOKENS = 375  # 30 s of sound: 3,000 frames, halved by a convolution, four of them in one token


def build(builder: Builder) -> Skeleton:
    fill(builder, LLAMA)
    audio = builder.config.sub("audio_config")
    audio.fill(hidden_size=1280, num_hidden_layers=32, num_attention_heads=20, intermediate_size=5120)
    audio.fill(num_mel_bins=128)
    head = "language_model.lm_head"
    root = decoder_root(builder, LLAMA, "language_model.model", head)
    return Skeleton(
        decoder_layers(builder, LLAMA, "language_model.model"),
        tied_outside(builder, root, head, default=False),
        towers=(_encoder(builder, audio), _projector(builder, audio)),
        modalities=(Modality("audio", _TOKENS),),
    )


def _encoder(builder: Builder, audio: Config) -> Tower:
    dim, inner, heads = (audio.integer(k) for k in ("hidden_size", "intermediate_size", "num_attention_heads"))
    kv = audio.integer("num_key_value_heads", default=heads)
    count, site, at = audio.integer("num_hidden_layers", high=10_000), builder.site("audio_tower"), "layers.0"
    sounds = audio.integer("num_mel_bins")
    first: list[Module] = [
        Param("conv1.weight", (dim, sounds, 3), builder.dtype, "multimodal"),
        Param("conv1.bias", (dim,), builder.dtype, "multimodal"),
        Param("conv2.weight", (dim, dim, 3), builder.dtype, "multimodal"),
        Param("conv2.bias", (dim,), builder.dtype, "multimodal"),
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
    blocks = (
        (1, builder.block(first)),
        (count, builder.block(layer)),
        (1, builder.block([*layer_norm(site, "norm", dim), turned])),
    )
    return Tower("audio_tower", "audio", site.prefix, blocks, count, dim, inner, heads)


def _projector(builder: Builder, audio: Config) -> Tower:
    site, wide = builder.site("multi_modal_projector"), builder.text.integer("hidden_size")
    linears: list[Module] = [
        site.column("linear_1", 2 * wide, audio.integer("intermediate_size"), "multimodal", bias=True),
        site.row("linear_2", wide, 2 * wide, "multimodal", bias=True),
    ]
    return Tower("multi_modal_projector", "audio", site.prefix, ((1, builder.block(linears)),))
