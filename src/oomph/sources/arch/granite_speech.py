"""Granite Speech: a conformer, BLIP-2's query transformer and a Granite. vLLM: models/granite_speech.py."""

from __future__ import annotations

from oomph.ir.model import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.blip2 import query_transformer
from oomph.sources.arch.decoder import tied_outside
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.arch.text import text_model
from oomph.sources.config import Config

_TOKENS = 5001  # granite_speech.py get_max_audio_tokens: more than is expected, where there is no limit


def build(builder: Builder) -> Skeleton:
    audio, former = builder.config.sub("encoder_config"), builder.config.sub("projector_config")
    # GraniteSpeechEncoderConfig, Blip2QFormerConfig
    audio.fill(input_dim=160, num_layers=10, hidden_dim=1024, feedforward_mult=4, num_heads=8, dim_head=128)
    audio.fill(output_dim=42, max_pos_emb=512, conv_kernel_size=15, conv_expansion_factor=2)
    former.fill(hidden_size=768)
    head = "language_model.lm_head"
    builder.text.fill(model_type="granite")
    layers, root = text_model(builder, "language_model.model", head)
    return Skeleton(
        layers,
        tied_outside(builder, root, head),
        towers=(_conformer(builder, audio), _projector(builder, former)),
        modalities=(Modality("audio", _TOKENS),),
    )


def _conformer(builder: Builder, audio: Config) -> Tower:
    """Its blocks are not told of a quantisation; what is behind them is."""
    site, wide = builder.site("encoder"), audio.integer("hidden_dim")
    labels, count = audio.integer("output_dim"), audio.integer("num_layers", high=10_000)
    around: list[Module] = [
        site.replicated("input_linear", wide, audio.integer("input_dim"), "multimodal", bias=True, quantised=False),
        site.column("out", labels, wide, "multimodal", bias=True),
        site.row("out_mid", wide, labels, "multimodal", bias=True),
    ]
    layer = [
        *_feed_forward(site, "layers.0.ff1", audio),
        *_attention(site, "layers.0.attn", audio),
        *_convolution(site, "layers.0.conv", audio),
        *_feed_forward(site, "layers.0.ff2", audio),
        *layer_norm(site, "layers.0.post_norm", wide),
    ]
    return Tower("encoder", "audio", site.prefix, ((1, builder.block(around)), (count, builder.block(layer))))


def _feed_forward(site: Site, at: str, audio: Config) -> list[Module]:
    wide = audio.integer("hidden_dim")
    inner = wide * audio.integer("feedforward_mult")
    return [
        *layer_norm(site, f"{at}.pre_norm", wide),
        site.column(f"{at}.up_proj", inner, wide, "multimodal", bias=True, quantised=False),
        site.row(f"{at}.down_proj", wide, inner, "multimodal", bias=True, quantised=False),
    ]


def _attention(site: Site, at: str, audio: Config) -> list[Module]:
    wide, width = audio.integer("hidden_dim"), audio.integer("dim_head")
    inner, positions = width * audio.integer("num_heads"), 2 * audio.integer("max_pos_emb") + 1
    return [
        *layer_norm(site, f"{at}.pre_norm", wide),
        site.replicated(f"{at}.to_q", inner, wide, "multimodal", quantised=False),
        site.replicated(f"{at}.to_kv", 2 * inner, wide, "multimodal", quantised=False),
        site.replicated(f"{at}.to_out", wide, inner, "multimodal", bias=True, quantised=False),
        Param(f"{at}.rel_pos_emb.weight", (positions, width), site.b.dtype, "multimodal"),
    ]


def _convolution(site: Site, at: str, audio: Config) -> list[Module]:
    wide, dtype = audio.integer("hidden_dim"), site.b.dtype
    inner = wide * audio.integer("conv_expansion_factor")
    shapes = {
        "up_conv.weight": (2 * inner, wide, 1),
        "up_conv.bias": (2 * inner,),
        "depth_conv.conv.weight": (inner, 1, audio.integer("conv_kernel_size")),
        "down_conv.weight": (wide, inner, 1),
        "down_conv.bias": (wide,),
        **{f"batch_norm.{part}": (inner,) for part in ("weight", "bias", "running_mean", "running_var")},
    }
    modules: list[Module] = [*layer_norm(site, f"{at}.norm", wide)]
    modules += [Param(f"{at}.{name}", shape, dtype, "multimodal") for name, shape in shapes.items()]
    return [*modules, Param(f"{at}.batch_norm.num_batches_tracked", (), "I64", "multimodal", created_dtype="I64")]


def _projector(builder: Builder, former: Config) -> Tower:
    site, hidden = builder.site("projector"), former.integer("hidden_size")
    queries = builder.config.integer("window_size", default=15) // builder.config.integer("downsample_rate", default=5)
    width = builder.text.integer("hidden_size")
    around: list[Module] = [
        Param("query", (1, queries, hidden), builder.dtype, "multimodal"),
        site.replicated("linear", width, hidden, "multimodal", bias=True, quantised=False),
    ]
    return Tower("projector", "audio", site.prefix, ((1, builder.block(around)), *query_transformer(site, former)))
