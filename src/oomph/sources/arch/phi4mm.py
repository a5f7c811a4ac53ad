"""Phi-4 multimodal and MOSS-Audio. vLLM: models/phi4mm.py, phi4mm_audio.py, moss_audio.py."""

from oomph.ir import Modality
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import Names, Style, decoder_layers, decoder_root, fill
from oomph.sources.arch.llama import LLAMA, QWEN3
from oomph.sources.arch.towers import TowerStyle, styled_tower

# --- MOSS-Audio: three convolutions, Whisper's layers, gated adapters, a Qwen3 ---------------------------------------

_MOSS = TowerStyle(
    sizes=(
        ("H", "d_model|hidden_size"), ("I", "encoder_ffn_dim|intermediate_size"),
        ("A", "encoder_attention_heads|num_attention_heads"), ("N", "encoder_layers|num_hidden_layers"),
    ),
    name="audio_encoder",
    modality="audio",
    rows="""
        conv1                            conv+    480 1 3 3
        conv2                            conv+    480 480 3 3
        conv3                            conv+    480 480 3 3
        stem_proj                        whole+!  H 480*F
        embed_positions.inv_timescales   float32  G
      each N
        layers.0.self_attn.q_proj        column+! H H
        layers.0.self_attn.k_proj        column!  H H
        layers.0.self_attn.v_proj        column+! H H
        layers.0.self_attn.out_proj      row+!    H H
        layers.0.self_attn_layer_norm    norm+    H
        layers.0.fc1                     column+! I H
        layers.0.fc2                     row+!    H I
        layers.0.final_layer_norm        norm+    H
      then
        layer_norm                       norm+    H
    """,
)  # fmt: skip
_MOSS_ADAPTERS = TowerStyle(
    name="audio_adapter",
    modality="audio",
    rows="""
      each K
        gate_proj,up_proj    pair!    W H
        down_proj            row!     O W
    """,
)


def build_moss_audio(builder: Builder) -> Skeleton:
    config, audio = builder.config, builder.config.sub("audio_config")
    fill(builder, QWEN3)
    wide = audio.integer("d_model", "hidden_size")
    # moss_audio.py: an eighth of the mel bins is left behind the convolutions
    bins = 1 if not audio.has("stem_bins") else audio.integer("stem_bins")
    levels = len(audio.items("deepstack_encoder_layer_indexes"))
    out, middle = builder.text.integer("hidden_size"), config.integer("adapter_hidden_size")
    sizes = {"K": 1 + levels, "W": middle, "H": wide, "O": out}
    prefix = "language_model.model"
    return Skeleton(
        decoder_layers(builder, QWEN3, prefix),
        decoder_root(builder, QWEN3, prefix, "language_model.lm_head", tied=builder.text.flag("tie_word_embeddings")),
        towers=(
            styled_tower(builder, _MOSS, "audio_encoder", audio, {"F": bins, "G": wide // 2}),
            styled_tower(builder, _MOSS_ADAPTERS, "audio_adapter", audio, sizes),
        ),
        modalities=(Modality("audio", 3000 // 8),),
    )


# --- Phi-4 multimodal: SigLIP and a Conformer of fixed kinds before a Phi-3 ------------------------------------------

_PHI = Style(names=Names(packed_qkv="qkv_proj", packed_gate_up="gate_up_proj"), defaults=LLAMA.defaults)
_NAVIT = TowerStyle(
    name="vision_encoder",
    rows="""
        glb_GN                                        tensor   1 1 H
        sub_GN                                        tensor   1 1 1 H
        img_processor.embeddings.patch_embedding      conv+    H 3 14 14
        img_processor.embeddings.position_embedding.weight  tensor  1024 H
      each N
        img_processor.encoder.layers.0.self_attn           heads+   H A
        img_processor.encoder.layers.0.self_attn.out_proj  row+     H H
        img_processor.encoder.layers.0.layer_norm1         norm+    H
        img_processor.encoder.layers.0.mlp.fc1             column+  I H
        img_processor.encoder.layers.0.mlp.fc2             row+     H I
        img_processor.encoder.layers.0.layer_norm2         norm+    H
      then
        img_projection.0                              whole+!  O H
        img_projection.2                              whole+!  O O
    """,
)
_CASCADES = TowerStyle(
    sizes=(
        ("H", "attention_dim=1024"), ("A", "attention_heads=16"), ("I", "linear_units=1536"), ("N", "num_blocks=24"),
        ("B", "input_size=80"), ("K", "kernel_size=3"), ("X", "ext_pw_out_channel=1024"),
    ),
    name="audio_embed",
    modality="audio",
    rows="""
        encoder.embed.out                   whole+!  H C*M
        encoder.embed.conv.0                conv+    C 1 3 3
        encoder.embed.conv.2                conv+    C 1 3 3
        encoder.embed.conv.3                conv+    C C 1 1
        encoder.embed.conv.5                conv+    C 1 3 3
        encoder.embed.conv.6                conv+    C C 1 1
        encoder.relative_attention_bias_layer.bias_values.weight  tensor  2*T A
        encoder.encoder_embedding.global_mean     tensor  B
        encoder.encoder_embedding.global_invstd   tensor  B
        encoder.dev_type                    buffer
      each N
        encoder.encoders.0.feed_forward_in.layer_norm      norm+    H
        encoder.encoders.0.feed_forward_in.net.0.linear    whole+!  2*I H
        encoder.encoders.0.feed_forward_in.net.2           whole+!  H I
        encoder.encoders.0.self_attn.linear_q              whole+!  H H
        encoder.encoders.0.self_attn.linear_k              whole+!  H H
        encoder.encoders.0.self_attn.linear_v              whole+!  H H
        encoder.encoders.0.self_attn.linear_out            whole+!  H H
        encoder.encoders.0.conv.layer_norm                 norm+    H
        encoder.encoders.0.conv.glu.b1                     tensor   1 X 1
        encoder.encoders.0.conv.glu.b2                     tensor   1 X 1
        encoder.encoders.0.conv.glu.ext_pw_conv_1d         conv+    2*X H 1
        encoder.encoders.0.conv.ext_pw_conv_1d             conv+    X H 1
        encoder.encoders.0.conv.dw_sep_conv_1d.dw_conv     conv+    H 1 K
        encoder.encoders.0.conv.dw_sep_conv_1d.pw_conv     conv+    H H 1
        encoder.encoders.0.feed_forward_out.layer_norm     norm+    H
        encoder.encoders.0.feed_forward_out.net.0.linear   whole+!  2*I H
        encoder.encoders.0.feed_forward_out.net.2          whole+!  H I
        encoder.encoders.0.layer_norm_att                  norm+    H
        encoder.encoders.0.layer_norm                      norm+    H
      then
        audio_projection.speech.0    whole+!  O H
        audio_projection.speech.2    whole+!  O O
        audio_projection.vision.0    whole+!  O H
        audio_projection.vision.2    whole+!  O O
    """,
)  # fmt: skip


def build_phi4mm(builder: Builder) -> Skeleton:
    config, hidden = builder.config, builder.text.integer("hidden_size")
    audio = config.sub("audio_processor").sub("config")
    width = audio.integer("attention_dim", default=1024)
    channels = audio.sub("nemo_conv_settings").integer("conv_channels", default=width)
    reduction = audio.integer("time_reduction", default=8)
    sizes = {
        "C": channels, "M": -(-audio.integer("input_size", default=80) // reduction), "O": hidden,
        "T": audio.sub("relative_attention_bias_args").integer("t5_bias_max_distance", default=500),
    }  # fmt: skip
    depth = config.sub("img_processor").integer("layer_idx", default=-2, low=-27) if config.has("img_processor") else -2
    count = 27 + depth + 1 if depth < 0 else depth + 1
    numbers = {"H": 1152, "I": 4304, "A": 16, "N": count, "O": hidden}
    fill(builder, _PHI)
    return Skeleton(
        decoder_layers(builder, _PHI),
        decoder_root(builder, _PHI),
        towers=(
            styled_tower(builder, _NAVIT, "model.embed_tokens_extend.image_embed", config, numbers),
            styled_tower(builder, _CASCADES, "model.embed_tokens_extend.audio_embed", audio, sizes),
        ),
        modalities=(Modality("image", 256 * 37 + 600), Modality("audio", 375 * 20)),
    )
