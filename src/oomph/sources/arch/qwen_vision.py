"""The vision encoders of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5.

vLLM: qwen2_vl.py Qwen2VisionTransformer, qwen2_5_vl.py Qwen2_5_VisionTransformer, qwen3_vl.py Qwen3_VisionTransformer.
"""

from __future__ import annotations

from msgspec import Struct

from oomph.ir.model import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Site
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config

# preprocessor_config.json of the releases: the pixels of the largest image (12,845,056 = 3584 x 3584 for Qwen2-VL and
# Qwen2.5-VL, 16,777,216 = 4096 x 4096 for Qwen3-VL) and of the largest video (25,165,824).
_PIXELS_2 = 12_845_056
_PIXELS_3 = 16_777_216
_VIDEO_PIXELS_3 = 25_165_824
_MAX_FRAMES_2 = 14  # qwen2_vl.py:115 (0.21.0) _MAX_FRAMES_PER_VIDEO


def qwen2_vision(b: Builder, prefix: str, v: Config) -> tuple[Tower, tuple[Modality, ...]]:
    v.fill(depth=32, embed_dim=1280, hidden_size=3584, mlp_ratio=4, num_heads=16, in_chans=3, patch_size=14)
    v.fill(spatial_merge_size=2, temporal_patch_size=2)
    dim, out = v.integer("embed_dim"), v.integer("hidden_size")
    inner = int(dim * v.number("mlp_ratio", default=4.0))
    s = b.site(prefix)
    layer = [
        *layer_norm(s, "blocks.0.norm1", dim),
        *layer_norm(s, "blocks.0.norm2", dim),
        *_attention(s, dim, None),
        s.column("blocks.0.mlp.fc1", inner, dim, "multimodal", bias=True),
        s.row("blocks.0.mlp.fc2", dim, inner, "multimodal", bias=True),
    ]
    last = [*layer_norm(s, "merger.ln_q", dim), *_merger_2(s, v, dim, out)]
    tower = _tower(b, prefix, v, dim, inner, [*_patches(b, v, dim, bias=False)], layer, last)
    return tower, modalities_2(v)


def qwen2_5_vision(b: Builder, prefix: str, v: Config) -> tuple[Tower, tuple[Modality, ...]]:
    v.fill(depth=32, hidden_size=1280, intermediate_size=3420, num_heads=16, in_chans=3, patch_size=14)
    v.fill(spatial_merge_size=2, temporal_patch_size=2, out_hidden_size=3584)
    dim, inner = v.integer("hidden_size"), v.integer("intermediate_size")
    s = b.site(prefix)
    layer = [
        _rms(s, "blocks.0.norm1", dim),
        _rms(s, "blocks.0.norm2", dim),
        *_attention(s, dim, v),
        *s.gated_mlp(dim, inner, at="blocks.0.mlp", bias=True, role="multimodal"),
    ]
    last = [_rms(s, "merger.ln_q", dim), *_merger_2(s, v, dim, v.integer("out_hidden_size"))]
    first = [*_patches(b, v, dim, bias=False)]
    return _tower(b, prefix, v, dim, inner, first, layer, last), modalities_2(v)


class MergerNames(Struct, frozen=True):
    """What a checkpoint calls the patch mergers' parts."""

    norm: str = "norm"
    first: str = "linear_fc1"
    second: str = "linear_fc2"
    deepstack: str = "deepstack_merger_list"


QWEN3_NAMES = MergerNames()


def qwen3_vision(
    b: Builder, prefix: str, v: Config, names: MergerNames = QWEN3_NAMES
) -> tuple[Tower, tuple[Modality, ...]]:
    v.fill(depth=27, hidden_size=1152, intermediate_size=4304, num_heads=16, in_channels=3, patch_size=16)
    v.fill(spatial_merge_size=2, temporal_patch_size=2, out_hidden_size=3584, num_position_embeddings=2304)
    dim, inner, out = v.integer("hidden_size"), v.integer("intermediate_size"), v.integer("out_hidden_size")
    wide = dim * v.integer("spatial_merge_size") ** 2
    s = b.site(prefix)
    first: list[Module] = [
        *_patches(b, v, dim, bias=True),
        Param("pos_embed.weight", (v.integer("num_position_embeddings"), dim), b.dtype, "multimodal"),
        *layer_norm(s, f"merger.{names.norm}", dim),
        *_merger_3(s, "merger", wide, out, names),
    ]
    for i in range(len(v.items("deepstack_visual_indexes"))):
        at = f"{names.deepstack}.{i}"
        first += [*layer_norm(s, f"{at}.{names.norm}", wide), *_merger_3(s, at, wide, out, names)]
    layer = [
        *layer_norm(s, "blocks.0.norm1", dim),
        *layer_norm(s, "blocks.0.norm2", dim),
        *_attention(s, dim, v),
        s.column("blocks.0.mlp.linear_fc1", inner, dim, "multimodal", bias=True),
        s.row("blocks.0.mlp.linear_fc2", dim, inner, "multimodal", bias=True),
    ]
    unit = v.integer("patch_size") * v.integer("spatial_merge_size")
    # qwen3_vl.py get_max_video_tokens: the largest video is two frames
    frame = _VIDEO_PIXELS_3 // v.integer("temporal_patch_size")
    modalities = (Modality("image", _PIXELS_3 // unit**2), Modality("video", frame // unit**2))
    return _tower(b, prefix, v, dim, inner, first, layer, []), modalities


def modalities_2(v: Config) -> tuple[Modality, ...]:
    unit = v.integer("patch_size") * v.integer("spatial_merge_size")
    image = _PIXELS_2 // unit**2
    steps = -(-_MAX_FRAMES_2 // v.integer("temporal_patch_size"))
    return Modality("image", image), Modality("video", image * steps)


def _patches(b: Builder, v: Config, dim: int, *, bias: bool) -> list[Module]:
    patch = v.integer("patch_size")
    shape = (dim, v.integer("in_channels", "in_chans"), v.integer("temporal_patch_size"), patch, patch)
    modules: list[Module] = [Param("patch_embed.proj.weight", shape, b.dtype, "multimodal")]
    if bias:
        modules.append(Param("patch_embed.proj.bias", (dim,), b.dtype, "multimodal"))
    # get_rope(max_position=8192, partial_rotary_factor 0.5): qwen2_5_vl.py:594 (0.21.0)
    half = dim // v.integer("num_heads") // 2
    return [*modules, Param("rotary_pos_emb.cos_sin_cache", (8192, half), b.dtype, "multimodal", stored=False)]


def _attention(s: Site, dim: int, v: Config | None) -> list[Module]:
    """qwen2_vl.py:302 (0.21.0) has one column-parallel layer, the later classes a QKVParallelLinear."""
    name = "blocks.0.attn.qkv"
    return [
        s.column(name, 3 * dim, dim, "multimodal", bias=True)
        if v is None
        else s.packed_qkv(name, dim, v.integer("num_heads"), "multimodal", bias=True),
        s.row("blocks.0.attn.proj", dim, dim, "multimodal", bias=True),
    ]


def _merger_2(s: Site, v: Config, dim: int, out: int) -> list[Module]:
    wide = dim * v.integer("spatial_merge_size") ** 2
    return [
        s.column("merger.mlp.0", wide, wide, "multimodal", bias=True),
        s.row("merger.mlp.2", out, wide, "multimodal", bias=True),
    ]


def _merger_3(s: Site, at: str, wide: int, out: int, names: MergerNames) -> list[Module]:
    return [
        s.column(f"{at}.{names.first}", wide, wide, "multimodal", bias=True),
        s.row(f"{at}.{names.second}", out, wide, "multimodal", bias=True),
    ]


def _rms(s: Site, name: str, dim: int) -> Param:
    return Param(f"{name}.weight", (dim,), s.b.dtype, "multimodal")


def _tower(
    b: Builder,
    prefix: str,
    v: Config,
    dim: int,
    inner: int,
    first: list[Module],
    layer: list[Module],
    last: list[Module],
) -> Tower:
    depth = v.integer("depth", high=10_000)
    return Tower(
        "visual",
        "vision",
        prefix,
        ((1, b.block(first)), (depth, b.block(layer)), *(((1, b.block(last)),) if last else ())),
        layers=depth,
        hidden=dim,
        intermediate=inner,
        num_heads=v.integer("num_heads"),
    )
