"""Qwen2-Audio: transformers' own Whisper-like encoder, one linear layer, and a Qwen2. vLLM: models/qwen2_audio.py."""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill, tied_outside
from oomph.sources.arch.llama import QWEN2
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config

_TOKENS = 750  # 30 s of sound: 3,000 frames, halved by the convolution and by the pooling


def build(b: Builder) -> Skeleton:
    fill(b, QWEN2)
    b.text.fill(hidden_size=4096, intermediate_size=22016, num_hidden_layers=32, num_attention_heads=32)  # Qwen2Config
    b.text.fill(vocab_size=151936, num_key_value_heads=32)
    a = b.config.sub("audio_config")
    a.fill(d_model=1280, encoder_layers=32, encoder_attention_heads=20, encoder_ffn_dim=5120)
    a.fill(num_mel_bins=128, max_source_positions=1500)  # Qwen2AudioEncoderConfig
    head = "language_model.lm_head"
    root = decoder_root(b, QWEN2, "language_model.model", head)
    return Skeleton(
        decoder_layers(b, QWEN2, "language_model.model"),
        tied_outside(b, root, head, default=False),
        towers=(_encoder(b, a), _projector(b, a)),
        modalities=(Modality("audio", _TOKENS),),
    )


def _encoder(b: Builder, a: Config) -> Tower:
    """Whole on every rank, and never quantised."""
    dim, inner, heads = a.integer("d_model"), a.integer("encoder_ffn_dim"), a.integer("encoder_attention_heads")
    count, s = a.integer("encoder_layers", high=10_000), b.site("audio_tower")

    def param(name: str, *shape: int) -> Param:
        return Param(name, shape, b.dtype, "multimodal")

    first: list[Module] = [
        param("conv1.weight", dim, a.integer("num_mel_bins"), 3),
        param("conv1.bias", dim),
        param("conv2.weight", dim, dim, 3),
        param("conv2.bias", dim),
        param("embed_positions.weight", a.integer("max_source_positions"), dim),
    ]
    at = "layers.0"
    layer: list[Module] = [
        *(
            s.replicated(f"{at}.self_attn.{n}", dim, dim, "multimodal", bias=n != "k_proj", quantised=False)
            for n in ("k_proj", "v_proj", "q_proj", "out_proj")
        ),
        *layer_norm(s, f"{at}.self_attn_layer_norm", dim),
        s.replicated(f"{at}.fc1", inner, dim, "multimodal", bias=True, quantised=False),
        s.replicated(f"{at}.fc2", dim, inner, "multimodal", bias=True, quantised=False),
        *layer_norm(s, f"{at}.final_layer_norm", dim),
    ]
    blocks = ((1, b.block(first)), (count, b.block(layer)), (1, b.block(layer_norm(s, "layer_norm", dim))))
    return Tower("audio_tower", "audio", s.prefix, blocks, count, dim, inner, heads)


def _projector(b: Builder, a: Config) -> Tower:
    s = b.site("multi_modal_projector")
    wide = b.text.integer("hidden_size")
    linear = s.replicated("linear", wide, a.integer("d_model"), "multimodal", bias=True, quantised=False)
    return Tower("multi_modal_projector", "audio", s.prefix, ((1, b.block([linear])),))
