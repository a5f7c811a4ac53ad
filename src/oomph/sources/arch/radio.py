"""C-RADIO and what stands behind it: Nemotron Nano VL and Omni, Nemotron Parse.

vLLM: models/nano_nemotron_vl.py, radio.py, parakeet.py, nemotron_parse.py.
"""

from msgspec.structs import replace

from oomph.errors import UnknownCache
from oomph.ir import Attention, Modality, Module, Param, Tower, Vocab
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import norm
from oomph.sources.arch.nemotron_h import build as nemotron_h
from oomph.sources.arch.towers import TowerStyle, styled_tower
from oomph.sources.arch.whisper import decoder_layer
from oomph.sources.config import Config

_RADIO = TowerStyle(
    name="vision_model",
    alone="attention",
    rows="""
        patch_generator.pos_embed           tensor   1 L H
        patch_generator.embedder            whole!   H 3*P*P
        patch_generator.video_embedder      whole!   H 3*T*P*P   if tubes
        patch_generator.cls_token.token     tensor   C H
      each N
        blocks.0.ls1                        tensor   H
        blocks.0.ls2                        tensor   H
        blocks.0.attn.qkv                   qkv+     H A
        blocks.0.attn.proj                  row+     H H
        blocks.0.mlp.fc1                    column+  I H
        blocks.0.mlp.fc2                    row+     H I
        blocks.0.norm1                      norm+    H
        blocks.0.norm2                      norm+    H
    """,
)
# radio.py VIT_TIMM_DIM_BY_NAME: width, layers, heads, inner width
_RADIO_SIZES = {
    "vit_small_patch16_224": (384, 12, 6, 1536),
    "vit_base_patch16_224": (768, 12, 12, 3072),
    "vit_large_patch16_224": (1024, 24, 16, 4096),
    "vit_huge_patch16_224": (1280, 32, 16, 5120),
}


def _radio(builder: Builder, prefix: str, config: Config) -> Tower:
    own = config.sub("args")
    name = own.text("model", default="vit_huge_patch16_224")
    if name not in _RADIO_SIZES:
        raise UnknownCache(f"{config.where}: the encoder {name} is not known")
    width, count, heads, inner = _RADIO_SIZES[name]
    patch, longest = config.integer("patch_size", default=16), own.integer("cpe_max_size", default=2048)
    teachers = {str(t.get("name")) for t in own.items("teachers") if isinstance(t, dict)}
    tokens = len(teachers) if own.flag("cls_token_per_teacher") and teachers else 1
    multiple = own.integer("register_multiple", default=0, low=0)
    registers = multiple - tokens % multiple if multiple else 0
    tubes = config.integer("video_temporal_patch_size", default=1)
    apart = tubes > 1 and config.flag("separate_video_embedder", default=True)
    sizes = {
        "H": width, "N": count, "A": heads, "I": inner, "P": patch, "L": (round(longest / patch)) ** 2,
        "C": tokens + registers, "T": tubes, "tubes": int(apart),
    }  # fmt: skip
    tower = styled_tower(builder, _RADIO, prefix, config, sizes)
    used = sum(1 for t in own.items("teachers") if isinstance(t, dict) and t.get("use_summary", True))
    if not used:
        return tower
    indices = Param("summary_idxs", (used,), "I64", "multimodal", created_dtype="I64")
    return replace(tower, blocks=(*tower.blocks, (1, builder.block([indices]))))


_NANO_PROJECTOR = TowerStyle(
    name="mlp1",
    rows="""
        0    norm     E
        1    whole!   W E
        3    whole!   O W
    """,
)
_PARAKEET = TowerStyle(
    sizes=(
        ("H", "hidden_size=1024"), ("I", "intermediate_size=4096"), ("A", "num_attention_heads=8"),
        ("N", "num_hidden_layers=24"), ("K", "conv_kernel_size=9"), ("C", "subsampling_conv_channels=256"),
        ("B", "num_mel_bins=80"), ("W", "projection_hidden_size=4096"), ("Z", "projection_bias=0"),
    ),
    name="sound_encoder",
    modality="audio",
    rows="""
        encoder.subsampling.layers.0           conv+    C 1 3 3
        encoder.subsampling.layers.2           conv+    C 1 3 3
        encoder.subsampling.layers.3           conv+    C C 1 1
        encoder.subsampling.layers.5           conv+    C 1 3 3
        encoder.subsampling.layers.6           conv+    C C 1 1
        encoder.subsampling.linear             whole+!  H C*F
        encoder.encode_positions.inv_freq      buffer   G
      each N
        encoder.layers.0.feed_forward1.linear1 whole!   I H
        encoder.layers.0.feed_forward1.linear2 whole!   H I
        encoder.layers.0.self_attn.bias_u      tensor   A D
        encoder.layers.0.self_attn.bias_v      tensor   A D
        encoder.layers.0.self_attn.q_proj      whole!   H H
        encoder.layers.0.self_attn.k_proj      whole!   H H
        encoder.layers.0.self_attn.v_proj      whole!   H H
        encoder.layers.0.self_attn.o_proj      whole!   H H
        encoder.layers.0.self_attn.relative_k_proj  whole!  H H
        encoder.layers.0.conv.pointwise_conv1  conv+    2*H H 1
        encoder.layers.0.conv.depthwise_conv   conv+    H 1 K
        encoder.layers.0.conv.norm             norm+    H
        encoder.layers.0.conv.norm.running_mean  buffer  H
        encoder.layers.0.conv.norm.running_var   buffer  H
        encoder.layers.0.conv.norm.num_batches_tracked  positions
        encoder.layers.0.conv.pointwise_conv2  conv+    H H 1
        encoder.layers.0.feed_forward2.linear1 whole!   I H
        encoder.layers.0.feed_forward2.linear2 whole!   H I
        encoder.layers.0.norm_feed_forward1    norm+    H
        encoder.layers.0.norm_self_att         norm+    H
        encoder.layers.0.norm_conv             norm+    H
        encoder.layers.0.norm_feed_forward2    norm+    H
        encoder.layers.0.norm_out              norm+    H
      then
        projection.norm                        norm     H
        projection.linear1                     whole!?Z W H
        projection.linear2                     whole!?Z O W
    """,
)  # fmt: skip


def build_nemotron(builder: Builder) -> Skeleton:
    config, text = builder.config, builder.text
    hidden = text.integer("hidden_size")
    model = nemotron_h(builder, "language_model.")
    ratio = config.number("downsample_ratio", default=0.5)
    side = max(1, round(1 / ratio)) if ratio > 0 else 1
    wide = config.integer("vit_hidden_size", default=1280)
    vision = config.sub("vision_config")
    sizes = {"E": wide * side * side, "W": config.integer("projector_hidden_size", default=20480), "O": hidden}
    towers = [
        _radio(builder, "vision_model.radio_model.model", vision),
        styled_tower(builder, _NANO_PROJECTOR, "mlp1", vision, sizes),
    ]
    size = config.integer("force_image_size", default=512) // config.integer("patch_size", default=16)
    tile = int(size**2 * ratio**2)
    modalities = [Modality("image", tile * 13), Modality("video", tile * 13)]
    if config.has("sound_config"):
        sound = config.sub("sound_config")
        heads, inner = sound.integer("num_attention_heads", default=8), sound.integer("hidden_size", default=1024)
        own = {
            "D": inner // heads, "O": hidden, "G": inner // 2,
            "F": sound.integer("num_mel_bins", default=80) // sound.integer("subsampling_factor", default=8),
        }  # fmt: skip
        towers.append(styled_tower(builder, _PARAKEET, "sound_encoder", sound, own))
        modalities.append(Modality("audio", 375))
    return replace(model, towers=tuple(towers), modalities=tuple(modalities))


_NECK = TowerStyle(
    name="neck",
    rows="""
        conv1          conv+    1024 1280 1
        layer_norm1    norm+    1024
        conv2          conv     1024 1024 1 4
        layer_norm2    norm+    1024
        sum_proj       column+  1024 3840
        layer_norm3    norm+    1024
    """,
)


def build_parse(builder: Builder) -> Skeleton:
    """nemotron_parse.py: C-RADIO with a neck, then mBART's decoder without positions, which looks back at it."""
    config = builder.config
    text, vision = config.sub("decoder"), config.sub("encoder")
    width, heads = text.integer("d_model", default=1024), text.integer("decoder_attention_heads", default=16)
    inner, rows = text.integer("encoder_ffn_dim", default=4096), text.integer("vocab_size", default=52352)
    builder.text.fill(
        hidden_size=width,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        vocab_size=rows,
        intermediate_size=inner,
    )
    own = Attention("full", heads, heads, width // heads, width // heads)
    cross = replace(own, kind="cross")
    layers = tuple(
        site.layer([own, cross], decoder_layer(site, width, heads, inner))
        for site in builder.sites("decoder.layers", text.integer("decoder_layers", default=10, high=10_000))
    )
    tied = config.flag("tie_word_embeddings") or text.flag("tie_word_embeddings", default=True)  # MBartConfig
    root: list[Module] = [
        Vocab("decoder.embed_tokens", rows, width, builder.dtype, "embed"),
        *norm(builder.site(""), "decoder.layernorm_embedding", width, True),
        *norm(builder.site(""), "decoder.layer_norm", width, True),
        Vocab("lm_head", rows, width, builder.dtype, "lm_head", tied=tied, stored=not tied),
    ]
    height, wide = (config.integers("image_size") or [2048, 1648])[:2]
    patch = vision.integer("patch_size", default=16)
    tokens = (height // patch) * -(-(wide // patch) // 4) + 1
    return Skeleton(
        layers,
        builder.block(root),
        towers=(
            _radio(builder, "encoder.model_encoder.radio_model.model", vision),
            styled_tower(builder, _NECK, "encoder", vision),
        ),
        modalities=(Modality("image", tokens),),
        max_position=config.integer("max_sequence_length", default=9000),
        params=(("max_source_positions", tokens),),
    )
