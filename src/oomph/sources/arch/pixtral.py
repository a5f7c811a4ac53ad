"""Mistral 3 (Mistral Small 3.1 and later, Ministral 3) with its Pixtral vision encoder.

vLLM: models/mistral3.py, pixtral.py (PixtralHFVisionModel).

Behind it: Pixtral as Mistral's own files describe it.
"""

from oomph.ir import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import decoder_layers, decoder_root, fill, tied_outside
from oomph.sources.arch.llama import MINISTRAL3, MISTRAL, QWEN3
from oomph.sources.config import Config

# text_config's model_type -> the class vLLM gives it
_TEXT = {
    "mistral": MISTRAL,
    "ministral3": MINISTRAL3,
    "qwen3": QWEN3,  # LightOnOCR
}


def build(builder: Builder) -> Skeleton:
    style = _TEXT.get(builder.text.text("model_type", default="mistral"), MISTRAL)
    fill(builder, style)
    builder.config.fill(spatial_merge_size=2)
    vision = builder.config.sub("vision_config")
    prefix, outer, head = builder.language_root("language_model.model", "model.language_model")
    tower = pixtral(builder, f"{outer}vision_tower", vision)
    projector = _projector(builder, f"{outer}multi_modal_projector", vision)
    side = vision.integer("image_size") // (vision.integer("patch_size") * builder.config.integer("spatial_merge_size"))
    root = tied_outside(builder, decoder_root(builder, style, prefix, head), head)
    return Skeleton(
        decoder_layers(builder, style, prefix),
        root,
        towers=(tower, projector),
        modalities=(Modality("image", side * side),),
    )


def pixtral(builder: Builder, prefix: str, vision: Config) -> Tower:
    vision.fill(
        hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, num_channels=3,
        image_size=1024, patch_size=16,
    )  # fmt: skip
    hidden, inner, heads = (
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
        vision.integer("num_attention_heads"),
    )
    patch, count = vision.integer("patch_size"), vision.integer("num_hidden_layers", high=10_000)
    site = builder.site(prefix)
    at = "transformer.layers.0"
    layer: list[Module] = [
        site.tensor(f"{at}.attention_norm.weight", hidden),
        site.qkv(hidden, heads, heads, hidden // heads, at=f"{at}.attention", role="multimodal"),
        site.row(f"{at}.attention.o_proj", hidden, hidden, "multimodal"),
        *site.gated_mlp(hidden, inner, at=f"{at}.feed_forward", role="multimodal"),
        site.tensor(f"{at}.ffn_norm.weight", hidden),
    ]
    side = vision.integer("image_size") // patch
    dim = vision.integer("head_dim", default=hidden // heads)
    first: list[Module] = [
        site.tensor("patch_conv.weight", hidden, vision.integer("num_channels"), patch, patch),
        site.tensor("ln_pre.weight", hidden),
    ]
    rows = (side * side, dim)
    tables = [
        _table("inv_freq", rows, "Pixtral frequencies of every patch"),
        _table("original_inv_freq", rows, "Pixtral frequencies of every patch, a copy"),
        _table("frequencies", (dim,), "Pixtral frequencies by axis"),
    ]
    return site.tower("vision_tower", "vision", [(1, first), (count, layer), (1, tables)], count, hidden, inner, heads)


def _table(name: str, shape: tuple[int, ...], only: str) -> Param:
    """facts/vllm/structure.py says which releases have which."""
    name = f"patch_positional_embedding.{name}"
    return Param(name, shape, "F32", "multimodal", stored=False, created_dtype="F32", only=only)


def _projector(builder: Builder, prefix: str, config: Config) -> Tower:
    vision, hidden = config.integer("hidden_size"), builder.text.integer("hidden_size")
    merge = builder.config.integer("spatial_merge_size")
    bias = builder.config.flag("multimodal_projector_bias")
    site = builder.site(prefix)
    modules: list[Module] = [
        site.tensor("norm.weight", vision),
        site.replicated("patch_merger.merging_layer", vision, vision * merge * merge, "multimodal", quantised=False),
        site.column("linear_1", hidden, vision, "multimodal", bias=bias),
        site.row("linear_2", hidden, hidden, "multimodal", bias=bias),
    ]
    return site.tower("multi_modal_projector", "vision", [(1, modules)])


# Pixtral and Mistral Small 3 as Mistral's own files describe them. vLLM: models/pixtral.py (VisionTransformer).


def build_own(builder: Builder) -> Skeleton:
    fill(builder, MISTRAL)
    vision = builder.config.sub("vision_config")
    vision.fill(image_size=vision.integer("max_image_size", default=1024), patch_size=16, num_channels=3)
    merge = vision.integer("spatial_merge_size", default=1)
    side = vision.integer("image_size") // (vision.integer("patch_size") * merge)
    return Skeleton(
        decoder_layers(builder, MISTRAL, "language_model.model"),
        decoder_root(builder, MISTRAL, "language_model.model", "language_model.lm_head"),
        towers=(_tower(builder, vision), _adapter(builder, vision, merge)),
        modalities=(Modality("image", side * (side + 1)),),
    )


def _tower(builder: Builder, vision: Config) -> Tower:
    hidden, inner, heads = (
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
        vision.integer("num_attention_heads"),
    )
    patch, count = vision.integer("patch_size"), vision.integer("num_hidden_layers", high=10_000)
    site, at = builder.site("vision_encoder"), "transformer.layers.0"
    first: list[Module] = [
        site.tensor("patch_conv.weight", hidden, vision.integer("num_channels"), patch, patch),
        site.tensor("ln_pre.weight", hidden),
    ]
    query, k, value = (f"{at}.attention.{name}" for name in ("wq", "wk", "wv"))
    qkv = [(name, hidden, heads) for name in (query, k, value)]
    ffn = f"{at}.feed_forward"
    # the class gives its encoder no quantisation config
    layer: list[Module] = [
        site.linear(f"{at}.attention.qkv_proj", qkv, hidden, "column", "multimodal", quantised=False),
        site.row(f"{at}.attention.wo", hidden, hidden, "multimodal", quantised=False),
        site.linear(
            f"{ffn}.gate_up_proj",
            [(f"{ffn}.w1", inner), (f"{ffn}.w3", inner)],
            hidden,
            "column",
            "multimodal",
            quantised=False,
        ),
        site.row(f"{ffn}.w2", hidden, inner, "multimodal", quantised=False),
        site.tensor(f"{at}.attention_norm.weight", hidden),
        site.tensor(f"{at}.ffn_norm.weight", hidden),
    ]
    return site.tower("vision_encoder", "vision", [(1, first), (count, layer)], count, hidden, inner, heads)


def _adapter(builder: Builder, config: Config, merge: int) -> Tower:
    vision, hidden, bias = (
        config.integer("hidden_size"),
        builder.text.integer("hidden_size"),
        config.flag("adapter_bias", default=True),
    )
    site = builder.site("vision_language_adapter")
    modules: list[Module] = [
        site.replicated("w_in", hidden, vision, "multimodal", bias=bias, quantised=False),
        site.replicated("w_out", hidden, hidden, "multimodal", bias=bias, quantised=False),
    ]
    if config.flag("add_pre_mm_projector_layer_norm"):
        modules.append(site.tensor("pre_mm_projector_norm.weight", vision))
    if config.text("mm_projector_id") == "patch_merge":
        wide = vision * merge * merge
        modules.append(site.replicated("patch_merger.merging_layer", vision, wide, "multimodal", quantised=False))
    return site.tower("vision_language_adapter", "vision", [(1, modules)])
