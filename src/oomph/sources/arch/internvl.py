"""InternVL: InternViT, a pixel-shuffle projector, any language model.

vLLM: models/internvl.py, intern_vit.py.

Behind it: InternVL as Transformers writes it.
"""

from msgspec.structs import replace

from oomph.ir import Modality, Module, Param, Tower
from oomph.sources.arch.base import Builder, Skeleton
from oomph.sources.arch.decoder import tied_outside
from oomph.sources.arch.llava import up_to
from oomph.sources.arch.pooling import both_ways, float32_head
from oomph.sources.arch.qwen_vision import grouped_qkv
from oomph.sources.arch.siglip import layer_norm, siglip
from oomph.sources.arch.text import text_model
from oomph.sources.config import Config

_WHOLE_SIGLIPS = ("LlamaNemotronVLModel", "LlamaNemotronVLForSequenceClassification")
_SIGLIPS = ("Eagle2_5_VLForConditionalGeneration", *_WHOLE_SIGLIPS)
_DUMMY_HEADS = 7  # nvlm_d.py:192 (0.32.0): so that 25 heads can be divided


def build(builder: Builder) -> Skeleton:
    config, vision = builder.config, builder.config.sub("vision_config")
    vision.fill(
        hidden_size=3200, intermediate_size=12800, num_hidden_layers=48, num_attention_heads=25, image_size=448,
        patch_size=14, qkv_bias=True, qk_normalization=False, norm_type="layer_norm",
    )  # fmt: skip
    config.fill(downsample_ratio=0.5, max_dynamic_patch=12, use_thumbnail=True, select_layer=-1)
    size = config.integer("force_image_size", default=vision.integer("image_size"))
    ratio = config.number("downsample_ratio", default=0.5)
    tile = int((size // vision.integer("patch_size")) ** 2 * ratio**2)
    tiles = config.integer("max_dynamic_patch") + config.flag("use_thumbnail")
    # the processor is built with what the checkpoint asks for, but one tile where images are not cut
    most = tiles if config.flag("dynamic_image_size", default=True) else 1
    if builder.text.text("model_type").startswith("internlm2"):
        layers, root = text_model(builder, "language_model.model", "language_model.output")
    else:
        layers, root = text_model(builder, "language_model.model", "language_model.lm_head")
    return Skeleton(
        layers,
        root,
        towers=(_encoder(builder, vision), _projector(builder, vision, ratio)),
        modalities=_modalities(builder, tile * most, tile),
    )


# internvl.py ctx_video_token (0.32.0): no other vocabulary has the word that stands for a video
_WITH_VIDEO = ("qwen2", "qwen3", "qwen3_moe", "gpt_oss")


def _modalities(builder: Builder, image: int, tile: int) -> tuple[Modality, ...]:
    """internvl.py get_num_frames_with_most_features: a video has as many frames, a tile each, as the context holds."""
    if builder.architecture == "InternVLChatModel" and builder.text.text("model_type") not in _WITH_VIDEO:
        return (Modality("image", image),)
    context = builder.text.integer("max_position_embeddings", default=32768)
    return Modality("image", image), Modality("video", max(image, context), frame=tile)


def _encoder(builder: Builder, vision: Config) -> Tower:
    """internvl.py _init_vision_model: only the layers up to select_layer; Eagle 2.5 and Nemotron's have SigLIP."""
    if builder.architecture in _SIGLIPS:
        vision.fill(vision_use_head=False)
        tower = siglip(builder, "vision_model.vision_model", vision)
    else:
        tower = _vision(builder, vision)
    layer = builder.config.integer("select_layer", low=-tower.layers)
    count = layer + 1 + (tower.layers if layer < 0 else 0)
    return up_to(tower, count, 1) if count < tower.layers and builder.architecture not in _WHOLE_SIGLIPS else tower


def build_scored(builder: Builder) -> Skeleton:
    """Nemotron's vision embedders and rerankers: attention looks both ways; a reranker ends in one linear layer
    (nemotron_vl.py, 0.32.0)."""
    model, config = build(builder), builder.config
    means = builder.site("input_norm")
    norms = [Param(name, (3,), "F32", "multimodal", stored=False, created_dtype="F32") for name in ("weight", "bias")]
    score = "Classification" in builder.architecture
    rows = builder.text.integer("num_labels", default=config.integer("num_labels", default=2))
    head = float32_head(builder, "score", rows, builder.text.integer("hidden_size"), bias=False) if score else []
    return replace(
        model,
        layers=both_ways(model.layers),
        root=builder.block([*model.root.modules, *head]),
        towers=(*model.towers, means.tower("input_norm", "vision", [(1, norms)])),
        pooling=True,
    )


def patch_embeddings(builder: Builder, hidden: int, patch: int, positions: int) -> list[Module]:
    """A class token, patches by a convolution with a bias, and learned positions."""
    shapes = {
        "class_embedding": (1, 1, hidden),
        "patch_embedding.weight": (hidden, 3, patch, patch),
        "patch_embedding.bias": (hidden,),
        "position_embedding": (1, positions, hidden),
    }
    return [Param(f"embeddings.{name}", shape, builder.dtype, "multimodal") for name, shape in shapes.items()]


def _vision(builder: Builder, vision: Config) -> Tower:
    hidden, inner, heads = (
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
        vision.integer("num_attention_heads"),
    )
    patch, count = vision.integer("patch_size"), vision.integer("num_hidden_layers", high=10_000)
    positions = (vision.integer("image_size") // patch) ** 2 + 1
    site = builder.site("vision_model")
    first = patch_embeddings(builder, hidden, patch, positions)
    at = "encoder.layers.0"
    norms = 1 if vision.text("norm_type") == "rms_norm" else 2
    every = heads + (_DUMMY_HEADS if builder.architecture == "NVLM_D" else 0)
    wide = hidden // heads * every
    layer: list[Module] = [
        grouped_qkv(site, f"{at}.attn.qkv", hidden, every, every, hidden // heads, bias=vision.flag("qkv_bias")),
        *(site.tensor(f"{at}.attn.{n}_norm.weight", hidden) for n in ("qk" if vision.flag("qk_normalization") else "")),
        site.row(f"{at}.attn.proj", hidden, wide, "multimodal", bias=True),
        site.column(f"{at}.mlp.fc1", inner, hidden, "multimodal", bias=True),
        site.row(f"{at}.mlp.fc2", hidden, inner, "multimodal", bias=True),
        *layer_norm(site, f"{at}.norm1", hidden)[:norms],
        *layer_norm(site, f"{at}.norm2", hidden)[:norms],
        site.tensor(f"{at}.ls1", hidden),
        site.tensor(f"{at}.ls2", hidden),
    ]
    return site.tower(
        "vision_model", "vision", [(1, first), (count, layer)], count, hidden, inner, every, alone="attention"
    )


def _projector(builder: Builder, vision: Config, ratio: float) -> Tower:
    wide = vision.integer("hidden_size") * int(1 / ratio) ** 2 if ratio > 0 else vision.integer("hidden_size")
    hidden = builder.text.integer("hidden_size")
    site, nvlm = builder.site("mlp1"), builder.architecture == "NVLM_D"
    middle = builder.text.integer("intermediate_size") if nvlm else hidden
    if builder.architecture == "Llama_Nemotron_Nano_VL":
        middle = builder.config.integer("projector_hidden_size")
    modules: list[Module] = [
        *layer_norm(site, "0", wide),
        site.replicated("1", middle, wide, "multimodal", bias=not nvlm, quantised=False),
        site.replicated("3", hidden, middle, "multimodal", bias=not nvlm, quantised=False),
    ]
    return site.tower("mlp1", "vision", [(1, modules)])


# InternVL as Transformers writes it (names ending in -hf), and Intern-S1: the same encoder under other names.
#
# vLLM: models/interns1.py, interns1_vit.py. The encoder's attention is plain nn.Linear: whole on every rank.

_MOST_TILES = 12  # GotOcr2ImageProcessor max_patches, and the whole image once more


def build_hf(builder: Builder) -> Skeleton:
    config, vision = builder.config, builder.config.sub("vision_config")
    vision.fill(
        hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16, norm_type="layer_norm"
    )
    ratio = config.number("downsample_ratio", default=0.5)
    prefix, outer, head = builder.language_root("language_model.model", "model.language_model")
    layers, root = text_model(builder, prefix, head)
    tile = config.integer("image_seq_length", default=256)
    tokens = tile * (_MOST_TILES + 1)
    return Skeleton(
        layers,
        tied_outside(builder, root, head),
        towers=(
            _hf_vision(builder, f"{outer}vision_tower", vision),
            _hf_projector(builder, f"{outer}multi_modal_projector", vision, ratio),
        ),
        modalities=_modalities(builder, tokens, tile),
    )


def _pair(vision: Config, key: str, default: int) -> int:
    """Sizes are given as one number or as height and width."""
    values = vision.integers(key) if isinstance(vision.get(key), list) else []
    return values[0] if values else vision.integer(key, default=default)


def _hf_vision(builder: Builder, prefix: str, vision: Config) -> Tower:
    hidden, inner, heads = (
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
        vision.integer("num_attention_heads"),
    )
    patch, count = _pair(vision, "patch_size", 14), vision.integer("num_hidden_layers", high=10_000)
    positions = (_pair(vision, "image_size", 448) // patch) ** 2 + 1
    site = builder.site(prefix)
    conv = "embeddings.patch_embeddings.projection"
    first: list[Module] = [
        site.tensor("embeddings.cls_token", 1, 1, hidden),
        site.tensor("embeddings.position_embeddings", 1, positions, hidden),
        site.tensor(f"{conv}.weight", hidden, vision.integer("num_channels", default=3), patch, patch),
        site.tensor(f"{conv}.bias", hidden),
    ]
    if vision.flag("use_mask_token"):
        first.append(site.tensor("embeddings.mask_token", 1, 1, hidden))
    at, bias, rms = "encoder.layer.0", vision.flag("attention_bias"), vision.text("norm_type") == "rms_norm"
    layer: list[Module] = [
        site.replicated(f"{at}.attention.{letter}_proj", hidden, hidden, "multimodal", bias=bias, quantised=False)
        for letter in "qkv"
    ]
    layer += [
        *(site.tensor(f"{at}.attention.{q}_norm.weight", hidden) for q in ("qk" if vision.flag("use_qk_norm") else "")),
        site.replicated(f"{at}.attention.projection_layer", hidden, hidden, "multimodal", bias=True, quantised=False),
        # interns1_vit.py:397 (0.21.0) does not hand the quantisation config on
        site.column(f"{at}.mlp.fc1", inner, hidden, "multimodal", bias=True, quantised=False),
        site.row(f"{at}.mlp.fc2", hidden, inner, "multimodal", bias=True, quantised=False),
        *(site.tensor(f"{at}.lambda_{n}", hidden) for n in (1, 2)),
        *layer_norm(site, f"{at}.layernorm_before", hidden)[: 1 if rms else 2],
        *layer_norm(site, f"{at}.layernorm_after", hidden)[: 1 if rms else 2],
    ]
    last = [] if vision.flag("use_mean_pooling", default=True) else layer_norm(site, "layernorm", hidden)
    return site.tower("vision_tower", "vision", [(1, first), (count, layer), (1, last)], count, hidden, inner, heads)


def _hf_projector(builder: Builder, prefix: str, vision: Config, ratio: float) -> Tower:
    wide = vision.integer("hidden_size") * int(1 / ratio) ** 2 if 0 < ratio <= 1 else vision.integer("hidden_size")
    hidden, site = builder.text.integer("hidden_size"), builder.site(prefix)
    modules: list[Module] = [
        *layer_norm(site, "layer_norm", wide),
        site.replicated("linear_1", hidden, wide, "multimodal", bias=True, quantised=False),
        site.replicated("linear_2", hidden, hidden, "multimodal", bias=True, quantised=False),
    ]
    return site.tower("multi_modal_projector", "vision", [(1, modules)])
