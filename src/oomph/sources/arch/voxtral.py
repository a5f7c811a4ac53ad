"""Voxtral: Whisper's encoder, four frames to a token, in front of a Mistral language model. vLLM: models/voxtral.py."""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill
from oomph.sources.arch.llama import LLAMA
from oomph.sources.arch.whisper import whisper_encoder

_FRAMES = 4  # VoxtralEncoderConfig, downsample_factor


def build(b: Builder) -> Skeleton:
    fill(b, LLAMA)
    a = b.config.sub("audio_config")
    a.fill(hidden_size=1280, intermediate_size=5120, num_hidden_layers=32, num_attention_heads=20)
    a.fill(num_mel_bins=128, max_source_positions=1500)  # VoxtralEncoderConfig
    prefix = b.root("language_model.model", "model.language_model")
    outer = "model." if prefix.startswith("model.") else ""
    width, text = a.integer("hidden_size"), b.text.integer("hidden_size")
    encoder = whisper_encoder(
        b,
        f"{outer}audio_tower",
        width=width,
        heads=a.integer("num_attention_heads"),
        inter=a.integer("intermediate_size"),
        count=a.integer("num_hidden_layers", high=10_000),
        mels=a.integer("num_mel_bins"),
        positions=a.integer("max_source_positions"),
    )
    s = b.site(f"{outer}multi_modal_projector")
    adapter: list[Module] = [
        s.replicated("linear_1", text, _FRAMES * width, "multimodal", quantised=False),
        s.replicated("linear_2", text, text, "multimodal", quantised=False),
    ]
    projector = Tower("multi_modal_projector", "audio", s.prefix, ((1, b.block(adapter)),))
    # voxtral.py:114 (0.21.0): audio may be as long as the context
    length = b.text.integer("max_position_embeddings", default=32768)
    return Skeleton(
        decoder_layers(b, LLAMA, prefix),
        decoder_root(b, LLAMA, prefix, "lm_head" if outer else "language_model.lm_head"),
        towers=(encoder, projector),
        modalities=(Modality("audio", length),),
    )
