"""LLaVA and its kind: a CLIP, SigLIP or Pixtral encoder, two linear layers, any language model.

vLLM: models/llava.py, llava_next.py, llava_onevision.py, clip.py, siglip.py.

Behind it: Idefics3 and SmolVLM, Phi-3 vision, Aria.
"""

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Block, Linear, Modality, Module, Param, Tower, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.decoder import Names, Style, decoder_layers, decoder_root, fill
from oomph.sources.arch.llama import LLAMA
from oomph.sources.arch.pixtral import pixtral
from oomph.sources.arch.siglip import layer_norm, patches, siglip
from oomph.sources.arch.text import text_model
from oomph.sources.config import Config

# nn.Linear: whole on every rank
_NORMED_PROJECTORS = ("BeeForConditionalGeneration", "RForConditionalGeneration")  # bee.py, rvl.py
_ONEVISION = ("LlavaOnevisionForConditionalGeneration", *_NORMED_PROJECTORS)
_PLAIN_PROJECTORS = ("LlavaNextVideoForConditionalGeneration", *_ONEVISION)


def build(builder: Builder) -> Skeleton:
    vision = builder.config.sub("vision_config")
    onevision = builder.architecture in _ONEVISION
    prefix, outer, head = builder.language_root("language_model.model", "model.language_model")
    tower, tokens = _tower(builder, f"{outer}vision_tower", vision, -1 if onevision else -2)
    layers, root = text_model(builder, prefix, head)
    towers = [tower, _projector(builder, f"{outer}multi_modal_projector", vision)]
    if builder.architecture == "LlavaNextVideoForConditionalGeneration":
        # llava_next_video.py:105 (0.32.0): as many pooled frames as the context holds
        side = vision.integer("image_size") // vision.integer("patch_size")
        frame = max(1, -((-side // builder.config.integer("spatial_pool_stride", default=2)) ** 2))
        video = builder.text.integer("max_position_embeddings", default=4096) // frame * frame
        return Skeleton(layers, root, towers=tuple(towers), modalities=(Modality("video", max(frame, video)),))
    if builder.architecture != "LlavaForConditionalGeneration":
        newline = Param("image_newline", (builder.text.integer("hidden_size"),), builder.dtype, "multimodal")
        towers.append(Tower("image_newline", "vision", outer.rstrip("."), ((1, builder.block([newline])),)))
        if onevision:
            return Skeleton(layers, root, towers=tuple(towers), modalities=_onevision(builder.config, vision, tokens))
        tokens *= _tiles(builder.config, vision)
    return Skeleton(layers, root, towers=tuple(towers), modalities=(Modality("image", tokens),))


def _tower(builder: Builder, prefix: str, vision: Config, default_layer: int) -> tuple[Tower, int]:
    """llava.py:430 (0.21.0): only the layers up to the one that is read are built, and no norm behind them."""
    kind = vision.text("model_type", default="clip_vision_model")
    if kind == "pixtral":
        tower = pixtral(builder, prefix, vision)
        side = vision.integer("image_size") // vision.integer("patch_size")
        return up_to(tower, _wanted(builder.config, tower.layers, -1), 1), side * side
    if kind.startswith("siglip"):
        vision.fill(vision_use_head=False)
        tower, tokens = siglip(builder, f"{prefix}.vision_model", vision), patches(vision)
    else:
        tower = clip(builder, f"{prefix}.vision_model", vision)
        whole = builder.config.text("vision_feature_select_strategy", default="default") == "full"
        tokens = _grid(vision) + whole
    return up_to(tower, _wanted(builder.config, tower.layers, default_layer), 1), tokens


def _wanted(config: Config, count: int, default: int) -> int:
    value = config.get("vision_feature_layer", default=default)
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(n, int) and -count <= n < count for n in values):
        raise ConfigError(f"{config.where}: vision_feature_layer names a layer that the encoder does not have")
    depth: int = max(n + 1 + count if n < 0 else n + 1 for n in values)
    return depth


def up_to(tower: Tower, wanted: int, at: int) -> Tower:
    """The tower with layers from `wanted` on stored but not created; `at`: which of its blocks are the layers."""
    count, layer = tower.blocks[at]
    rest = [(times, _skipped(block)) for times, block in tower.blocks[at + 1 :]]
    tail = rest if tower.prefix.endswith("vision_model") else list(tower.blocks[at + 1 :])
    cut = [(wanted, layer), *([(count - wanted, _skipped(layer))] if wanted < count else [])]
    return replace(tower, blocks=(*tower.blocks[:at], *cut, *tail))


def without(tower: Tower, at: int) -> Tower:
    """The tower with one of its blocks stored but not created."""
    blocks = [(times, _skipped(block)) if i == at else (times, block) for i, (times, block) in enumerate(tower.blocks)]
    return replace(tower, blocks=tuple(blocks))


def _skipped(block: Block) -> Block:
    def skip(module: Module) -> Module:
        if isinstance(module, Linear):
            return replace(module, parts=tuple(replace(p, created=False) for p in module.parts))
        return replace(module, created=False) if isinstance(module, Param) else module

    return Block(tuple(skip(module) for module in block.modules))


def _grid(vision: Config) -> int:
    return (vision.integer("image_size") // vision.integer("patch_size")) ** 2


def clip(builder: Builder, prefix: str, vision: Config) -> Tower:
    vision.fill(
        hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, num_channels=3,
        image_size=336, patch_size=14,
    )  # fmt: skip
    hidden, inner, heads = (
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
        vision.integer("num_attention_heads"),
    )
    patch, count = vision.integer("patch_size"), vision.integer("num_hidden_layers", high=10_000)
    positions = _grid(vision) + 1
    conv = (hidden, vision.integer("num_channels"), patch, patch)
    site = builder.site(prefix)
    first: list[Module] = [
        site.tensor("embeddings.class_embedding", hidden),
        site.tensor("embeddings.patch_embedding.weight", *conv),
        site.tensor("embeddings.position_embedding.weight", positions, hidden),
        Param("embeddings.position_ids", (1, positions), "I64", "multimodal", stored=False, created_dtype="I64"),
        *layer_norm(site, "pre_layrnorm", hidden),
    ]
    at = "encoder.layers.0"
    layer: list[Module] = [
        site.qkv(hidden, heads, heads, hidden // heads, at=f"{at}.self_attn", bias=True, role="multimodal"),
        site.row(f"{at}.self_attn.out_proj", hidden, hidden, "multimodal", bias=True),
        *layer_norm(site, f"{at}.layer_norm1", hidden),
        site.column(f"{at}.mlp.fc1", inner, hidden, "multimodal", bias=True),
        site.row(f"{at}.mlp.fc2", hidden, inner, "multimodal", bias=True),
        *layer_norm(site, f"{at}.layer_norm2", hidden),
    ]
    last = layer_norm(site, "post_layernorm", hidden)
    tower = site.tower("vision_tower", "vision", [(1, first), (count, layer), (1, last)], count, hidden, inner, heads)
    return replace(tower, activation=vision.text("hidden_act", default="quick_gelu"))


def _projector(builder: Builder, prefix: str, config: Config) -> Tower:
    vision, hidden = config.integer("hidden_size"), builder.text.integer("hidden_size")
    bias = builder.config.flag("multimodal_projector_bias", default=True)
    site = builder.site(prefix)
    plain = builder.architecture in _PLAIN_PROJECTORS
    first, second = (site.replicated, site.replicated) if plain else (site.column, site.row)
    normed = builder.architecture in _NORMED_PROJECTORS
    inner = 4 * hidden if builder.architecture == "BeeForConditionalGeneration" else hidden
    modules: list[Module] = [
        *(layer_norm(site, "pre_norm", vision) if normed else []),
        first("linear_1", inner, vision, "multimodal", bias=bias, quantised=not plain),
        second("linear_2", hidden, inner, "multimodal", bias=bias, quantised=not plain),
    ]
    return Tower("multi_modal_projector", "vision", prefix, ((1, builder.block(modules)),))


_FRAMES = 16  # llava_onevision.py:52 _MAX_FRAMES_PER_VIDEO (0.32.0)


def _onevision(config: Config, vision: Config, patches: int) -> tuple[Modality, ...]:
    """llava_onevision.py get_image_size_with_most_features: 1153 x 944 pixels; the tiles that hold them, and the whole
    image once more. A tile's worth of features is lost to the padding. Frames are pooled."""
    size = vision.integer("image_size")
    tiles = min(-(-1153 // size) * -(-944 // size) + 1, _tiles(config, vision))
    side = vision.integer("image_size") // vision.integer("patch_size")
    frame = (-(-side // config.integer("spatial_pool_stride", default=2))) ** 2
    image = Modality("image", max(1, tiles - 1) * patches, patches=tiles * patches)
    return image, Modality("video", _FRAMES * frame + 1, patches=_FRAMES * patches)


def _tiles(config: Config, vision: Config) -> int:
    """The largest entry of image_grid_pinpoints in tiles, and the whole image once more."""
    size = vision.integer("image_size")
    most = 4
    for entry in config.items("image_grid_pinpoints"):
        if isinstance(entry, list) and len(entry) == 2 and all(isinstance(n, int) and n > 0 for n in entry):
            most = max(most, (entry[0] // size) * (entry[1] // size))
    return most + 1


# Idefics3 and SmolVLM: SigLIP, pixels shuffled together, and a Llama. vLLM: models/idefics3.py, smolvlm.py.


def build_idefics3(builder: Builder) -> Skeleton:
    fill(builder, LLAMA)
    vision = builder.config.sub("vision_config")
    # Idefics3VisionConfig
    vision.fill(
        hidden_size=1152, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=16, image_size=224,
        patch_size=32,
    )  # fmt: skip
    scale = builder.config.integer("scale_factor", default=2)
    tower = siglip(builder, "model.vision_model", vision, idefics=True)
    wide, text = vision.integer("hidden_size") * scale * scale, builder.text.integer("hidden_size")
    site = builder.site("model.connector")
    project = site.replicated("modality_projection.proj", text, wide, "multimodal")
    connector = site.tower("connector", "vision", [(1, [project])])
    tied = builder.config.flag("tie_word_embeddings", default=builder.text.flag("tie_word_embeddings"))
    return Skeleton(
        decoder_layers(builder, LLAMA, "model.text_model"),
        decoder_root(builder, LLAMA, "model.text_model", "lm_head", tied=tied),
        towers=(tower, connector),
        modalities=(Modality("image", _pieces(vision) * (patches(vision) // (scale * scale))),),
    )


def _pieces(vision: Config) -> int:
    """idefics3.py get_num_patches: the largest image is cut into squares of image_size, and shown whole once more."""
    longest = vision.sub("size").integer("longest_edge", default=4 * 364)
    side = -(-longest // vision.sub("max_image_size").integer("longest_edge", default=364))
    return side * side + 1


# Phi-3 and Phi-3.5 vision: CLIP up to its last layer but one, two linear layers, a Llama. vLLM: models/phi3v.py.

STYLE = Style(names=Names(packed_qkv="qkv_proj", packed_gate_up="gate_up_proj"))
_LAYERS = 24  # phi3v.py CLIP_VIT_LARGE_PATCH14_336_CONFIG


def build_phi3v(builder: Builder) -> Skeleton:
    text, image = builder.text, builder.config.sub("img_processor")
    hidden, wide = text.integer("hidden_size"), 4 * image.integer("image_dim_out", default=1024)
    site = builder.site("model.vision_embed_tokens")
    # CLIP's own defaults are the ones that this class has in its file
    tower = clip(builder, f"{site.prefix}.img_processor.vision_model", Config({}, where=builder.config.where))
    first = image.integer("layer_idx", default=-2, low=-_LAYERS)
    tower = up_to(tower, first + _LAYERS + 1 if first < 0 else first + 1, 1)
    modules: list[Module] = [
        site.tensor("glb_GN", 1, 1, wide),
        site.tensor("sub_GN", 1, 1, 1, wide),
        site.replicated("img_projection.0", hidden, wide, "multimodal", bias=True, quantised=False),
        site.replicated("img_projection.2", hidden, hidden, "multimodal", bias=True, quantised=False),
        # the class has a table of its own beside the language model's
        Vocab("embed_tokens", text.integer("vocab_size"), hidden, builder.dtype, "embed", stored=False),
    ]
    project = site.tower("vision_embed_tokens", "vision", [(1, modules)])
    tokens = image.integer("num_img_tokens", default=144)
    return Skeleton(
        decoder_layers(builder, STYLE),
        decoder_root(builder, STYLE),
        towers=(tower, project),
        modalities=(Modality("image", tokens * 17 + 1),),  # 16 crops and the whole image
    )


# Aria: SigLIP's network, a cross-attention projector and a Llama with experts. vLLM: models/aria.py.


def build_aria(builder: Builder) -> Skeleton:
    text, config = builder.text, builder.config
    fill(builder, LLAMA)
    # AriaTextConfig, Idefics3VisionConfig
    text.fill(moe_num_experts=8, moe_topk=2, moe_num_shared_experts=2, intermediate_size=4096)
    vision = config.sub("vision_config")
    vision.fill(
        hidden_size=1152, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=16, image_size=224,
        patch_size=32,
    )  # fmt: skip
    tower = siglip(builder, "vision_tower", vision, idefics=True)
    queries = [size for size in config.table("projector_patch_to_query_dict").values() if isinstance(size, int)]
    most = max(queries, default=256)
    root = decoder_root(builder, LLAMA, "language_model.model", "language_model.lm_head", tied=False)
    return Skeleton(
        decoder_layers(builder, LLAMA, "language_model.model", lambda site, index: _experts(site, text)),
        root,
        towers=(without(tower, 2), _aria_projector(builder, vision, most)),  # no norm behind the last layer
        modalities=(Modality("image", most),),
    )


def _experts(site: Site, text: Config) -> list[Module]:
    """The routed experts' router is a bare parameter; the shared experts are one MLP."""
    count, hidden, inner = (
        text.integer("moe_num_experts"),
        text.integer("hidden_size"),
        text.integer("intermediate_size"),
    )
    shared = inner * text.integer("moe_num_shared_experts")
    return [
        Param("mlp.router.weight", (count, hidden), site.b.dtype, "router"),
        *site.gated_mlp(hidden, shared, at="mlp.shared_experts", bias=text.flag("mlp_bias"), role="shared_experts"),
        site.experts(count, hidden, inner, text.integer("moe_topk"), layout="stacked"),
    ]


def _aria_projector(builder: Builder, vision: Config, queries: int) -> Tower:
    """transformers' AriaCrossAttention, of plain layers, then two linear ones that are split."""
    site = builder.site("multi_modal_projector")
    wide, hidden = vision.integer("hidden_size"), builder.text.integer("hidden_size")
    at = "cross_attn"
    modules: list[Module] = [
        site.tensor("query", queries, wide),
        *(site.replicated(f"{at}.{letter}_proj", wide, wide, "multimodal", quantised=False) for letter in "qkv"),
        site.tensor(f"{at}.multihead_attn.in_proj_weight", 3 * wide, wide),
        site.tensor(f"{at}.multihead_attn.in_proj_bias", 3 * wide),
        site.replicated(f"{at}.multihead_attn.out_proj", wide, wide, "multimodal", bias=True, quantised=False),
        site.replicated(f"{at}.linear", wide, wide, "multimodal", bias=True, quantised=False),
        *layer_norm(site, f"{at}.layer_norm", wide),
        *layer_norm(site, f"{at}.layer_norm_kv", wide),
        *layer_norm(site, "layer_norm", wide),
        site.column("feed_forward.linear_in", hidden, wide, "multimodal", quantised=False),
        site.row("feed_forward.linear_out", hidden, hidden, "multimodal", quantised=False),
    ]
    return site.tower("multi_modal_projector", "vision", [(1, modules)])
