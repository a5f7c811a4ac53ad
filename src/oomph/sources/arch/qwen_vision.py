"""The vision encoders of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and Qwen3.5.

vLLM: qwen2_vl.py Qwen2VisionTransformer, qwen2_5_vl.py Qwen2_5_VisionTransformer, qwen3_vl.py Qwen3_VisionTransformer.

Behind them: the models that have them before a Qwen decoder.
"""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from oomph.ir import Linear, Modality, Module, Param, Part, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.decoder import Style, decoder_layers, decoder_root, dims, fill
from oomph.sources.arch.llama import QWEN2, QWEN3
from oomph.sources.arch.moe import QWEN3_MOE, qwen_moe_mlp
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config

# preprocessor_config.json of the releases: the pixels of the largest image (12,845,056 = 3584 x 3584 for Qwen2-VL and
# Qwen2.5-VL, 16,777,216 = 4096 x 4096 for Qwen3-VL) and of the largest video (25,165,824).
_PIXELS_2 = 12_845_056
_PIXELS_3 = 16_777_216
_VIDEO_PIXELS_3 = 25_165_824
_MAX_FRAMES_2 = 14  # qwen2_vl.py:115 (0.21.0) _MAX_FRAMES_PER_VIDEO


def qwen2_vision(builder: Builder, prefix: str, vision: Config) -> tuple[Tower, tuple[Modality, ...]]:
    vision.fill(
        depth=32, embed_dim=1280, hidden_size=3584, mlp_ratio=4, num_heads=16, in_chans=3, patch_size=14,
        spatial_merge_size=2, temporal_patch_size=2,
    )  # fmt: skip
    dim, out = vision.integer("embed_dim"), vision.integer("hidden_size")
    inner = int(dim * vision.number("mlp_ratio", default=4.0))
    site = builder.site(prefix)
    layer = [
        *layer_norm(site, "blocks.0.norm1", dim),
        *layer_norm(site, "blocks.0.norm2", dim),
        *_attention(site, dim, None),
        site.column("blocks.0.mlp.fc1", inner, dim, "multimodal", bias=True),
        site.row("blocks.0.mlp.fc2", dim, inner, "multimodal", bias=True),
    ]
    last = [*layer_norm(site, "merger.ln_q", dim), *_merger_2(site, vision, dim, out)]
    tower = _tower(builder, prefix, vision, dim, inner, [*_patches(builder, vision, dim, bias=False)], layer, last)
    return tower, modalities_2(vision)


def qwen2_5_vision(builder: Builder, prefix: str, vision: Config) -> tuple[Tower, tuple[Modality, ...]]:
    vision.fill(
        depth=32, hidden_size=1280, intermediate_size=3420, num_heads=16, in_chans=3, patch_size=14,
        spatial_merge_size=2, temporal_patch_size=2, out_hidden_size=3584,
    )  # fmt: skip
    dim, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    site = builder.site(prefix)
    layer = [
        _rms(site, "blocks.0.norm1", dim),
        _rms(site, "blocks.0.norm2", dim),
        *_attention(site, dim, vision),
        *site.gated_mlp(dim, inner, at="blocks.0.mlp", bias=True, role="multimodal"),
    ]
    last = [_rms(site, "merger.ln_q", dim), *_merger_2(site, vision, dim, vision.integer("out_hidden_size"))]
    first = [*_patches(builder, vision, dim, bias=False)]
    return _tower(builder, prefix, vision, dim, inner, first, layer, last), modalities_2(vision)


class MergerNames(Struct, frozen=True):
    """What a checkpoint calls the patch mergers' parts."""

    norm: str = "norm"
    first: str = "linear_fc1"
    second: str = "linear_fc2"
    deepstack: str = "deepstack_merger_list"


QWEN3_NAMES = MergerNames()


def qwen3_vision(
    builder: Builder, prefix: str, vision: Config, names: MergerNames = QWEN3_NAMES
) -> tuple[Tower, tuple[Modality, ...]]:
    vision.fill(
        depth=27, hidden_size=1152, intermediate_size=4304, num_heads=16, in_channels=3, patch_size=16,
        spatial_merge_size=2, temporal_patch_size=2, out_hidden_size=3584, num_position_embeddings=2304,
    )  # fmt: skip
    dim, inner, out = (
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
        vision.integer("out_hidden_size"),
    )
    wide = dim * vision.integer("spatial_merge_size") ** 2
    site = builder.site(prefix)
    first: list[Module] = [
        *_patches(builder, vision, dim, bias=True),
        site.tensor("pos_embed.weight", vision.integer("num_position_embeddings"), dim),
        *layer_norm(site, f"merger.{names.norm}", dim),
        *_merger_3(site, "merger", wide, out, names),
    ]
    for i in range(len(vision.items("deepstack_visual_indexes"))):
        at = f"{names.deepstack}.{i}"
        first += [*layer_norm(site, f"{at}.{names.norm}", wide), *_merger_3(site, at, wide, out, names)]
    layer = [
        *layer_norm(site, "blocks.0.norm1", dim),
        *layer_norm(site, "blocks.0.norm2", dim),
        *_attention(site, dim, vision),
        site.column("blocks.0.mlp.linear_fc1", inner, dim, "multimodal", bias=True),
        site.row("blocks.0.mlp.linear_fc2", dim, inner, "multimodal", bias=True),
    ]
    unit = vision.integer("patch_size") * vision.integer("spatial_merge_size")
    # qwen3_vl.py get_max_video_tokens: the largest video is two frames
    frame = _VIDEO_PIXELS_3 // vision.integer("temporal_patch_size")
    modalities = (Modality("image", _PIXELS_3 // unit**2), Modality("video", frame // unit**2))
    return _tower(builder, prefix, vision, dim, inner, first, layer, []), modalities


def modalities_2(vision: Config) -> tuple[Modality, ...]:
    unit = vision.integer("patch_size") * vision.integer("spatial_merge_size")
    image = _PIXELS_2 // unit**2
    steps = -(-_MAX_FRAMES_2 // vision.integer("temporal_patch_size"))
    return Modality("image", image), Modality("video", image * steps)


def _patches(builder: Builder, vision: Config, dim: int, *, bias: bool) -> list[Module]:
    patch = vision.integer("patch_size")
    shape = (dim, vision.integer("in_channels", "in_chans"), vision.integer("temporal_patch_size"), patch, patch)
    modules: list[Module] = [Param("patch_embed.proj.weight", shape, builder.dtype, "multimodal")]
    if bias:
        modules.append(Param("patch_embed.proj.bias", (dim,), builder.dtype, "multimodal"))
    # get_rope(max_position=8192, partial_rotary_factor 0.5): qwen2_5_vl.py:594 (0.21.0)
    half = dim // vision.integer("num_heads") // 2
    return [*modules, Param("rotary_pos_emb.cos_sin_cache", (8192, half), builder.dtype, "multimodal", stored=False)]


def _attention(site: Site, dim: int, vision: Config | None) -> list[Module]:
    """qwen2_vl.py:302 (0.21.0) has one column-parallel layer, the later classes a QKVParallelLinear."""
    name = "blocks.0.attn.qkv"
    if vision is not None and vision.has("num_key_value_heads"):  # exaone4_5.py:98 (0.32.0)
        heads, kv = vision.integer("num_heads"), vision.integer("num_key_value_heads")
        return [
            grouped_qkv(site, name, dim, heads, kv, dim // heads),
            site.row("blocks.0.attn.proj", dim, dim, "multimodal", bias=True),
        ]
    return [
        site.column(name, 3 * dim, dim, "multimodal", bias=True)
        if vision is None
        else site.packed_qkv(name, dim, vision.integer("num_heads"), "multimodal", bias=True),
        site.row("blocks.0.attn.proj", dim, dim, "multimodal", bias=True),
    ]


def grouped_qkv(site: Site, name: str, dim: int, heads: int, kv: int, width: int, *, bias: bool = True) -> Linear:
    """One tensor in the checkpoint that engines build as q, k and v of these heads."""
    sizes = zip("qkv", (heads, kv, kv), strict=True)
    parts = (Part(f"{name}.{part}", count * width, count, stored=False) for part, count in sizes)
    whole = Part(name, (heads + 2 * kv) * width, created=False)
    scheme = site.b.scheme([f"{site.prefix}.{name}"], encoder=True)
    return Linear(
        name,
        parts=(whole, *parts),
        in_features=dim,
        shard="column",
        role="multimodal",
        dtype=site.b.dtype,
        bias=bias,
        scheme=scheme,
    )


def _merger_2(site: Site, vision: Config, dim: int, out: int) -> list[Module]:
    wide = dim * vision.integer("spatial_merge_size") ** 2
    return [
        site.column("merger.mlp.0", wide, wide, "multimodal", bias=True),
        site.row("merger.mlp.2", out, wide, "multimodal", bias=True),
    ]


def _merger_3(site: Site, at: str, wide: int, out: int, names: MergerNames) -> list[Module]:
    return [
        site.column(f"{at}.{names.first}", wide, wide, "multimodal", bias=True),
        site.row(f"{at}.{names.second}", out, wide, "multimodal", bias=True),
    ]


def _rms(site: Site, name: str, dim: int) -> Param:
    return site.tensor(f"{name}.weight", dim)


def _tower(
    builder: Builder,
    prefix: str,
    vision: Config,
    dim: int,
    inner: int,
    first: list[Module],
    layer: list[Module],
    last: list[Module],
) -> Tower:
    depth = vision.integer("depth", high=10_000)
    return Tower(
        "visual",
        "vision",
        prefix,
        ((1, builder.block(first)), (depth, builder.block(layer)), *(((1, builder.block(last)),) if last else ())),
        layers=depth,
        hidden=dim,
        intermediate=inner,
        num_heads=vision.integer("num_heads"),
    )


# Qwen2-VL, Qwen2.5-VL and Qwen3-VL: a Qwen decoder with a vision encoder before it.
#
# vLLM: models/qwen2_vl.py, qwen2_5_vl.py, qwen3_vl.py, qwen3_vl_moe.py.

_TOWERS = {
    "ColQwen3": qwen3_vision,
    "Cosmos3ForConditionalGeneration": qwen3_vision,
    "InternS1ProForConditionalGeneration": qwen3_vision,
    "JinaVLForRanking": qwen2_vision,
    "OpsColQwen3Model": qwen3_vision,
    "Qwen2VLForConditionalGeneration": qwen2_vision,
    "Qwen2_5_VLForConditionalGeneration": qwen2_5_vision,
    "Qwen3VLForConditionalGeneration": qwen3_vision,
    "Qwen3VLMoeForConditionalGeneration": qwen3_vision,
    "Qwen3VLNemotronEmbedModel": qwen3_vision,
}
_STYLES: dict[str, Style] = {
    "ColQwen3": QWEN3,
    "Cosmos3ForConditionalGeneration": QWEN3,
    "InternS1ProForConditionalGeneration": QWEN3_MOE,
    "JinaVLForRanking": QWEN2,
    "OpsColQwen3Model": QWEN3,
    "Qwen2VLForConditionalGeneration": QWEN2,
    "Qwen2_5_VLForConditionalGeneration": QWEN2,
    "Qwen3VLForConditionalGeneration": QWEN3,
    "Qwen3VLMoeForConditionalGeneration": QWEN3_MOE,
    "Qwen3VLNemotronEmbedModel": QWEN3,
}


def build(builder: Builder) -> Skeleton:
    style = _STYLES[builder.architecture]
    fill(builder, style)
    builder.scale_dtype = "BF16"
    second = style is QWEN2
    # Qwen2-VL wrote "visual" and "model"; transformers 4.52 and later write both below "model"
    visual = builder.root("visual", "model.visual") if second else builder.root("model.visual", "visual")
    prefix = "model" if visual == "visual" else "model.language_model"
    vision = builder.config.sub("vision_config")
    tower, modalities = _TOWERS[builder.architecture](builder, visual, vision)
    # quantisers write one linear layer an expert, the plain release one tensor for all
    layout: Literal["each", "stacked"] = "stacked" if builder.quant is None else "each"
    mlp = qwen_moe_mlp(builder, style, layout) if style is QWEN3_MOE else None
    levels = len(vision.items("deepstack_visual_indexes"))
    _, _, head_dim = dims(builder.text, style)
    rope = rope_of(builder.text, head_dim, bounded=not second)
    return Skeleton(
        decoder_layers(builder, style, prefix, mlp, rope),
        decoder_root(builder, style, prefix),
        towers=(tower,),
        modalities=modalities,
        # qwen3_vl.py:1680 (0.21.0): that many buffers of max_num_batched_tokens x hidden_size besides the weights
        params=(("deepstack_levels", levels),) if levels else (),
    )


def build_scored(builder: Builder) -> Skeleton:
    """The same models as retrievers and rerankers (colqwen3.py, jina_vl.py): a head in float32 beside the old one."""
    model, text = build(builder), builder.text
    root = builder.block([*model.root.modules, *retrieval_head(builder, text)])
    first = () if builder.architecture == "JinaVLForRanking" else POOLS_FIRST
    return replace(model, root=root, pooling=True, params=(*model.params, *first))


# @default_pooling_type(seq_pooling_type="CLS"): prompts are not cut, and no prefix is kept
POOLS_FIRST: tuple[tuple[str, int], ...] = (("pools_first", 1),)


_WIDTHS = ("embed_dim", "dims", "dim", "projection_dim", "colbert_dim")


def retrieval_head(builder: Builder, text: Config) -> list[Module]:
    hidden = text.integer("hidden_size")

    def wide(name: str, shape: tuple[int, ...], shard: int | None = None) -> Param:
        return Param(name, shape, builder.dtype, "lm_head", shard_dim=shard, created_dtype="F32")

    if builder.architecture == "JinaVLForRanking":
        labels = text.integer("num_labels", default=1)
        return [
            wide("score.0.weight", (hidden, hidden), 0),
            wide("score.0.bias", (hidden,), 0),
            wide("score.2.weight", (labels, hidden), 1),
            wide("score.2.bias", (labels,)),
        ]
    bias = builder.architecture == "ColQwen3_5"
    rows = builder.config.integer(*_WIDTHS, default=128 if bias else 0)
    if not rows:  # built while loading, as wide as the checkpoint has it
        return []
    name = "custom_text_proj"
    return [wide(f"{name}.weight", (rows, hidden)), *([wide(f"{name}.bias", (rows,))] if bias else [])]
