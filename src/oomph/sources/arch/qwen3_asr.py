"""Qwen3-ASR: Qwen3-Omni's audio encoder and a Qwen3. vLLM: models/qwen3_asr.py (0.32.0)."""

from __future__ import annotations

from oomph.ir.model import Modality
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill, tied_outside
from oomph.sources.arch.llama import QWEN3
from oomph.sources.arch.omni import AUDIO_TOKENS, audio_config, audio_encoder


def build(builder: Builder) -> Skeleton:
    fill(builder, QWEN3)
    outer = "thinker." if builder.config.has("thinker_config") else "model."
    head = f"{outer}lm_head"
    root = decoder_root(builder, QWEN3, f"{outer}model", head, tied=builder.text.flag("tie_word_embeddings"))
    return Skeleton(
        decoder_layers(builder, QWEN3, f"{outer}model"),
        tied_outside(builder, root, head),
        towers=(audio_encoder(builder, f"{outer}audio_tower", audio_config(builder)),),
        modalities=(Modality("audio", AUDIO_TOKENS),),
    )
