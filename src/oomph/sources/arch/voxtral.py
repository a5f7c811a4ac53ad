"""Voxtral: Whisper's encoder, four frames to a token, in front of a Mistral language model. vLLM: models/voxtral.py."""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill
from oomph.sources.arch.llama import LLAMA
from oomph.sources.arch.whisper import whisper_encoder

_FRAMES = 4  # VoxtralEncoderConfig, downsample_factor


def build(builder: Builder) -> Skeleton:
    fill(builder, LLAMA)
    audio = builder.config.sub("audio_config")
    audio.fill(hidden_size=1280, intermediate_size=5120, num_hidden_layers=32, num_attention_heads=20)
    audio.fill(num_mel_bins=128, max_source_positions=1500)  # VoxtralEncoderConfig
    prefix = builder.root("language_model.model", "model.language_model")
    outer = "model." if prefix.startswith("model.") else ""
    width, text = audio.integer("hidden_size"), builder.text.integer("hidden_size")
    encoder = whisper_encoder(
        builder,
        f"{outer}audio_tower",
        width=width,
        heads=audio.integer("num_attention_heads"),
        inter=audio.integer("intermediate_size"),
        count=audio.integer("num_hidden_layers", high=10_000),
        mels=audio.integer("num_mel_bins"),
        positions=audio.integer("max_source_positions"),
    )
    site = builder.site(f"{outer}multi_modal_projector")
    adapter: list[Module] = [
        site.replicated("linear_1", text, _FRAMES * width, "multimodal", quantised=False),
        site.replicated("linear_2", text, text, "multimodal", quantised=False),
    ]
    projector = Tower("multi_modal_projector", "audio", site.prefix, ((1, builder.block(adapter)),))
    # voxtral.py:114 (0.21.0): audio may be as long as the context
    length = builder.text.integer("max_position_embeddings", default=32768)
    return Skeleton(
        decoder_layers(builder, LLAMA, prefix),
        decoder_root(builder, LLAMA, prefix, "lm_head" if outer else "language_model.lm_head"),
        towers=(encoder, projector),
        modalities=(Modality("audio", length),),
    )
