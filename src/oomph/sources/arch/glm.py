"""GLM-4.5, 4.6 and 4.7: grouped-query attention, routed MLP with shared experts, one draft layer.

vLLM: models/glm4_moe.py, glm4_moe_mtp.py.

Behind it: GLM-4.1V and 4.5V, GLM-OCR.
"""

from oomph.ir import Attention, Layer, Linear, Modality, Module, Param, Part, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.mla import nextn_modules, routed_mlp
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    return language_model(builder, "model", "lm_head")


def language_model(builder: Builder, prefix: str, head: str) -> Skeleton:
    text = builder.text
    # Glm4MoeConfig
    text.fill(
        vocab_size=151552, hidden_size=4096, intermediate_size=10944, num_hidden_layers=46, num_attention_heads=96,
        num_key_value_heads=8, partial_rotary_factor=0.5, max_position_embeddings=131072, moe_intermediate_size=1408,
        num_experts_per_tok=8, n_shared_experts=1, n_routed_experts=128, first_k_dense_replace=1,
    )  # fmt: skip
    heads, kv, head_dim = heads_of(text)
    attention = Attention("full", heads, kv, head_dim, head_dim, rope=rope_of(text, head_dim))
    count = text.integer("num_hidden_layers", high=10_000)
    nextn = text.integer("num_nextn_predict_layers", default=0, low=0, high=100)
    root = builder.head(
        text.integer("vocab_size"),
        text.integer("hidden_size"),
        embed=f"{prefix}.embed_tokens",
        norm=f"{prefix}.norm.weight",
        head=head,
        tied=text.flag("tie_word_embeddings"),
    )
    return Skeleton(
        tuple(_layer(site, attention) for site in builder.sites(f"{prefix}.layers")),
        root,
        drafts=tuple(_layer(site, attention, draft=True) for site in builder.sites(f"{prefix}.layers", nextn, count)),
    )


def _layer(site: Site, attention: Attention, *, draft: bool = False) -> Layer:
    text = site.b.text
    hidden, width = text.integer("hidden_size"), attention.head_dim
    sparse = site.index >= text.integer("first_k_dense_replace", default=0, low=0)
    modules: list[Module] = [
        site.qkv(hidden, attention.num_heads, attention.num_kv_heads, width, bias=text.flag("attention_bias")),
        site.row("self_attn.o_proj", hidden, attention.num_heads * width, "attention"),
        *(site.norm(f"self_attn.{name}_norm", width) for name in ("qk" if text.flag("use_qk_norm") else "")),
        # glm4_moe.py: the router is nn.Linear in float32
        *(
            routed_mlp(site, text, gate_dtype="F32")
            if sparse
            else site.gated_mlp(hidden, text.integer("intermediate_size"))
        ),
        site.norm("input_layernorm", hidden),
        site.norm("post_attention_layernorm", hidden),
    ]
    if draft:
        modules = nextn_modules(site, hidden, text.integer("vocab_size"), modules, own_vocab=True)
    return site.layer([attention], modules)


# GLM-4.1V (dense) and GLM-4.5V (routed): GLM-4's language models behind a vision tower.
#
# vLLM: models/glm4_1v.py, glm4.py, glm4_moe.py.

# glm4_1v.py: the image processor's longest_edge, 28 x 28 x 2 x 6144 pixels over two frames
IMAGE_TOKENS = 6144
# the video processor's longest_edge, 47,040,000 pixels; _get_max_video_frames: steps of an image's size, as many as the
# context holds
MODALITIES = (Modality("image", IMAGE_TOKENS), Modality("video", 30_000, frame=IMAGE_TOKENS))


def build_vision(builder: Builder) -> Skeleton:
    prefix, outer, head = builder.language_root("model.language_model", "language_model.model")
    moe = builder.architecture == "Glm4vMoeForConditionalGeneration"
    language = language_model(builder, prefix, head) if moe else dense_text(builder, prefix, head)
    towers = (_vision(builder, f"{outer}visual", builder.config.sub("vision_config")),)
    return Skeleton(language.layers, language.root, language.drafts, language.draft_root, towers, MODALITIES)


def dense_text(builder: Builder, prefix: str, head: str) -> Skeleton:
    text = builder.text
    # Glm4vTextConfig
    text.fill(  # glm4.py:88 (0.32.0)
        vocab_size=151552, hidden_size=4096, intermediate_size=13696, num_hidden_layers=40, num_attention_heads=32,
        num_key_value_heads=2, max_position_embeddings=32768, partial_rotary_factor=0.5,
    )  # fmt: skip
    heads, kv, width = heads_of(text)
    attention = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    root = builder.head(
        text.integer("vocab_size"),
        text.integer("hidden_size"),
        embed=f"{prefix}.embed_tokens",
        norm=f"{prefix}.norm.weight",
        head=head,
        tied=text.flag("tie_word_embeddings"),
    )
    return Skeleton(tuple(_dense_layer(site, attention) for site in builder.sites(f"{prefix}.layers")), root)


def _dense_layer(site: Site, attention: Attention) -> Layer:
    text = site.b.text
    hidden, inter, width = text.integer("hidden_size"), text.integer("intermediate_size"), attention.head_dim
    packed = "mlp.gate_up_proj"
    parts = (Part(packed, 2 * inter, created=False), *(Part(f"{packed}.{i}", inter, stored=False) for i in (0, 1)))
    norms = ("input_layernorm", "post_attention_layernorm", "post_self_attn_layernorm", "post_mlp_layernorm")
    modules: list[Module] = [
        site.qkv(hidden, attention.num_heads, attention.num_kv_heads, width, bias=text.flag("attention_bias")),
        site.row("self_attn.o_proj", hidden, attention.num_heads * width, "attention"),
        Linear(packed, parts, hidden, "column", "mlp", site.b.dtype, scheme=site.b.scheme([f"{site.prefix}.{packed}"])),
        site.row("mlp.down_proj", hidden, inter, "mlp"),
        *[site.norm(n, hidden) for n in norms],
    ]
    return site.layer([attention], modules)


def _vision(builder: Builder, prefix: str, vision: Config) -> Tower:
    # Glm4vVisionConfig
    vision.fill(
        depth=24, hidden_size=1536, num_heads=12, in_channels=3, image_size=336, patch_size=14, out_hidden_size=4096,
        intermediate_size=13696, spatial_merge_size=2, temporal_patch_size=2,
    )  # fmt: skip
    hidden, heads, out = vision.integer("hidden_size"), vision.integer("num_heads"), vision.integer("out_hidden_size")
    count, patch = vision.integer("depth", high=10_000), vision.integer("patch_size")
    inter, frames = vision.integer("intermediate_size"), vision.integer("temporal_patch_size")
    positions = (vision.integer("image_size") // patch) ** 2
    site, at = builder.site(prefix), "blocks.0"
    width = hidden // heads

    first: list[Module] = [
        site.tensor("patch_embed.proj.weight", hidden, vision.integer("in_channels"), frames, patch, patch),
        site.tensor("patch_embed.proj.bias", hidden),
        # vLLM: a rotary table of half the head's width for 8192 positions
        Param("rotary_pos_emb.cos_sin_cache", (8192, width // 2), builder.dtype, "multimodal", stored=False),
        site.tensor("embeddings.position_embedding.weight", positions, hidden),
        Param("embeddings.position_ids", (1, positions), "I64", "multimodal", stored=False, created_dtype="I64"),
        site.tensor("post_conv_layernorm.weight", hidden),
    ]
    layer: list[Module] = [
        site.tensor(f"{at}.norm1.weight", hidden),
        site.tensor(f"{at}.norm2.weight", hidden),
        site.packed_qkv(f"{at}.attn.qkv", hidden, heads, "multimodal"),
        site.row(f"{at}.attn.proj", hidden, hidden, "multimodal"),
        *site.gated_mlp(hidden, out, at=f"{at}.mlp", role="multimodal"),
    ]
    last = merger(builder, site, vision, inter)
    return site.tower("visual", "vision", [(1, first), (count, layer), (1, last)], count, hidden, out, heads)


def merger(builder: Builder, site: Site, vision: Config, inner: int) -> list[Module]:
    """What makes an encoder's patches the language model's tokens: Glm4vPatchMerger, and the norm before it."""
    hidden, out = vision.integer("hidden_size"), vision.integer("out_hidden_size")
    merge = vision.integer("spatial_merge_size")

    return [
        site.column("merger.proj", out, out, "multimodal"),
        *layer_norm(site, "merger.post_projection_norm", out),
        *site.gated_mlp(out, inner, at="merger", role="multimodal"),
        site.tensor("downsample.weight", out, hidden, merge, merge),
        site.tensor("downsample.bias", out),
        site.tensor("post_layernorm.weight", hidden),
    ]


# GLM-OCR: a small GLM-4 behind GLM-4.1V's encoder with norms of heads and no table of positions.
#
# vLLM: models/glm_ocr.py (0.32.0), glm4_1v.py.


def build_ocr(builder: Builder) -> Skeleton:
    # glm4.py:99, 231 (0.32.0): what Glm4Attention reads where the config does not say
    builder.text.fill(attention_bias=False, partial_rotary_factor=0.5)
    prefix, outer, head = builder.language_root("model.language_model", "language_model.model")
    language = dense_text(builder, prefix, head)
    tower = _ocr_vision(builder, f"{outer}visual", builder.config.sub("vision_config"))
    drafts = []  # glm_ocr_mtp.py: a layer of the same kind; embedding and head are the target's
    text, last = builder.text, language.layers[-1]
    nextn = text.integer("num_nextn_predict_layers", default=0, low=0, high=100)
    for site in builder.sites(f"{prefix}.layers", nextn, len(language.layers)):
        sizes = text.integer("hidden_size"), text.integer("vocab_size")
        drafts.append(site.layer(last.mixers, nextn_modules(site, *sizes, list(last.block.modules), own_vocab=False)))
    return Skeleton(language.layers, language.root, drafts=tuple(drafts), towers=(tower,), modalities=MODALITIES)


def _ocr_vision(builder: Builder, prefix: str, vision: Config) -> Tower:
    # GlmOcrVisionConfig
    vision.fill(
        depth=24, hidden_size=1024, num_heads=16, in_channels=3, patch_size=14, out_hidden_size=1536,
        intermediate_size=4096, spatial_merge_size=2, temporal_patch_size=2,
    )  # fmt: skip
    hidden, heads = vision.integer("hidden_size"), vision.integer("num_heads")
    count, patch = vision.integer("depth", high=10_000), vision.integer("patch_size")
    inner = vision.integer("intermediate_size")
    width, site, at = hidden // heads, builder.site(prefix), "blocks.0"

    frames = vision.integer("temporal_patch_size")
    first: list[Module] = [
        site.tensor("patch_embed.proj.weight", hidden, vision.integer("in_channels"), frames, patch, patch),
        site.tensor("patch_embed.proj.bias", hidden),
        Param("rotary_pos_emb.cos_sin_cache", (8192, width // 2), builder.dtype, "multimodal", stored=False),
    ]
    layer: list[Module] = [
        *(site.tensor(f"{at}.{name}.weight", hidden) for name in ("norm1", "norm2")),
        *(site.tensor(f"{at}.attn.{name}.weight", width) for name in ("q_norm", "k_norm")),
        site.packed_qkv(f"{at}.attn.qkv", hidden, heads, "multimodal", bias=True),
        site.row(f"{at}.attn.proj", hidden, hidden, "multimodal", bias=True),
        *site.gated_mlp(hidden, inner, at=f"{at}.mlp", bias=True, role="multimodal"),
    ]
    # the merger is as wide as the language model's MLP
    last = merger(builder, site, vision, builder.text.integer("intermediate_size"))
    return site.tower("visual", "vision", [(1, first), (count, layer), (1, last)], count, hidden, inner, heads)
