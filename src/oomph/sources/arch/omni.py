"""Qwen3-Omni: vLLM serves its thinker, a Qwen3-MoE with vision and audio encoders.

vLLM: models/qwen3_omni_moe_thinker.py.
"""

from __future__ import annotations

from oomph.ir.model import Block, Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill
from oomph.sources.arch.moe import QWEN3_MOE, qwen_moe_mlp
from oomph.sources.arch.qwen_vision import MergerNames, qwen3_vision
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config

_AUDIO = {
    "num_mel_bins": 128,
    "encoder_layers": 32,
    "encoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "d_model": 1280,
    "max_source_positions": 1500,
    "output_dim": 3584,
    "downsample_hidden_size": 480,
}
_NAMES = MergerNames("ln_q", "mlp.0", "mlp.2", "merger_list")


def build(b: Builder) -> Skeleton:
    fill(b, QWEN3_MOE)
    thinker = b.config.sub("thinker_config") if b.config.has("thinker_config") else b.config
    v, a = thinker.sub("vision_config"), thinker.sub("audio_config")
    a.fill(**_AUDIO)
    v.fill(deepstack_visual_indexes=[8, 16, 24])
    vision, modalities = qwen3_vision(b, "thinker.visual", v, _NAMES)
    levels = len(v.items("deepstack_visual_indexes"))
    return Skeleton(
        decoder_layers(b, QWEN3_MOE, "thinker.model", qwen_moe_mlp(b, QWEN3_MOE)),
        decoder_root(b, QWEN3_MOE, "thinker.model", "thinker.lm_head", tied=b.text.flag("tie_word_embeddings")),
        towers=(_audio(b, a), vision),
        modalities=(*modalities, Modality("audio", _AUDIO_TOKENS)),
        params=(("deepstack_levels", levels),) if levels else (),
        warnings=("the checkpoint's talker and vocoder are not counted: vLLM loads the thinker",),
    )


# the feature extractor's chunk_length of 300 s: 100 mel frames a second, 13 tokens for each 100 frames
_AUDIO_TOKENS = 3900


def _audio(b: Builder, a: Config) -> Tower:
    """Not quantised: the class passes no quant_config to it."""
    dim, inner, heads = a.integer("d_model"), a.integer("encoder_ffn_dim"), a.integer("encoder_attention_heads")
    count = a.integer("encoder_layers", high=10_000)
    s = b.site("thinker.audio_tower")
    at = "layers.0"
    parts = [(f"{at}.self_attn.{q}_proj", dim, heads) for q in "qkv"]
    layer: list[Module] = [
        s.linear(f"{at}.self_attn.qkv", parts, dim, "column", "multimodal", bias=True, quantised=False),
        s.row(f"{at}.self_attn.out_proj", dim, dim, "multimodal", bias=True, quantised=False),
        *layer_norm(s, f"{at}.self_attn_layer_norm", dim),
        s.column(f"{at}.fc1", inner, dim, "multimodal", bias=True, quantised=False),
        s.row(f"{at}.fc2", dim, inner, "multimodal", bias=True, quantised=False),
        *layer_norm(s, f"{at}.final_layer_norm", dim),
    ]
    last: list[Module] = [
        *layer_norm(s, "ln_post", dim),
        s.replicated("proj1", dim, dim, "multimodal", bias=True, quantised=False),
        s.replicated("proj2", a.integer("output_dim"), dim, "multimodal", bias=True, quantised=False),
    ]
    blocks = ((1, _front(b, a, dim)), (count, b.block(layer)), (1, b.block(last)))
    return Tower("audio_tower", "audio", s.prefix, blocks, count, dim, inner, heads)


def _front(b: Builder, a: Config, dim: int) -> Block:
    """Positions as a float32 buffer; three convolutions that halve the spectrogram each."""
    wide, bins = a.integer("downsample_hidden_size"), a.integer("num_mel_bins")
    positions = (a.integer("max_source_positions"), dim)
    table = Param("positional_embedding", positions, "F32", "multimodal", stored=False, created_dtype="F32")
    modules: list[Module] = [table]
    for i in (1, 2, 3):
        modules.append(Param(f"conv2d{i}.weight", (wide, 1 if i == 1 else wide, 3, 3), b.dtype, "multimodal"))
        modules.append(Param(f"conv2d{i}.bias", (wide,), b.dtype, "multimodal"))
        bins = (bins + 1) // 2
    return b.block([*modules, Param("conv_out.weight", (dim, wide * bins), b.dtype, "multimodal")])
