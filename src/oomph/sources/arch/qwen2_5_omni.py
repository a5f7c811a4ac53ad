"""Qwen2.5-Omni: vLLM serves its thinker, a Qwen2 with Qwen2.5-VL's vision encoder and transformers' audio encoder.

vLLM: models/qwen2_5_omni_thinker.py (0.32.0).
"""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill
from oomph.sources.arch.llama import QWEN2
from oomph.sources.arch.qwen_vision import qwen2_5_vision
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config

_AUDIO_TOKENS = 7500  # 300 s of sound: 100 frames a second, halved by a convolution and by a pooling


def build(builder: Builder) -> Skeleton:
    fill(builder, QWEN2)
    thinker = builder.config.sub("thinker_config") if builder.config.has("thinker_config") else builder.config
    audio = thinker.sub("audio_config")
    audio.fill(d_model=1280, encoder_layers=32, encoder_attention_heads=20, encoder_ffn_dim=5120, output_dim=3584)
    audio.fill(num_mel_bins=128, max_source_positions=1500)  # Qwen2_5OmniAudioEncoderConfig
    vision, modalities = qwen2_5_vision(builder, "thinker.visual", thinker.sub("vision_config"))
    tied = builder.text.flag("tie_word_embeddings")
    return Skeleton(
        decoder_layers(builder, QWEN2, "thinker.model"),
        decoder_root(builder, QWEN2, "thinker.model", "thinker.lm_head", tied=tied),
        towers=(_audio(builder, audio), vision),
        modalities=(*modalities, Modality("audio", _AUDIO_TOKENS)),
        warnings=("the checkpoint's talker and vocoder are not counted: vLLM loads the thinker",),
    )


def _audio(builder: Builder, audio: Config) -> Tower:
    """Whole on every rank, and never quantised."""
    dim, inner, out = audio.integer("d_model"), audio.integer("encoder_ffn_dim"), audio.integer("output_dim")
    heads, count = audio.integer("encoder_attention_heads"), audio.integer("encoder_layers", high=10_000)
    site, at = builder.site("thinker.audio_tower"), "layers.0"

    def param(name: str, *shape: int) -> Param:
        return Param(name, shape, builder.dtype, "multimodal")

    positions = (audio.integer("max_source_positions"), dim)
    first: list[Module] = [
        param("conv1.weight", dim, audio.integer("num_mel_bins"), 3),
        param("conv1.bias", dim),
        param("conv2.weight", dim, dim, 3),
        param("conv2.bias", dim),
        Param("positional_embedding", positions, "F32", "multimodal", stored=False, created_dtype="F32"),
        param("audio_bos_eos_token.weight", 2, out),
    ]
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
    last: list[Module] = [
        *layer_norm(site, "ln_post", dim),
        site.replicated("proj", out, dim, "multimodal", bias=True, quantised=False),
    ]
    blocks = ((1, builder.block(first)), (count, builder.block(layer)), (1, builder.block(last)))
    return Tower("audio_tower", "audio", site.prefix, blocks, count, dim, inner, heads)
