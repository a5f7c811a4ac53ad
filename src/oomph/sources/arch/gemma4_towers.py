"""Gemma 4's vision and audio encoders: transformers' own classes inside vLLM (gemma4_mm.py: AutoModel.from_config), so
every rank holds all of them and nothing is fused. Before 0.23.0 nothing of them was quantised."""

from typing import Literal

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Linear, Module, Param, Tower
from oomph.sources.arch.base import Builder, Site
from oomph.sources.config import Config


def projector(builder: Builder, prefix: str, modality: Literal["vision", "audio"], hidden: int, width: int) -> Tower:
    site = builder.site(prefix)
    return site.tower(
        prefix.removeprefix("model."), modality, [(1, [_plain(site, "embedding_projection", hidden, width)])]
    )


def unified_embedders(builder: Builder, hidden: int) -> list[Module]:
    """gemma4_unified.py (0.32.0): patches and sound frames are projected as they are. No tower, so text-only serving
    builds them as well."""
    vision, audio, site = builder.config.sub("vision_config"), builder.config.sub("audio_config"), builder.site("")
    vision.fill(patch_size=16, pooling_kernel_size=3, mm_embed_dim=3840, mm_posemb_size=1120, output_proj_dims=3840)
    width, at = vision.integer("mm_embed_dim"), "model.vision_embedder"
    patch = 3 * (vision.integer("patch_size") * vision.integer("pooling_kernel_size")) ** 2
    widths = {"vision": vision.integer("output_proj_dims")}
    if builder.config.has("audio_config"):
        widths["audio"] = audio.integer("audio_embed_dim", default=640)
    return [
        *[site.tensor(f"{at}.patch_ln1.{n}", patch) for n in ("weight", "bias")],
        site.column(f"{at}.patch_dense", width, patch, "multimodal", bias=True),
        *[site.tensor(f"{at}.{norm}.{n}", width) for norm in ("patch_ln2", "pos_norm") for n in ("weight", "bias")],
        site.tensor(f"{at}.pos_embedding", vision.integer("mm_posemb_size"), 2, width),
        *(
            site.replicated(f"model.embed_{name}.embedding_projection", hidden, wide, "multimodal", quantised=False)
            for name, wide in widths.items()
        ),
    ]


def vision_tower(builder: Builder, prefix: str, vision: Config) -> Tower:
    vision.fill(
        hidden_size=768, intermediate_size=3072, num_hidden_layers=16, num_attention_heads=12, head_dim=64,
        num_key_value_heads=12, patch_size=16, position_embedding_size=10240,
    )  # fmt: skip
    hidden, inter, width = (
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
        vision.integer("head_dim"),
    )
    heads, kv = vision.integer("num_attention_heads"), vision.integer("num_key_value_heads")
    count, patch = vision.integer("num_hidden_layers", high=10_000), vision.integer("patch_size")
    site, clipped = builder.site(prefix), vision.flag("use_clipped_linears")
    first: list[Module] = [
        site.tensor("patch_embedder.position_embedding_table", 2, vision.integer("position_embedding_size"), hidden),
        _plain(site, "patch_embedder.input_proj", hidden, 3 * patch * patch),
        *[
            Param(f"encoder.rotary_emb.{n}", (width // 4,), "F32", "multimodal", stored=False, created_dtype="F32")
            for n in ("inv_freq", "original_inv_freq")
        ],
        *(site.tensor(name, hidden) for name in (("std_bias", "std_scale") if vision.flag("standardize") else ())),
    ]
    at = "encoder.layers.0."
    layer = [
        *_linear(site, f"{at}self_attn.q_proj", heads * width, hidden, clipped),
        *_linear(site, f"{at}self_attn.k_proj", kv * width, hidden, clipped),
        *_linear(site, f"{at}self_attn.v_proj", kv * width, hidden, clipped),
        *_linear(site, f"{at}self_attn.o_proj", hidden, heads * width, clipped),
        site.tensor(f"{at}self_attn.q_norm.weight", width),
        site.tensor(f"{at}self_attn.k_norm.weight", width),
        *_linear(site, f"{at}mlp.gate_proj", inter, hidden, clipped),
        *_linear(site, f"{at}mlp.up_proj", inter, hidden, clipped),
        *_linear(site, f"{at}mlp.down_proj", hidden, inter, clipped),
        *[
            site.tensor(f"{at}{n}_layernorm.weight", hidden)
            for n in ("input", "post_attention", "pre_feedforward", "post_feedforward")
        ],
    ]
    return site.tower("vision_tower", "vision", [(1, first), (count, layer)], count, hidden, inter, heads)


def audio_tower(builder: Builder, prefix: str, audio: Config) -> Tower:
    audio.fill(
        hidden_size=1024, num_hidden_layers=12, num_attention_heads=8, conv_kernel_size=5, output_proj_dims=1536,
        subsampling_conv_channels=[128, 32], use_clipped_linears=True,
    )  # fmt: skip
    hidden, count = audio.integer("hidden_size"), audio.integer("num_hidden_layers", high=10_000)
    heads, out = audio.integer("num_attention_heads"), audio.integer("output_proj_dims")
    channels = audio.integers("subsampling_conv_channels")
    if len(channels) != 2:
        raise ConfigError(f"{audio.where}: subsampling_conv_channels does not hold two numbers")
    c0, c1 = channels
    clipped = audio.flag("use_clipped_linears")
    sub = "subsample_conv_projection."
    site = builder.site(prefix)
    first: list[Module] = [
        site.tensor(f"{sub}layer0.conv.weight", c0, 1, 3, 3),
        site.tensor(f"{sub}layer0.norm.weight", c0),
        site.tensor(f"{sub}layer1.conv.weight", c1, c0, 3, 3),
        site.tensor(f"{sub}layer1.norm.weight", c1),
        # 128 mel bins, halved twice by the convolutions
        _plain(site, f"{sub}input_proj_linear", hidden, c1 * 32),
        Param("rel_pos_enc.inv_timescales", (1, 1, hidden // 2), builder.dtype, "multimodal", stored=False),
    ]
    layer = _conformer(site, hidden, hidden // heads, audio.integer("conv_kernel_size"), clipped)
    last: list[Module] = [_plain(site, "output_proj", out, hidden, bias=True)]
    return site.tower("audio_tower", "audio", [(1, first), (count, layer), (1, last)], count, hidden, 4 * hidden, heads)


def _conformer(site: Site, hidden: int, head_dim: int, kernel: int, clipped: bool) -> list[Module]:
    at = "layers.0."
    norms = ("lconv1d.pre_layer_norm", "lconv1d.conv_norm", "norm_pre_attn", "norm_post_attn", "norm_out")
    return [
        *_feed_forward(site, f"{at}feed_forward1", hidden, clipped),
        *_feed_forward(site, f"{at}feed_forward2", hidden, clipped),
        site.tensor(f"{at}self_attn.per_dim_scale", head_dim),
        Param(f"{at}self_attn.softcap", (), site.b.dtype, "multimodal", stored=False),
        *_linear(site, f"{at}self_attn.q_proj", hidden, hidden, clipped),
        *_linear(site, f"{at}self_attn.k_proj", hidden, hidden, clipped),
        *_linear(site, f"{at}self_attn.v_proj", hidden, hidden, clipped),
        *_linear(site, f"{at}self_attn.post", hidden, hidden, clipped),
        _plain(site, f"{at}self_attn.relative_k_proj", hidden, hidden),
        *_linear(site, f"{at}lconv1d.linear_start", 2 * hidden, hidden, clipped),
        *_linear(site, f"{at}lconv1d.linear_end", hidden, hidden, clipped),
        site.tensor(f"{at}lconv1d.depthwise_conv1d.weight", hidden, 1, kernel),
        *(site.tensor(f"{at}{n}.weight", hidden) for n in norms),
    ]


def _feed_forward(site: Site, at: str, hidden: int, clipped: bool) -> list[Module]:
    return [
        *_linear(site, f"{at}.ffw_layer_1", 4 * hidden, hidden, clipped),
        *_linear(site, f"{at}.ffw_layer_2", hidden, 4 * hidden, clipped),
        site.tensor(f"{at}.pre_layer_norm.weight", hidden),
        site.tensor(f"{at}.post_layer_norm.weight", hidden),
    ]


def _linear(site: Site, name: str, out: int, inputs: int, clipped: bool) -> list[Module]:
    """Gemma4ClippableLinear: a linear layer and, where clipped, the four bounds as scalars."""
    bounds = ("input_min", "input_max", "output_min", "output_max") if clipped else ()
    return [_plain(site, f"{name}.linear", out, inputs), *(site.tensor(f"{name}.{bound}") for bound in bounds)]


def _plain(site: Site, name: str, out: int, inputs: int, *, bias: bool = False) -> Linear:
    """gemma4_mm.py:1080 (0.32.0) recursive_replace_linear: quantised where the method takes the encoder's sizes."""
    vision, method = site.b.config.sub("vision_config"), site.b.quant.facts.method if site.b.quant else ""
    even = (
        vision.integer("hidden_size", default=768) % 64 == 0
        and vision.integer("intermediate_size", default=3072) % 64 == 0
    )
    fits = even or method in ("bitsandbytes", "compressed-tensors")
    modules = site.replicated(name, out, inputs, "multimodal", bias=bias, quantised=fits)
    return replace(modules, quantised_by="Gemma 4's encoders quantised") if fits else modules
