"""Models that listen, as tables: an audio encoder, a projector, and a language model that has a family.

vLLM: models/ultravox.py, moss_transcribe_diarize.py, kimi_audio.py, minicpmo.py, funaudiochat.py, midashenglm.py,
funasr.py, fireredasr2.py, conformer_encoder.py.
"""

from msgspec.structs import replace

from oomph.ir import Modality, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill, tied_outside
from oomph.sources.arch.llama import QWEN2, QWEN3
from oomph.sources.arch.minicpm import build_vision
from oomph.sources.arch.text import text_model
from oomph.sources.arch.towers import TowerStyle, styled_tower
from oomph.sources.arch.whisper import whisper_encoder
from oomph.sources.config import Config

_SECONDS_30 = 1500  # positions of Whisper's encoder


def whisper(builder: Builder, prefix: str, audio: Config, **sizes: int) -> Tower:
    """WhisperConfig's defaults, or the model's own."""
    audio.fill(
        d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536, num_mel_bins=80,
        max_source_positions=_SECONDS_30,
    )  # fmt: skip
    audio.fill(**sizes)
    return whisper_encoder(
        builder,
        prefix,
        width=audio.integer("d_model"),
        heads=audio.integer("encoder_attention_heads"),
        inter=audio.integer("encoder_ffn_dim"),
        count=audio.integer("encoder_layers", high=10_000),
        mels=audio.integer("num_mel_bins"),
        positions=audio.integer("max_source_positions"),
    )


# --- Ultravox --------------------------------------------------------------------------------------------------------

_STACKED = TowerStyle(
    name="multi_modal_projector",
    modality="audio",
    rows="""
        ln_pre      norm     E
        linear_1    whole    W E
        linear_2    whole    O M
        ln_mid      norm     M    if mid
        ln_post     norm     O    if post
    """,
)


def build_ultravox(builder: Builder) -> Skeleton:
    """A projector of layers (num_projector_layers) is no public checkpoint's: it is refused by its missing keys."""
    config, audio = builder.config, builder.config.sub("audio_config")
    config.fill(stack_factor=8, hidden_size=4096, projector_act="swiglu", projector_ln_mid=False)
    tower = whisper(builder, "audio_tower", audio)
    wide = config.integer("hidden_size")
    half = wide // 2 if config.text("projector_act") == "swiglu" else wide
    middle = int(config.flag("projector_ln_mid"))
    stack = config.integer("stack_factor")
    sizes = {
        "E": audio.integer("d_model") * stack, "W": wide, "M": half, "O": builder.text.integer("hidden_size"),
        "mid": middle, "post": 1 - middle,
    }  # fmt: skip
    layers, root = text_model(builder, "language_model.model", "language_model.lm_head")
    return Skeleton(
        layers,
        root,
        towers=(tower, styled_tower(builder, _STACKED, "multi_modal_projector", audio, sizes)),
        modalities=(Modality("audio", -(-_SECONDS_30 // stack)),),
    )


# --- MOSS-Transcribe-Diarize and Kimi-Audio: Whisper, two linear layers and a norm ---------------------------------

_ADAPTOR = TowerStyle(
    name="vq_adaptor",
    modality="audio",
    rows="""
        layers.0    whole+!  O E
        layers.3    whole+!  O O
        layers.4    norm+    O
    """,
)


def build_moss(builder: Builder) -> Skeleton:
    config, audio = builder.config, builder.config.sub("audio_config")
    fill(builder, QWEN3)
    tower = whisper(builder, "model.whisper_encoder", audio)
    merge = config.integer("audio_merge_size", default=4)
    wide = config.integer("adaptor_input_dim", default=merge * audio.integer("d_model"))
    sizes = {"E": wide, "O": builder.text.integer("hidden_size")}
    head, prefix = "lm_head", "model.language_model"
    root = tied_outside(builder, decoder_root(builder, QWEN3, prefix, head), head)
    return Skeleton(
        decoder_layers(builder, QWEN3, prefix),
        root,
        towers=(tower, styled_tower(builder, _ADAPTOR, "model.vq_adaptor", audio, sizes)),
        modalities=(Modality("audio", _SECONDS_30 // merge),),
    )


def build_kimi(builder: Builder) -> Skeleton:
    """kimi_audio.py reads Whisper's sizes from a folder of its own; Whisper large v3's stand here."""
    fill(builder, QWEN2)
    audio = Config({}, f"{builder.config.where}, whisper-large-v3")
    own = {"d_model": 1280, "encoder_layers": 32, "encoder_attention_heads": 20, "encoder_ffn_dim": 5120}
    tower = whisper(builder, "audio_tower", audio, num_mel_bins=128, **own)
    wide = builder.config.integer("kimia_adaptor_input_dim", default=5120)
    sizes = {"E": wide, "O": builder.text.integer("hidden_size")}
    return Skeleton(
        decoder_layers(builder, QWEN2),
        decoder_root(builder, QWEN2),
        towers=(tower, styled_tower(builder, _ADAPTOR, "model.vq_adaptor", audio, sizes)),
        modalities=(Modality("audio", _SECONDS_30 // 4),),
    )


# --- transformers' Whisper, whole on every rank: MiniCPM-o ------------------------------------------------------------

_PLAIN_WHISPER = TowerStyle(
    sizes=(
        ("H", "d_model=1024"), ("I", "encoder_ffn_dim=4096"), ("A", "encoder_attention_heads=16"),
        ("N", "encoder_layers=24"), ("B", "num_mel_bins=80"), ("L", "max_source_positions=1500"),
    ),
    name="apm",
    modality="audio",
    rows="""
        conv1                       conv+    H B 3
        conv2                       conv+    H H 3
        embed_positions.weight      tensor   L H
      each N
        layers.0.self_attn.k_proj   whole!   H H
        layers.0.self_attn.v_proj   whole+!  H H
        layers.0.self_attn.q_proj   whole+!  H H
        layers.0.self_attn.out_proj whole+!  H H
        layers.0.self_attn_layer_norm   norm+    H
        layers.0.fc1                whole+!  I H
        layers.0.fc2                whole+!  H I
        layers.0.final_layer_norm   norm+    H
      then
        layer_norm                  norm+    H
    """,
)  # fmt: skip
_TWO = TowerStyle(
    name="audio_projection_layer",
    modality="audio",
    rows="""
        linear1    whole+!  O E
        linear2    whole+!  O O
    """,
)


def build_minicpmo(builder: Builder) -> Skeleton:
    config, audio = builder.config, builder.config.sub("audio_config")
    config.fill(version="2.6")
    model = build_vision(builder)
    sizes = {"E": audio.integer("encoder_ffn_dim", default=4096) // 4, "O": builder.text.integer("hidden_size")}
    step = config.integer("audio_pool_step", default=2)
    heard = (
        styled_tower(builder, _TWO, "audio_projection_layer", audio, sizes),
        styled_tower(builder, _PLAIN_WHISPER, "apm", audio),
    )
    return replace(
        model,
        towers=(*model.towers, *heard),
        modalities=(*model.modalities, Modality("audio", _SECONDS_30 // step)),
    )


# --- Fun-Audio-Chat --------------------------------------------------------------------------------------------------

_FUN_AUDIO = TowerStyle(
    sizes=(
        ("H", "d_model=1280"), ("I", "encoder_ffn_dim=5120"), ("A", "encoder_attention_heads=20"),
        ("N", "encoder_layers=32"), ("B", "num_mel_bins=128"), ("L", "max_source_positions=1500"),
        ("O", "output_dim=3584"), ("C", "codebook_size=6565"),
    ),
    name="continuous_audio_tower",
    modality="audio",
    rows="""
        continuous_audio_tower.conv1       conv+    H B 3
        continuous_audio_tower.conv2       conv+    H H 3
        continuous_audio_tower.positional_embedding  float32  L H
      each N
        continuous_audio_tower.layers.0.self_attn            heads+!  H A
        continuous_audio_tower.layers.0.self_attn.out_proj   row+!    H H
        continuous_audio_tower.layers.0.self_attn_layer_norm norm+    H
        continuous_audio_tower.layers.0.fc1                  whole+!  I H
        continuous_audio_tower.layers.0.fc2                  whole+!  H I
        continuous_audio_tower.layers.0.final_layer_norm     norm+    H
      then
        continuous_audio_tower.ln_post     norm+    H
        continuous_audio_tower.proj        whole+!  O H
        continuous_audio_tower.audio_bos_eos_token.weight  tensor  2 O
        audio_tower.embed_tokens.weight    tensor   C O
        audio_tower.output_matching        whole!   O O
        audio_tower.continual_output_matching  whole!  O O
    """,
)  # fmt: skip


def build_fun_audio(builder: Builder) -> Skeleton:
    fill(builder, QWEN3)
    head, prefix = "language_model.lm_head", "language_model.model"
    return Skeleton(
        decoder_layers(builder, QWEN3, prefix),
        decoder_root(builder, QWEN3, prefix, head, tied=builder.text.flag("tie_word_embeddings")),
        towers=(styled_tower(builder, _FUN_AUDIO, "", builder.config.sub("audio_config")),),
        modalities=(Modality("audio", 7500),),  # 300 s, 25 tokens a second
    )


# --- MiDashengLM -----------------------------------------------------------------------------------------------------

_DASHENG = TowerStyle(
    sizes=(
        ("H", "embed_dim=768"), ("A", "num_heads=12"), ("N", "depth=12"), ("B", "n_mels=64"), ("C", "input_channels=1"),
        ("T", "target_length=1012"), ("W", "win_length=512"), ("F", "n_fft=512"), ("Q", "qkv_bias=1"),
    ),
    name="audio_encoder",
    modality="audio",
    rows="""
        audio_encoder.front_end.spectrogram_window  buffer   W
        audio_encoder.front_end.melscale_fbanks     buffer   bins B
        audio_encoder.init_bn              norm+    B
        audio_encoder.init_bn.running_mean buffer   B
        audio_encoder.init_bn.running_var  buffer   B
        audio_encoder.init_bn.num_batches_tracked  positions
        audio_encoder.patch_embed.proj     conv+    H C P0 P1
        audio_encoder.time_pos_embed       tensor   1 H 1 G1
        audio_encoder.freq_pos_embed       tensor   1 H G0 1
      each N
        audio_encoder.blocks.0.norm1       norm+    H
        audio_encoder.blocks.0.attn.qkv    qkv?Q    H A
        audio_encoder.blocks.0.attn.proj   row+     H H
        audio_encoder.blocks.0.ls1.gamma   tensor   H   if scale
        audio_encoder.blocks.0.norm2       norm+    H
        audio_encoder.blocks.0.mlp.fc1     column+  I H
        audio_encoder.blocks.0.mlp.fc2     row+     H I
        audio_encoder.blocks.0.ls2.gamma   tensor   H   if scale
      then
        audio_encoder.norm                 norm+    H
        audio_projector.net.0              column+  O K*H
        audio_projector.net.2              row+     O O
    """,
)  # fmt: skip


def build_dasheng(builder: Builder) -> Skeleton:
    audio = builder.config.sub("audio_encoder_config")
    fill(builder, QWEN2)

    def both(key: str, default: int) -> list[int]:
        value = audio.integers(key) if isinstance(audio.get(key), list) else [audio.integer(key, default=default)] * 2
        return value if len(value) == 2 and min(value) > 0 else [default, default]

    patch, stride = both("patch_size", 16), both("patch_stride", 16)
    mels, length = audio.integer("n_mels", default=64), audio.integer("target_length", default=1012)
    factor = builder.config.integer("subsample_factor", default=5)
    sizes = {
        "bins": audio.integer("n_fft", default=512) // 2 + 1, "P0": patch[0], "P1": patch[1],
        "G0": mels // stride[0], "G1": length // stride[1], "scale": int(audio.get("init_values") is not None),
        "I": int(audio.integer("embed_dim", default=768) * audio.number("mlp_ratio", default=4.0)),
        "K": factor, "O": builder.text.integer("hidden_size"),
    }  # fmt: skip
    return Skeleton(
        decoder_layers(builder, QWEN2, "decoder.model"),
        decoder_root(builder, QWEN2, "decoder.model", "decoder.lm_head"),
        towers=(styled_tower(builder, _DASHENG, "", audio, sizes),),
        modalities=(Modality("audio", 30 * 25),),
    )


# --- Fun-ASR: SenseVoice's encoder, two transformer layers, a Qwen3 ---------------------------------------------------

_SENSE = TowerStyle(
    sizes=(
        ("H", "output_size=512"), ("A", "attention_heads=4"), ("I", "linear_units=2048"), ("B", "num_blocks=50"),
        ("T", "tp_blocks=20"), ("K", "kernel_size=11"),
    ),
    name="audio_encoder",
    modality="audio",
    rows="""
        audio_encoder.encoders0.0.norm1                    norm+    560
        audio_encoder.encoders0.0.norm2                    norm+    H
        audio_encoder.encoders0.0.self_attn.linear_out     whole+!  H H
        audio_encoder.encoders0.0.self_attn.linear_q_k_v   whole+!  3*H 560
        audio_encoder.encoders0.0.self_attn.fsmn_block     conv     H 1 K
        audio_encoder.encoders0.0.feed_forward.w_1         column+! I H
        audio_encoder.encoders0.0.feed_forward.w_2         row+!    H I
      each N
        audio_encoder.encoders.0.norm1                     norm+    H
        audio_encoder.encoders.0.norm2                     norm+    H
        audio_encoder.encoders.0.self_attn.linear_out      whole+!  H H
        audio_encoder.encoders.0.self_attn.linear_q_k_v    whole+!  3*H H
        audio_encoder.encoders.0.self_attn.fsmn_block      conv     H 1 K
        audio_encoder.encoders.0.feed_forward.w_1          column+! I H
        audio_encoder.encoders.0.feed_forward.w_2          row+!    H I
      then
        audio_encoder.after_norm                           norm+    H
        audio_encoder.tp_norm                              norm+    H
        audio_adaptor.linear1                              column+! 2048 512
        audio_adaptor.linear2                              row+!    1024 2048
      each 2
        audio_adaptor.blocks.0.norm1                       norm+    1024
        audio_adaptor.blocks.0.norm2                       norm+    1024
        audio_adaptor.blocks.0.self_attn                   heads+!  1024 8
        audio_adaptor.blocks.0.self_attn.out_proj          row+!    1024 1024
        audio_adaptor.blocks.0.feed_forward.w_1            column+! 256 1024
        audio_adaptor.blocks.0.feed_forward.w_2            row+!    1024 256
    """,
)  # fmt: skip


def build_fun_asr(builder: Builder) -> Skeleton:
    audio = builder.config.sub("audio_encoder_conf")
    fill(builder, QWEN3)
    count = audio.integer("num_blocks", default=50) - 1 + audio.integer("tp_blocks", default=20, low=0)
    return Skeleton(
        decoder_layers(builder, QWEN3, "model.decoder"),
        decoder_root(builder, QWEN3, "model.decoder", "lm_head"),
        towers=(styled_tower(builder, _SENSE, "model.encoder", audio, {"N": count}),),
        modalities=(Modality("audio", 3000 // 6),),
    )


# --- FireRedASR 2: a Conformer, two linear layers, a Qwen2 ------------------------------------------------------------

_CONFORMER = TowerStyle(
    sizes=(("H", "d_model=1280"), ("A", "n_head=20"), ("N", "n_layers_enc=16"), ("K", "kernel_size=33")),
    name="audio_encoder",
    modality="audio",
    rows="""
        encoder.audio_encoder.input_preprocessor.conv.0   conv+    32 1 3 3
        encoder.audio_encoder.input_preprocessor.conv.2   conv+    32 32 3 3
        encoder.audio_encoder.input_preprocessor.out      whole+!  H 32*S
        encoder.audio_encoder.positional_encoding.pe      buffer   1 R H
      each N
        encoder.audio_encoder.layer_stack.0.ffn1.net.0    norm+    H
        encoder.audio_encoder.layer_stack.0.ffn1.net.1    whole+!  4*H H
        encoder.audio_encoder.layer_stack.0.ffn1.net.4    whole+!  H 4*H
        encoder.audio_encoder.layer_stack.0.mhsa.w_qs     whole!   H H
        encoder.audio_encoder.layer_stack.0.mhsa.w_ks     whole!   H H
        encoder.audio_encoder.layer_stack.0.mhsa.w_vs     whole!   H H
        encoder.audio_encoder.layer_stack.0.mhsa.layer_norm_q  norm+  H
        encoder.audio_encoder.layer_stack.0.mhsa.layer_norm_k  norm+  H
        encoder.audio_encoder.layer_stack.0.mhsa.layer_norm_v  norm+  H
        encoder.audio_encoder.layer_stack.0.mhsa.fc       whole!   H H
        encoder.audio_encoder.layer_stack.0.mhsa.linear_pos    whole!  H H
        encoder.audio_encoder.layer_stack.0.mhsa.pos_bias_u    tensor  A D
        encoder.audio_encoder.layer_stack.0.mhsa.pos_bias_v    tensor  A D
        encoder.audio_encoder.layer_stack.0.conv.pre_layer_norm   norm+  H
        encoder.audio_encoder.layer_stack.0.conv.pointwise_conv1  conv   4*H H 1
        encoder.audio_encoder.layer_stack.0.conv.depthwise_conv   conv   2*H 1 K
        encoder.audio_encoder.layer_stack.0.conv.batch_norm       norm+  2*H
        encoder.audio_encoder.layer_stack.0.conv.pointwise_conv2  conv   H 2*H 1
        encoder.audio_encoder.layer_stack.0.ffn2.net.0    norm+    H
        encoder.audio_encoder.layer_stack.0.ffn2.net.1    whole+!  4*H H
        encoder.audio_encoder.layer_stack.0.ffn2.net.4    whole+!  H 4*H
        encoder.audio_encoder.layer_stack.0.layer_norm    norm+    H
      then
        encoder_projector.linear1     whole+!  O F*H
        encoder_projector.linear2     whole+!  O O
    """,
)  # fmt: skip


def build_firered(builder: Builder) -> Skeleton:
    audio = builder.config.sub("audio_encoder_conf")
    fill(builder, QWEN2)
    heads, wide = audio.integer("n_head", default=20), audio.integer("d_model", default=1280)
    bins = audio.integer("idim", default=80)
    sizes = {
        "D": wide // heads, "S": ((bins - 1) // 2 - 1) // 2, "R": 2 * audio.integer("pe_maxlen", default=5000) - 1,
        "F": builder.config.integer("encoder_downsample_rate", default=2), "O": builder.text.integer("hidden_size"),
    }  # fmt: skip
    return Skeleton(
        decoder_layers(builder, QWEN2, "model.decoder.model"),
        decoder_root(builder, QWEN2, "model.decoder.model", "model.decoder.lm_head"),
        towers=(styled_tower(builder, _CONFORMER, "model", audio, sizes),),
        modalities=(Modality("audio", 3000 // 8),),
    )
