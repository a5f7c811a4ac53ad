"""LFM2 and LFM2-MoE: short convolutions with attention on some layers. vLLM: models/lfm2.py, lfm2_moe.py.

Behind it: LFM2-VL, and Cosmos3 Edge with the same encoder.
"""

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Attention, Layer, Linear, Modality, Module, Param, Part, Routing, State, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.mla import score_correction
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config
from oomph.units import round_up

_QUANTISED = "short convolutions quantised"


def build(builder: Builder) -> Skeleton:
    return language_model(builder, "model", "lm_head")


def language_model(builder: Builder, prefix: str, head: str) -> Skeleton:
    text = builder.text
    text.fill(  # Lfm2Config
        num_attention_heads=text.integer("num_heads", default=32), tie_word_embeddings=True, vocab_size=65536,
        max_position_embeddings=128000, num_key_value_heads=8, rope_theta=1e6,
    )  # fmt: skip
    hidden = text.integer("hidden_size")
    heads, kv, width = heads_of(text)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    kernel, wide = text.integer("conv_L_cache", default=3), text.integer("conv_dim", default=hidden)
    conv = State("short_conv", conv_kernel=kernel, intermediate=wide)
    bias = text.flag("conv_bias")
    layers = []
    for site, kind in zip(builder.sites(f"{prefix}.layers"), _kinds(text)):
        attends = kind == "full_attention"
        modules = [
            *(_attention(site, attention, hidden) if attends else _conv(site, hidden, wide, kernel, bias)),
            *_mlp(site, text, site.index),
            site.norm("operator_norm", hidden),
            site.norm("ffn_norm", hidden),
        ]
        layers.append(site.layer([attention if attends else conv], modules))
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        embed=f"{prefix}.embed_tokens",
        norm=f"{prefix}.embedding_norm.weight",
        head=head,
        tied=text.flag("tie_word_embeddings"),
    )
    return Skeleton(tuple(layers), root)


def _kinds(text: Config) -> list[str]:
    count = text.integer("num_hidden_layers", high=10_000)
    kinds = text.items("layer_types")
    if kinds:
        if len(kinds) < count or not all(k in ("conv", "full_attention") for k in kinds):
            raise ConfigError(f"{text.where}: layer_types does not name {count} layers as conv or full_attention")
        return [str(k) for k in kinds[:count]]
    attends = set(text.integers("full_attn_idxs")) if text.has("full_attn_idxs") else set(range(count))
    return ["full_attention" if i in attends else "conv" for i in range(count)]


def _attention(site: Site, attention: Attention, hidden: int) -> list[Module]:
    width = attention.head_dim
    return [
        site.qkv(hidden, attention.num_heads, attention.num_kv_heads, width),
        site.row("self_attn.out_proj", hidden, attention.num_heads * width, "attention"),
        site.norm("self_attn.q_layernorm", width),
        site.norm("self_attn.k_layernorm", width),
    ]


def _conv(site: Site, hidden: int, wide: int, kernel: int, bias: bool) -> list[Module]:
    """mamba/short_conv.py: in_proj makes B, C and x."""
    at, dtype = "conv", site.b.dtype
    name = f"{at}.in_proj"
    parts = (Part(name, 3 * wide, created=False), *(Part(f"{name}.{n}", wide, stored=False) for n in "BCx"))
    scheme = site.b.scheme([f"{site.prefix}.{name}"])
    return [
        Param(f"{at}.conv.weight", (wide, 1, kernel), dtype, "linear_attn", shard_dim=0),
        *([Param(f"{at}.conv.bias", (wide,), dtype, "linear_attn", shard_dim=0)] if bias else []),
        Linear(
            name,
            parts=parts,
            in_features=hidden,
            shard="column",
            role="linear_attn",
            dtype=dtype,
            bias=bias,
            scheme=scheme,
            quantised_by=_QUANTISED,
        ),
        replace(site.row(f"{at}.out_proj", hidden, wide, "linear_attn", bias=bias), quantised_by=_QUANTISED),
    ]


def _mlp(site: Site, text: Config, index: int) -> list[Module]:
    hidden, names = text.integer("hidden_size"), ("w1", "w3", "w2")
    if not text.has("num_experts") or index < text.integer("num_dense_layers", default=0, low=0):
        inter = _inner(text) if not text.has("num_experts") else text.integer("intermediate_size")
        return site.gated_mlp(hidden, inter, at="feed_forward", names=names)
    count, at = text.integer("num_experts"), "feed_forward"
    modules: list[Module] = [site.replicated(f"{at}.gate", count, hidden, "router")]  # quantised like any other layer
    if text.flag("use_expert_bias", default=True):
        modules.append(score_correction(f"{at}.expert_bias", count))
    inter, top_k = text.integer("moe_intermediate_size"), text.integer("num_experts_per_tok")
    # lfm2_moe.py:141 (0.32.0): one group
    routing = Routing(
        "sigmoid", text.flag("norm_topk_prob", default=True), 1, biased=text.flag("use_expert_bias", default=True)
    )
    return [*modules, site.experts(count, hidden, inter, top_k, at=f"{at}.experts", projections=names, routing=routing)]


def _inner(text: Config) -> int:
    """lfm2.py Lfm2MLP: two thirds of the stated width, rounded up, where block_auto_adjust_ff_dim is on."""
    inter = text.integer("block_ff_dim", "intermediate_size")
    if not text.flag("block_auto_adjust_ff_dim", default=True):
        return inter
    inter = int(2 * inter / 3)
    times = text.number("block_ffn_dim_multiplier", default=1.0)
    if not 0 < times <= 1e6:
        raise ConfigError(f"{text.where}: block_ffn_dim_multiplier is {times:g}")
    inter = int(times * inter)
    return round_up(inter, text.integer("block_multiple_of", default=256))


# LFM2-VL: a SigLIP 2 encoder, two linear layers, LFM2. vLLM: models/lfm2_vl.py, lfm2_siglip2.py (0.32.0).

_MOST_TILES = 10  # Lfm2VlImageProcessor max_tiles, and the whole image once more


def build_vision(builder: Builder) -> Skeleton:
    config, vision = builder.config, builder.config.sub("vision_config")
    vision.fill(  # Siglip2VisionConfig
        hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, num_channels=3,
        patch_size=16, num_patches=256,
    )  # fmt: skip
    prefix, outer, head = builder.language_root("model.language_model", "language_model.model")
    language = language_model(builder, prefix, head)
    tokens = config.integer("max_image_tokens", default=256) * (config.integer("max_tiles", default=_MOST_TILES) + 1)
    towers = (siglip2(builder, f"{outer}vision_tower.vision_model", vision), _projector(builder, outer, vision))
    return Skeleton(language.layers, language.root, towers=towers, modalities=(Modality("image", tokens),))


def siglip2(builder: Builder, prefix: str, vision: Config) -> Tower:
    hidden, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    heads, count = vision.integer("num_attention_heads"), vision.integer("num_hidden_layers", high=10_000)
    pixels = vision.integer("num_channels") * vision.integer("patch_size") ** 2
    site, at = builder.site(prefix), "encoder.layers.0"
    table = (vision.integer("num_patches"), hidden)
    first: list[Module] = [
        site.replicated("embeddings.patch_embedding", hidden, pixels, "multimodal", bias=True, quantised=False),
        site.tensor("embeddings.position_embedding.weight", *table),
    ]
    layer: list[Module] = [
        *layer_norm(site, f"{at}.layer_norm1", hidden),
        site.qkv(hidden, heads, heads, hidden // heads, at=f"{at}.self_attn", bias=True, role="multimodal"),
        site.row(f"{at}.self_attn.out_proj", hidden, hidden, "multimodal", bias=True),
        *layer_norm(site, f"{at}.layer_norm2", hidden),
        site.column(f"{at}.mlp.fc1", inner, hidden, "multimodal", bias=True),
        site.row(f"{at}.mlp.fc2", hidden, inner, "multimodal", bias=True),
    ]
    last = layer_norm(site, "post_layernorm", hidden)
    return site.tower("vision_tower", "vision", [(1, first), (count, layer), (1, last)], count, hidden, inner, heads)


def _projector(builder: Builder, outer: str, vision: Config) -> Tower:
    config, site = builder.config, builder.site(f"{outer}multi_modal_projector")
    wide = vision.integer("hidden_size") * config.integer("downsample_factor", default=2) ** 2
    middle, bias = config.integer("projector_hidden_size", default=2560), config.flag("projector_bias", default=True)
    out = builder.text.integer("hidden_size")
    modules: list[Module] = [
        *(layer_norm(site, "layer_norm", wide) if config.flag("projector_use_layernorm", default=True) else []),
        site.replicated("linear_1", middle, wide, "multimodal", bias=bias, quantised=False),
        site.replicated("linear_2", out, middle, "multimodal", bias=bias, quantised=False),
    ]
    return site.tower("multi_modal_projector", "vision", [(1, modules)])


def build_colbert(builder: Builder) -> Skeleton:
    """LFM2-ColBERT: LFM2 without a head, and a projection (colbert.py ColBERTLfm2Model)."""
    model, text = build(builder), builder.text
    dim = text.integer("colbert_dim", "dim", "projection_dim", default=128)
    body = [module for module in model.root.modules if module.role != "lm_head"]
    shape = (dim, text.integer("hidden_size"))
    linear = Param("colbert_linear.weight", shape, builder.dtype, "lm_head", created_dtype="F32")
    first = (("pools_first", 1),)  # as a BERT's, by the class's default
    return Skeleton(model.layers, builder.block([*body, linear]), pooling=True, params=(*model.params, *first))


# Cosmos3 Edge: SigLIP 2, a merger, and a Nemotron-H that has attention and MLP layers only.
#
# vLLM: models/cosmos3_edge.py.

_PIXELS = 4096 * 4096  # cosmos3_edge.py Qwen3VLProcessingInfo: the largest image of Qwen3-VL's processor


def build_cosmos(builder: Builder) -> Skeleton:
    text, vision = builder.text, builder.config.sub("vision_config")
    # Cosmos3EdgeTextConfig, Siglip2VisionConfig, Cosmos3EdgeProjectorConfig
    text.fill(num_hidden_layers=28, head_dim=128)
    vision.fill(
        hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, num_channels=3,
        patch_size=16, num_patches=256,
    )  # fmt: skip
    projector = builder.config.sub("projector_config")
    projector.fill(input_hidden_size=1024, spatial_merge_size=2, merger_intermediate_size=11520, out_hidden_size=1024)
    hidden, inner = text.integer("hidden_size"), text.integer("intermediate_size")
    heads, kv, width = heads_of(text)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    bias, at = text.flag("attention_bias"), "model.language_model.layers"
    layers: list[Layer] = []
    for i, site in enumerate(builder.sites(at, text.integer("num_hidden_layers", high=5_000))):
        mixer: list[Module] = [
            site.qkv(hidden, heads, kv, width, bias=bias),
            site.row("self_attn.o_proj", hidden, heads * width, "attention", bias=bias),
            site.norm("input_layernorm", hidden),
        ]
        mlp: list[Module] = [
            site.column("mlp.up_proj", inner, hidden, "mlp", bias=text.flag("mlp_bias")),
            site.row("mlp.down_proj", hidden, inner, "mlp", bias=text.flag("mlp_bias")),
            site.norm("post_attention_layernorm", hidden),
        ]
        layers += [
            builder.site(site.prefix, 2 * i).layer([attention], mixer),
            builder.site(site.prefix, 2 * i + 1).layer([], mlp),
        ]
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        embed="model.language_model.embed_tokens",
        norm="model.language_model.norm.weight",
        everywhere=True,  # nemotron_h.py
    )
    unit = vision.integer("patch_size") * projector.integer("spatial_merge_size")
    return Skeleton(
        tuple(layers),
        root,
        towers=(siglip2(builder, "model.visual", vision), _cosmos_projector(builder, projector)),
        modalities=(Modality("image", _PIXELS // unit**2),),
    )


def _cosmos_projector(builder: Builder, config: Config) -> Tower:
    site, narrow = builder.site("model.projector"), config.integer("input_hidden_size")
    wide = narrow * config.integer("spatial_merge_size") ** 2
    inner, out = config.integer("merger_intermediate_size"), config.integer("out_hidden_size")
    modules: list[Module] = [
        *layer_norm(site, "norm", wide if config.flag("use_postshuffle_norm") else narrow),
        site.column("linear_fc1", inner, wide, "multimodal", bias=True),
        site.row("linear_fc2", out, inner, "multimodal", bias=True),
    ]
    return site.tower("projector", "vision", [(1, modules)])
