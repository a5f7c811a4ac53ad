"""Encoders with rotary positions: ModernBERT and NomicBERT. vLLM: models/modernbert.py, bert_with_rope.py.

Behind them: CLIP as an embedding model.
"""

from typing import Literal

from msgspec.structs import replace

from oomph.ir import Attention, Block, Layer, Modality, Module, Param, Part, Rope, Tower, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.decoder import norm, packed
from oomph.sources.arch.llava import clip
from oomph.sources.arch.siglip import layer_norm, patches, siglip
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    if not builder.text.dtype(builder.config.dtype()):
        builder.dtype = "F32"
    if "Modern" in builder.architecture:
        return _modern(builder)
    return _nomic(builder) if builder.architecture == "NomicBertModel" else _gte(builder)


def _norm(builder: Builder, name: str, dim: int, bias: bool) -> list[Module]:
    return [Param(f"{name}.{part}", (dim,), builder.dtype, "norm") for part in ("weight", "bias")[: 1 + bias]]


# --- ModernBERT ----------------------------------------------------------------------------------------------------


def _modern(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(
        vocab_size=50368, hidden_size=768, intermediate_size=1152, num_hidden_layers=22, num_attention_heads=12,
        max_position_embeddings=8192, global_attn_every_n_layers=3, local_attention=128,
    )  # fmt: skip
    hidden, heads = text.integer("hidden_size"), text.integer("num_attention_heads")
    width = hidden // heads
    classifies = "Classification" in builder.architecture
    at = "model." if classifies else ""
    every, window = text.integer("global_attn_every_n_layers"), text.integer("local_attention") // 2
    # the cache is none: a window only bounds what a token looks at
    mixers = {
        own: Attention("encoder_only", heads, heads, width, width, window=own, rope=_modern_rope(text, width, own))
        for own in (0, window)
    }
    layers = tuple(
        site.layer([mixers[window if site.index % every else 0]], _modern_layer(site, text, site.index, heads))
        for site in builder.sites(f"{at}layers")
    )
    return Skeleton(layers, _modern_root(builder, at, hidden, classifies), pooling=True)


def _modern_rope(text: Config, width: int, window: int) -> Rope:
    local, everywhere = text.number("local_rope_theta", default=1e4), text.number("global_rope_theta", default=1.6e5)
    params = {"rope_type": "default", "rope_theta": local if window else everywhere}
    return rope_of(text, width, params=params, dtype="F16")


def _modern_layer(site: Site, text: Config, index: int, heads: int) -> list[Module]:
    hidden, inner = text.integer("hidden_size"), text.integer("intermediate_size")
    bias, wide, named = text.flag("norm_bias"), text.flag("mlp_bias"), "mlp.Wi"
    qkv = site.packed_qkv("attn.Wqkv", hidden, heads, "attention", bias=text.flag("attention_bias"))
    whole = site.replicated(named, 2 * inner, hidden, "mlp", bias=wide, quantised=False)
    halves = tuple(Part(f"{named}.{n}", inner, stored=False, only="ModernBERT splits Wi") for n in ("input", "gate"))
    modules: list[Module] = [
        replace(qkv, scheme=None, quantisable=False),
        site.row("attn.Wo", hidden, hidden, "attention", bias=text.flag("attention_bias"), quantised=False),
        replace(whole, parts=(Part(named, 2 * inner, only="ModernBERT has Wi whole"),)),
        replace(whole, name=f"{named} split", parts=halves, shard="column"),
        site.row("mlp.Wo", hidden, inner, "mlp", bias=wide, quantised=False),
        *_norm(site.b, "mlp_norm", hidden, bias),
    ]
    return modules if index == 0 else [*modules, *_norm(site.b, "attn_norm", hidden, bias)]


def _modern_root(builder: Builder, at: str, hidden: int, classifies: bool) -> Block:
    text = builder.text
    bias = text.flag("norm_bias")
    modules: list[Module] = [
        Vocab(f"{at}embeddings.tok_embeddings", text.integer("vocab_size"), hidden, builder.dtype, "embed"),
        *_norm(builder, f"{at}embeddings.norm", hidden, bias),
        *_norm(builder, f"{at}final_norm", hidden, bias),
    ]
    if builder.architecture == "ColBERTModernBertModel":
        modules += _colbert(builder, hidden)
    if classifies:
        labels = text.integer("num_labels", default=len(text.table("id2label")) or 2)
        shapes: list[tuple[str, tuple[int, ...]]] = [
            ("head.dense.weight", (hidden, hidden)),
            ("head.norm.weight", (hidden,)),
            *([("head.dense.bias", (hidden,))] if text.flag("classifier_bias") else []),
            *([("head.norm.bias", (hidden,))] if bias else []),
            ("classifier.weight", (labels, hidden)),
            ("classifier.bias", (labels,)),
        ]
        # the head of token classification is built in the model's dtype, all but its last layer
        tokens = builder.architecture == "ModernBertForTokenClassification"
        for name, shape in shapes:
            dtype = "" if tokens and name.startswith("head.") else "F32"
            modules.append(Param(name, shape, builder.dtype, "lm_head", created_dtype=dtype))
    return builder.block(modules)


# --- NomicBERT -----------------------------------------------------------------------------------------------------


def _nomic(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(vocab_size=30528, n_embd=768, n_inner=3072, n_layer=12, n_head=12, type_vocab_size=2)
    hidden, heads = text.integer("n_embd"), text.integer("n_head")
    inner, bias = text.integer("n_inner"), text.flag("qkv_proj_bias")
    text.fill(hidden_size=hidden, num_attention_heads=heads)
    # config.py NomicBertModelConfig (0.21.0): without overrides no longer than it was trained for
    positions = text.integer("max_trained_positions", default=2048)
    base = {"rope_type": "default", "rope_theta": text.number("rotary_emb_base", default=1e3)}
    rope = rope_of(text, hidden // heads, params=base, positions=positions)
    attention = Attention("encoder_only", heads, heads, hidden // heads, hidden // heads, rope=rope)
    gated = text.text("activation_function", default="swiglu") == "swiglu"
    layers = tuple(
        site.layer(
            [attention],
            [
                site.packed_qkv("attn.Wqkv", hidden, heads, "attention", bias=bias),
                site.row("attn.out_proj", hidden, hidden, "attention", bias=bias),
                *_nomic_mlp(site, hidden, inner, bias, gated),
                *_norm(builder, "norm1", hidden, True),
                *_norm(builder, "norm2", hidden, True),
            ],
        )
        for site in builder.sites("encoder.layers", text.integer("n_layer", high=10_000))
    )
    root: list[Module] = [
        Vocab("embeddings.word_embeddings", text.integer("vocab_size"), hidden, builder.dtype, "embed"),
        Vocab("embeddings.token_type_embeddings", text.integer("type_vocab_size"), hidden, builder.dtype, "embed"),
        *_norm(builder, "emb_ln", hidden, True),
    ]
    longest = min(positions, text.integer("n_positions", "max_position_embeddings", default=8192))
    params = (("derived_max_len", longest), ("max_len_key", "max_trained_positions"))
    return Skeleton(layers, builder.block(root), pooling=True, max_position=longest, params=params)


def _nomic_mlp(site: Site, hidden: int, inner: int, bias: bool, gated: bool) -> list[Module]:
    down = site.row("mlp.fc2", hidden, inner, "mlp", bias=bias)
    if not gated:
        return [site.column("mlp.fc1", inner, hidden, "mlp", bias=bias), down]
    pair = [("mlp.fc11", inner), ("mlp.fc12", inner)]
    return [site.linear("mlp.gate_up_proj", pair, hidden, "column", "mlp", bias=bias), down]


# GTE (Alibaba's "new" models, Arctic-embed 2) and Jina's ColBERT: the same block, gated in GTE and without that bias.


def _gte(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(vocab_size=30528, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12)
    text.fill(max_position_embeddings=8192, type_vocab_size=0)
    hidden, heads = text.integer("hidden_size"), text.integer("num_attention_heads")
    inner, positions, jina = (
        text.integer("intermediate_size"),
        text.integer("max_position_embeddings"),
        "Jina" in builder.architecture,
    )
    at = "new." if builder.architecture == "GteNewForSequenceClassification" else ""
    # config.py:576 (0.32.0): whole multiples of eight
    rope = rope_of(text, hidden // heads, positions=-(-positions // 8) * 8 if jina else 0)
    attention = Attention("encoder_only", heads, heads, hidden // heads, hidden // heads, rope=rope)
    layers = tuple(
        site.layer(
            [attention],
            [
                site.packed_qkv("attention.qkv_proj", hidden, heads, "attention", bias=True),
                site.row("attention.o_proj", hidden, hidden, "attention", bias=True),
                *_gte_mlp(site, hidden, inner, jina),
                *_norm(builder, "attn_ln", hidden, True),
                *_norm(builder, "mlp_ln", hidden, True),
            ],
        )
        for site in builder.sites(f"{at}encoder.layer")
    )
    kinds, words = text.integer("type_vocab_size", low=0), f"{at}embeddings.word_embeddings"
    root: list[Module] = [
        Vocab(words, text.integer("vocab_size"), hidden, builder.dtype, "embed"),
        *([Vocab(f"{at}embeddings.token_type_embeddings", kinds, hidden, builder.dtype, "embed")] if kinds else []),
        *_norm(builder, f"{at}embeddings.LayerNorm", hidden, True),
        *(_colbert(builder, hidden) if jina else []),
    ]
    if at:
        labels = text.integer("num_labels", default=len(text.table("id2label")) or 2)
        heads_of_it = {"new.pooler.dense": (hidden, hidden), "classifier": (labels, hidden)}
        for name, shape in heads_of_it.items():
            root.append(Param(f"{name}.weight", shape, builder.dtype, "lm_head", created_dtype="F32"))
            root.append(Param(f"{name}.bias", shape[:1], builder.dtype, "lm_head", created_dtype="F32"))
    return Skeleton(layers, builder.block(root), pooling=True)


def _gte_mlp(site: Site, hidden: int, inner: int, jina: bool) -> list[Module]:
    if jina:
        up = site.column("mlp.fc1", inner, hidden, "mlp", bias=True)
        return [up, site.row("mlp.fc2", hidden, inner, "mlp", bias=True)]
    pair = [("mlp.up", inner, 0), ("mlp.gate", inner, 0)]
    return [
        packed(site, "mlp.up_gate_proj", pair, hidden),
        site.row("mlp.down_proj", hidden, inner, "mlp", bias=True),
    ]


def _colbert(builder: Builder, hidden: int) -> list[Module]:
    """colbert.py: a projection in float32, as wide as the config or the checkpoint says."""
    dim = builder.text.integer("colbert_dim", "dim", "projection_dim", default=128)
    return [Param("colbert_linear.weight", (dim, hidden), builder.dtype, "lm_head", created_dtype="F32")]


# CLIP as an embedding model: a causal text transformer that has a cache, and the vision encoder beside it.
#
# vLLM: models/clip.py CLIPEmbeddingModel.


def _text_encoder(builder: Builder, kind: Literal["full", "encoder_only"]) -> tuple[Layer, ...]:
    """The text layers of CLIP and SigLIP, which differ in whether they look ahead."""
    text = builder.text
    hidden, heads, inner = (text.integer(k) for k in ("hidden_size", "num_attention_heads", "intermediate_size"))
    width = hidden // heads
    attention = Attention(kind, heads, heads, width, width)
    return tuple(
        site.layer(
            [attention],
            [
                site.qkv(hidden, heads, heads, width, bias=True),
                site.row("self_attn.out_proj", hidden, hidden, "attention", bias=True),
                *norm(site, "layer_norm1", hidden, True),
                site.column("mlp.fc1", inner, hidden, "mlp", bias=True),
                site.row("mlp.fc2", hidden, inner, "mlp", bias=True),
                *norm(site, "layer_norm2", hidden, True),
            ],
        )
        for site in builder.sites("text_model.encoder.layers")
    )


def build_clip(builder: Builder) -> Skeleton:
    text, vision = builder.text, builder.config.sub("vision_config")
    # CLIPTextConfig, CLIPVisionConfig
    text.fill(
        vocab_size=49408, hidden_size=512, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=8,
        max_position_embeddings=77,
    )  # fmt: skip
    vision.fill(
        hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, image_size=224,
        patch_size=32,
    )  # fmt: skip
    hidden, layers = text.integer("hidden_size"), _text_encoder(builder, "full")
    project = builder.config.integer("projection_dim", default=512)
    positions, at = text.integer("max_position_embeddings"), "text_model"
    root: list[Module] = [
        Vocab(f"{at}.embeddings.token_embedding", text.integer("vocab_size"), hidden, builder.dtype, "embed"),
        Vocab(f"{at}.embeddings.position_embedding", positions, hidden, builder.dtype, "embed"),
        *(Param(f"{at}.final_layer_norm.{part}", (hidden,), builder.dtype, "norm") for part in ("weight", "bias")),
        Param("text_projection.weight", (project, hidden), builder.dtype, "other"),
    ]
    tower = clip(builder, "vision_model", vision)
    wide = vision.integer("hidden_size")
    visual = builder.site("").tensor("visual_projection.weight", project, wide)
    patches = (vision.integer("image_size") // vision.integer("patch_size")) ** 2
    return Skeleton(
        layers,
        builder.block(root),
        towers=(tower, Tower("visual_projection", "vision", "", ((1, builder.block([visual])),))),
        modalities=(Modality("image", patches + 1),),
        pooling=True,
    )


# SigLIP as an embedding model: both encoders look both ways; the vision encoder ends in an attention over its patches.
#
# vLLM: models/siglip.py SiglipEmbeddingModel.


def build_siglip(builder: Builder) -> Skeleton:
    text, vision = builder.text, builder.config.sub("vision_config")
    text.fill(
        vocab_size=32000, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12,
        max_position_embeddings=64,
    )  # fmt: skip
    hidden, layers = text.integer("hidden_size"), _text_encoder(builder, "encoder_only")
    project, positions, at = (
        text.integer("projection_size", default=hidden),
        text.integer("max_position_embeddings"),
        "text_model",
    )
    root: list[Module] = [
        Vocab(f"{at}.embeddings.token_embedding", text.integer("vocab_size"), hidden, builder.dtype, "embed"),
        Vocab(f"{at}.embeddings.position_embedding", positions, hidden, builder.dtype, "embed"),
        Param(f"{at}.embeddings.position_ids", (1, positions), "I64", "embed", stored=False, created_dtype="I64"),
        *(Param(f"{at}.final_layer_norm.{part}", (hidden,), builder.dtype, "norm") for part in ("weight", "bias")),
        Param(f"{at}.head.weight", (project, hidden), builder.dtype, "other"),
        Param(f"{at}.head.bias", (project,), builder.dtype, "other"),
    ]
    tower = siglip(builder, "vision_model", vision)
    has_head = vision.flag("vision_use_head", default=True)
    towers = (tower, _siglip_head(builder, vision)) if has_head else (tower,)
    size = patches(vision)
    return Skeleton(
        layers,
        builder.block(root),
        towers=towers,
        modalities=(Modality("image", 1 if has_head else size),),
        pooling=True,
    )


def _siglip_head(builder: Builder, vision: Config) -> Tower:
    """SiglipMultiheadAttentionPoolingHead: torch's own attention, then the encoder's MLP."""
    site, wide, inner = (
        builder.site("vision_model.head"),
        vision.integer("hidden_size"),
        vision.integer("intermediate_size"),
    )
    modules: list[Module] = [
        site.tensor("probe", 1, 1, wide),
        site.tensor("attention.in_proj_weight", 3 * wide, wide),
        site.tensor("attention.in_proj_bias", 3 * wide),
        site.tensor("attention.out_proj.weight", wide, wide),
        site.tensor("attention.out_proj.bias", wide),
        *layer_norm(site, "layernorm", wide),
        site.column("mlp.fc1", inner, wide, "multimodal", bias=True),
        site.row("mlp.fc2", wide, inner, "multimodal", bias=True),
    ]
    return site.tower("vision_head", "vision", [(1, modules)])


# ColModernVBERT: SigLIP, pixels shuffled together and one linear layer, ModernBERT, a projection.
#
# vLLM: models/colmodernvbert.py, transformers_utils/configs/colmodernvbert.py.


def build_modern_vision(builder: Builder) -> Skeleton:
    outer = builder.config.sub("vlm_config")
    vision, text = outer.sub("vision_config"), builder.text
    # the config class builds both encoders from these alone (colmodernvbert.py configs)
    outer_sizes = {key: outer.get(key) for key in ("hidden_size", "vocab_size") if outer.has(key)}
    fixed = {"hidden_size": text.integer("hidden_size", default=768), "num_hidden_layers": 22, **outer_sizes}
    inner = text.integer("intermediate_size", default=1152)
    builder.text = Config({**fixed, "intermediate_size": inner, "num_attention_heads": 12}, text.where)
    more = outer.integer("additional_vocab_size", default=40, low=0)
    model = _modern(builder)
    hidden, dim = builder.text.integer("hidden_size"), builder.config.integer("embedding_dim", default=128)
    root = [
        replace(module, rows=module.rows + more) if isinstance(module, Vocab) else module
        for module in model.root.modules
    ]
    head = [
        Param(f"custom_text_proj.{part}", shape, builder.dtype, "lm_head", created_dtype="F32")
        for part, shape in (("weight", (dim, hidden)), ("bias", (dim,)))
    ]
    wide = vision.integer("embed_dim", "hidden_size", default=768)
    sizes = {
        "hidden_size": wide, "intermediate_size": vision.integer("intermediate_size", default=4 * wide),
        "num_hidden_layers": 12, "num_attention_heads": 12, "image_size": vision.integer("image_size", default=512),
        "patch_size": vision.integer("patch_size", default=16),
    }  # fmt: skip
    seen = Config(sizes, vision.where)
    shuffle = outer.integer("pixel_shuffle_factor", default=4)
    site = builder.site("model.connector")
    linear = site.replicated("modality_projection", hidden, wide * shuffle**2, "multimodal", quantised=False)
    return Skeleton(
        model.layers,
        builder.block([*root, *head]),
        towers=(siglip(builder, "model.vision_model", seen), site.tower("connector", "vision", [(1, [linear])])),
        modalities=(Modality("image", patches(seen) // shuffle**2 * 17),),
        pooling=True,
    )
