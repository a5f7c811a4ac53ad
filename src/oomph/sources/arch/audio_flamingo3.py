"""Audio Flamingo 3: Qwen2-Audio's encoder, two linear layers, and a Qwen2. vLLM: models/audioflamingo3.py."""

from __future__ import annotations

from oomph.ir.model import Modality, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill, tied_outside
from oomph.sources.arch.llama import QWEN2
from oomph.sources.arch.qwen2_audio import whisper_encoder

_TOKENS = 20 * 750  # audioflamingo3.py:57 (0.32.0) MAX_AUDIO_LEN, ten minutes in pieces of 30 s


def build(builder: Builder) -> Skeleton:
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
    head = "language_model.lm_head"
    root = decoder_root(builder, QWEN2, "language_model.model", head)
    return Skeleton(
        decoder_layers(builder, QWEN2, "language_model.model"),
        tied_outside(builder, root, head, default=False),
        towers=(whisper_encoder(builder, audio), _projector(builder, audio.integer("d_model"))),
        modalities=(Modality("audio", _TOKENS),),
    )


def _projector(builder: Builder, dim: int) -> Tower:
    site, wide = builder.site("multi_modal_projector"), builder.text.integer("hidden_size")
    bias = builder.config.flag("projector_bias", default=True)
    linears = [
        site.replicated("linear_1", wide, dim, "multimodal", bias=bias, quantised=False),
        site.replicated("linear_2", wide, wide, "multimodal", bias=bias, quantised=False),
    ]
    return Tower("multi_modal_projector", "audio", site.prefix, ((1, builder.block(linears)),))
