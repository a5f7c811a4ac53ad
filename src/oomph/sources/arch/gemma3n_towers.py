"""Gemma 3n's encoders: transformers' own classes inside vLLM, so every rank holds all of them."""

from __future__ import annotations

from typing import Literal

from oomph.ir.model import Module, Param, Tower, Vocab
from oomph.sources.arch.base import Builder
from oomph.sources.config import Config

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
    blocks = [
        (times, builder.block([_param(builder, f"timm_model.conv_{n}x{k}x{side}.weight", n, k, side, side)]))
        for n, k, side, times in _CONVOLUTIONS
    ]
    blocks += [(times, builder.block([_param(builder, f"timm_model.norm_{n}.weight", n)])) for n, times in _VECTORS]
    return Tower("vision_tower", "vision", prefix, tuple(blocks), layers=84, hidden=2048)


def embedder(
    builder: Builder, prefix: str, modality: Literal["vision", "audio"], config: Config, hidden: int, width: int
) -> Tower:
    """gemma3n_mm.py Gemma3nMultimodalEmbedder."""
    width, site = config.integer("hidden_size", default=width), builder.site(prefix)
    modules: list[Module] = [
        Vocab("embedding", config.integer("vocab_size", default=128), width, builder.dtype, "multimodal"),
        _param(builder, "hard_embedding_norm.weight", width),
        _param(builder, "soft_embedding_norm.weight", width),
        site.row("embedding_projection", hidden, width, "multimodal", quantised=False),
    ]
    return Tower(prefix.removeprefix("model."), modality, prefix, ((1, builder.block(modules)),))


def audio_tower(builder: Builder, prefix: str, audio: Config) -> Tower:
    audio.fill(hidden_size=1536, conf_num_attention_heads=8, conf_num_hidden_layers=12, conf_conv_kernel_size=5)
    hidden, heads = audio.integer("hidden_size"), audio.integer("conf_num_attention_heads")
    count, kernel = audio.integer("conf_num_hidden_layers", high=10_000), audio.integer("conf_conv_kernel_size")
    sub = "subsample_conv_projection."
    first: list[Module] = [
        _param(builder, f"{sub}conv_0.conv.weight", 128, 1, 3, 3),
        _param(builder, f"{sub}conv_0.norm.weight", 128),
        _param(builder, f"{sub}conv_1.conv.weight", 32, 128, 3, 3),
        _param(builder, f"{sub}conv_1.norm.weight", 32),
        # 128 mel bins, halved twice by the convolutions
        _param(builder, f"{sub}input_proj_linear.weight", hidden, 32 * 32),
    ]
    layer = _conformer(builder, hidden, heads, kernel, audio)
    blocks = ((1, builder.block(first)), (count, builder.block(layer)))
    return Tower("audio_tower", "audio", prefix, blocks, count, hidden, 4 * hidden, heads)


def _conformer(builder: Builder, hidden: int, heads: int, kernel: int, audio: Config) -> list[Module]:
    at = "conformer.0."
    modules: list[Module] = []
    for n in ("ffw_layer_start", "ffw_layer_end"):
        modules += [
            _param(builder, f"{at}{n}.pre_layer_norm.weight", hidden),
            _param(builder, f"{at}{n}.ffw_layer_1.weight", 4 * hidden, hidden),
            _param(builder, f"{at}{n}.ffw_layer_2.weight", hidden, 4 * hidden),
            _param(builder, f"{at}{n}.post_layer_norm.weight", hidden),
        ]
    squares = ("attn.relative_position_embedding.pos_proj", "attn.q_proj", "attn.k_proj", "attn.v_proj", "post")
    modules += [
        _param(builder, f"{at}attention.pre_attn_norm.weight", hidden),
        _param(builder, f"{at}attention.attn.per_dim_scale", hidden // heads),
        *[_param(builder, f"{at}attention.{n}.weight", hidden, hidden) for n in squares],
        _param(builder, f"{at}attention.post_norm.weight", hidden),
        _param(builder, f"{at}lconv1d.pre_layer_norm.weight", hidden),
        _param(builder, f"{at}lconv1d.linear_start.weight", 2 * hidden, hidden),
        _param(builder, f"{at}lconv1d.depthwise_conv1d.weight", hidden, 1, kernel),
        _param(builder, f"{at}lconv1d.conv_norm.weight", hidden),
        _param(builder, f"{at}lconv1d.linear_end.weight", hidden, hidden),
        _param(builder, f"{at}norm.weight", hidden),
    ]
    return modules + _conformer_buffers(builder, hidden, at, audio)


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


def _param(builder: Builder, name: str, *shape: int) -> Param:
    return Param(name, shape, builder.dtype, "multimodal")
