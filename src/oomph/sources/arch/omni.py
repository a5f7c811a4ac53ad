"""Qwen3-Omni: vLLM serves its thinker, a Qwen3-MoE with vision and audio encoders.

vLLM: models/qwen3_omni_moe_thinker.py.

Behind it: Qwen3-ASR, Qwen2.5-Omni.
"""

from oomph.ir import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill, tied_outside
from oomph.sources.arch.llama import QWEN2, QWEN3
from oomph.sources.arch.moe import QWEN3_MOE, qwen_moe_mlp
from oomph.sources.arch.qwen_vision import MergerNames, qwen2_5_vision, qwen3_vision
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


def build(builder: Builder) -> Skeleton:
    fill(builder, QWEN3_MOE)
    tower = thinker_of(builder).sub("vision_config")
    tower.fill(deepstack_visual_indexes=[8, 16, 24])
    vision, modalities = qwen3_vision(builder, "thinker.visual", tower, _NAMES)
    levels = len(tower.items("deepstack_visual_indexes"))
    return Skeleton(
        decoder_layers(builder, QWEN3_MOE, "thinker.model", qwen_moe_mlp(builder, QWEN3_MOE)),
        decoder_root(
            builder, QWEN3_MOE, "thinker.model", "thinker.lm_head", tied=builder.text.flag("tie_word_embeddings")
        ),
        towers=(audio_encoder(builder, "thinker.audio_tower", audio_config(builder)), vision),
        modalities=(*modalities, Modality("audio", AUDIO_TOKENS)),
        params=(("deepstack_levels", levels),) if levels else (),
        warnings=("the checkpoint's talker and vocoder are not counted: vLLM loads the thinker",),
    )


# the feature extractor's chunk_length of 300 s: 100 mel frames a second, 13 tokens for each 100 frames
AUDIO_TOKENS = 3900


def thinker_of(builder: Builder) -> Config:
    return builder.config.sub("thinker_config") if builder.config.has("thinker_config") else builder.config


def audio_config(builder: Builder) -> Config:
    audio = thinker_of(builder).sub("audio_config")
    audio.fill(**_AUDIO)
    return audio


def audio_encoder(builder: Builder, prefix: str, audio: Config) -> Tower:
    """Not quantised: the class passes no quant_config to it."""
    dim, inner, heads = (
        audio.integer("d_model"),
        audio.integer("encoder_ffn_dim"),
        audio.integer("encoder_attention_heads"),
    )
    count = audio.integer("encoder_layers", high=10_000)
    site = builder.site(prefix)
    at = "layers.0"
    parts = [(f"{at}.self_attn.{q}_proj", dim, heads) for q in "qkv"]
    layer: list[Module] = [
        site.linear(f"{at}.self_attn.qkv", parts, dim, "column", "multimodal", bias=True, quantised=False),
        site.row(f"{at}.self_attn.out_proj", dim, dim, "multimodal", bias=True, quantised=False),
        *layer_norm(site, f"{at}.self_attn_layer_norm", dim),
        site.column(f"{at}.fc1", inner, dim, "multimodal", bias=True, quantised=False),
        site.row(f"{at}.fc2", dim, inner, "multimodal", bias=True, quantised=False),
        *layer_norm(site, f"{at}.final_layer_norm", dim),
    ]
    last: list[Module] = [
        *layer_norm(site, "ln_post", dim),
        site.replicated("proj1", dim, dim, "multimodal", bias=True, quantised=False),
        site.replicated("proj2", audio.integer("output_dim"), dim, "multimodal", bias=True, quantised=False),
    ]
    blocks = [(1, _front(site, audio, dim)), (count, layer), (1, last)]
    return site.tower("audio_tower", "audio", blocks, count, dim, inner, heads, alone="tower")


def _front(site: Site, audio: Config, dim: int) -> list[Module]:
    """Positions as a float32 buffer; three convolutions that halve the spectrogram each."""
    wide, bins = audio.integer("downsample_hidden_size"), audio.integer("num_mel_bins")
    positions = (audio.integer("max_source_positions"), dim)
    return [
        Param("positional_embedding", positions, "F32", "multimodal", stored=False, created_dtype="F32"),
        *site.convolution("conv2d1", wide, 1, 3, 3),
        *site.convolution("conv2d2", wide, wide, 3, 3),
        *site.convolution("conv2d3", wide, wide, 3, 3),
        site.tensor("conv_out.weight", dim, wide * -(-bins // 8)),
    ]


# Qwen3-ASR: Qwen3-Omni's audio encoder and a Qwen3. vLLM: models/qwen3_asr.py (0.32.0).


def build_asr(builder: Builder) -> Skeleton:
    fill(builder, QWEN3)
    outer = "thinker." if builder.config.has("thinker_config") else "model."
    head = f"{outer}lm_head"
    root = decoder_root(builder, QWEN3, f"{outer}model", head, tied=builder.text.flag("tie_word_embeddings"))
    aligns = builder.architecture == "Qwen3ASRForcedAlignerForTokenClassification"
    if aligns:  # qwen3_asr_forced_aligner.py: a label per token in the head's place
        shape = (thinker_of(builder).integer("classify_num"), builder.text.integer("hidden_size"))
        body = [module for module in root.modules if module.role != "lm_head"]
        root = builder.block([*body, Param(f"{outer}lm_head.weight", shape, builder.dtype, "lm_head")])
    elif not builder.config.has("thinker_config"):
        root = tied_outside(builder, root, head)
    return Skeleton(
        decoder_layers(builder, QWEN3, f"{outer}model"),
        root,
        towers=(audio_encoder(builder, f"{outer}audio_tower", audio_config(builder)),),
        modalities=(Modality("audio", AUDIO_TOKENS),),
        pooling=aligns,
    )


# Qwen2.5-Omni: vLLM serves its thinker, a Qwen2 with Qwen2.5-VL's vision encoder and transformers' audio encoder.
#
# vLLM: models/qwen2_5_omni_thinker.py (0.32.0).

_AUDIO_TOKENS = 7500  # 300 s of sound: 100 frames a second, halved by a convolution and by a pooling


def build_qwen2_5(builder: Builder) -> Skeleton:
    fill(builder, QWEN2)
    thinker = builder.config.sub("thinker_config") if builder.config.has("thinker_config") else builder.config
    audio = thinker.sub("audio_config")
    audio.fill(  # Qwen2_5OmniAudioEncoderConfig
        d_model=1280, encoder_layers=32, encoder_attention_heads=20, encoder_ffn_dim=5120, output_dim=3584,
        num_mel_bins=128, max_source_positions=1500,
    )  # fmt: skip
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

    positions = (audio.integer("max_source_positions"), dim)
    first: list[Module] = [
        site.tensor("conv1.weight", dim, audio.integer("num_mel_bins"), 3),
        site.tensor("conv1.bias", dim),
        site.tensor("conv2.weight", dim, dim, 3),
        site.tensor("conv2.bias", dim),
        Param("positional_embedding", positions, "F32", "multimodal", stored=False, created_dtype="F32"),
        site.tensor("audio_bos_eos_token.weight", 2, out),
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
    return site.tower("audio_tower", "audio", [(1, first), (count, layer), (1, last)], count, dim, inner, heads)
