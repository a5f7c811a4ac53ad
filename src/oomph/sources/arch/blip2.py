"""BLIP-2: a vision transformer, a query transformer of plain layers, and an OPT. vLLM: models/blip2.py, blip.py."""

from oomph.errors import UnknownCache
from oomph.ir import Block, Modality, Module, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.classic import opt
from oomph.sources.arch.internvl import patch_embeddings
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    kind = builder.text.text("model_type", default="opt")
    if kind != "opt":
        raise UnknownCache(f"the language model {kind} inside this model is not known")
    vision, former = builder.config.sub("vision_config"), builder.config.sub("qformer_config")
    # Blip2VisionConfig
    vision.fill(
        hidden_size=1408, intermediate_size=6144, num_hidden_layers=39, num_attention_heads=16, image_size=224,
        patch_size=14,
    )  # fmt: skip
    former.fill(hidden_size=768)
    queries = builder.config.integer("num_query_tokens", default=32)
    layers, root = opt(builder, "language_model.")
    return Skeleton(
        layers,
        root,
        towers=(_vision(builder, vision), _queries(builder, former, queries)),
        modalities=(Modality("image", queries),),
    )


def _vision(builder: Builder, vision: Config) -> Tower:
    hidden, inner = vision.integer("hidden_size"), vision.integer("intermediate_size")
    heads, patch = vision.integer("num_attention_heads"), vision.integer("patch_size")
    positions = (vision.integer("image_size") // patch) ** 2 + 1
    site = builder.site("vision_model")
    first = patch_embeddings(builder, hidden, patch, positions)
    at, bias = "encoder.layers.0", vision.flag("qkv_bias", default=True)
    layer: list[Module] = [
        site.packed_qkv(f"{at}.self_attn.qkv", hidden, heads, "multimodal", bias=bias),
        site.row(f"{at}.self_attn.projection", hidden, hidden, "multimodal", bias=True),
        *layer_norm(site, f"{at}.layer_norm1", hidden),
        site.column(f"{at}.mlp.fc1", inner, hidden, "multimodal", bias=True),
        site.row(f"{at}.mlp.fc2", hidden, inner, "multimodal", bias=True),
        *layer_norm(site, f"{at}.layer_norm2", hidden),
    ]
    count = vision.integer("num_hidden_layers", high=10_000)
    last = layer_norm(site, "post_layernorm", hidden)
    return site.tower("vision_tower", "vision", [(1, first), (count, layer), (1, last)], count, hidden, inner, heads)


def _queries(builder: Builder, former: Config, queries: int) -> Tower:
    hidden, width, site = former.integer("hidden_size"), builder.text.integer("hidden_size"), builder.site("")
    around: list[Module] = [
        site.tensor("query_tokens", 1, queries, hidden),
        site.replicated("language_projection", width, hidden, "multimodal", bias=True, quantised=False),
    ]
    return Tower("qformer", "vision", "", ((1, builder.block(around)), *query_transformer(site, former)))


def query_transformer(site: Site, former: Config) -> tuple[tuple[int, Block], ...]:
    """Blip2QFormerModel: nn.Linear everywhere; every other layer looks at the encoder's output too."""
    # Blip2QFormerConfig
    former.fill(
        hidden_size=768, num_hidden_layers=12, intermediate_size=3072, cross_attention_frequency=2,
        encoder_hidden_size=1408,
    )  # fmt: skip
    hidden, builder = former.integer("hidden_size"), site.b
    every, count = former.integer("cross_attention_frequency"), former.integer("num_hidden_layers", high=10_000)
    at = "qformer.encoder.layer.0"
    plain = [*_attention(site, f"{at}.attention", hidden, hidden), *_mlp(site, at, former)]
    cross = _attention(site, f"{at}.crossattention", hidden, former.integer("encoder_hidden_size"))
    first = builder.block(layer_norm(site, "qformer.layernorm", hidden))
    return (1, first), (count, builder.block(plain)), (-(-count // every), builder.block(cross))


def _attention(site: Site, at: str, hidden: int, keys: int) -> list[Module]:
    def plain(name: str, in_features: int) -> Module:
        return site.replicated(f"{at}.{name}", hidden, in_features, "multimodal", bias=True, quantised=False)

    parts = [plain("attention.query", hidden), plain("attention.key", keys), plain("attention.value", keys)]
    return [*parts, plain("output.dense", hidden), *layer_norm(site, f"{at}.output.LayerNorm", hidden)]


def _mlp(site: Site, at: str, former: Config) -> list[Module]:
    hidden, inner = former.integer("hidden_size"), former.integer("intermediate_size")
    return [
        site.replicated(f"{at}.intermediate_query.dense", inner, hidden, "multimodal", bias=True, quantised=False),
        site.replicated(f"{at}.output_query.dense", hidden, inner, "multimodal", bias=True, quantised=False),
        *layer_norm(site, f"{at}.output_query.LayerNorm", hidden),
    ]
