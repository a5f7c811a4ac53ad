"""MiniMax-M2, M2.5, M2.7: every layer routed, norms over all of q and all of k. vLLM: models/minimax_m2.py.

Behind it: MiniMax-Text-01 and M1, MiniMax-M3.
"""

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Attention, Indexer, Layer, Linear, Modality, Module, Param, Routing, State, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.arch.mla import score_correction
from oomph.sources.arch.siglip import layer_norm
from oomph.sources.config import Config


def build(builder: Builder) -> Skeleton:
    text = builder.text
    hidden, inter = text.integer("hidden_size"), text.integer("intermediate_size")
    heads, kv, head_dim = heads_of(text)
    count, top_k = text.integer("num_local_experts"), text.integer("num_experts_per_tok")
    # minimax_m2.py:206 (0.21.0): `rotary_dim` of each head is rotated
    text.fill(partial_rotary_factor=text.integer("rotary_dim", default=head_dim) / head_dim)
    attention = Attention("full", heads, kv, head_dim, head_dim, rope=rope_of(text, head_dim))
    normed = [("q", heads * head_dim), ("k", kv * head_dim)] if text.flag("use_qk_norm", default=True) else []
    corrected = text.flag("use_routing_bias", default=True)
    layers = []
    for site in builder.sites("model.layers"):
        gate = site.replicated("block_sparse_moe.gate", count, hidden, "router", quantised=False)
        modules: list[Module] = [
            site.qkv(hidden, heads, kv, head_dim, bias=text.flag("attention_bias")),
            site.row("self_attn.o_proj", hidden, heads * head_dim, "attention"),
            # mamba/linear_attn.py MiniMaxText01RMSNormTP: the weight is divided by the ranks
            *(Param(f"self_attn.{q}_norm.weight", (wide,), builder.dtype, "norm", shard_dim=0) for q, wide in normed),
            *([score_correction("block_sparse_moe.e_score_correction_bias", count)] if corrected else []),
            site.experts(
                count,
                hidden,
                inter,
                top_k,
                at="block_sparse_moe.experts",
                projections=("w1", "w3", "w2"),
                routing=Routing("sigmoid", biased=True),
            ),
            replace(gate, created_dtype="F32"),
            site.norm("input_layernorm", hidden),
            site.norm("post_attention_layernorm", hidden),
        ]
        layers.append(site.layer([attention], modules))
    root = builder.head(text.integer("vocab_size"), hidden, tied=text.flag("tie_word_embeddings"))
    return Skeleton(tuple(layers), root)


# MiniMax-Text-01 and MiniMax-M1: linear attention with full attention on some layers, every MLP routed.
#
# vLLM: models/minimax_text_01.py, layers/mamba/linear_attn.py (until 0.23.0).


def build_text(builder: Builder) -> Skeleton:
    text = builder.text
    heads, kv, width = heads_of(text)
    hidden, inner = text.integer("hidden_size"), text.integer("num_attention_heads") * width
    share = text.integer("rotary_dim", default=width) / width
    base = text.number("rope_theta", default=1e7)
    rope = rope_of(text, width, params={"rope_theta": base, "partial_rotary_factor": share}, dtype="F32")
    full = Attention("full", heads, kv, width, width, rope=rope)
    linear = State("linear_attention", num_heads=heads, head_dim=width)
    layers = []
    for site, is_full in zip(builder.sites("model.layers"), _kinds(text)):
        modules: list[Module] = (
            [site.qkv(hidden, heads, kv, width), site.row("self_attn.o_proj", hidden, inner, "attention")]
            if is_full
            else _linear(site, hidden, inner)
        )
        modules += [
            *_mlp(site, text, hidden),
            site.norm("input_layernorm", hidden),
            site.norm("post_attention_layernorm", hidden),
        ]
        layers.append(site.layer([full if is_full else linear], modules))
    root = builder.head(text.integer("vocab_size"), hidden, tied=text.flag("tie_word_embeddings"))
    # minimax_text_01.py: the head is built in float32
    wide = [replace(module, created_dtype="F32") if module.name == "lm_head" else module for module in root.modules]
    return Skeleton(tuple(layers), builder.block(wide))


def _kinds(text: Config) -> list[bool]:
    """Whether each layer has full attention."""
    count = text.integer("num_hidden_layers", high=10_000)
    kinds = [k == 1 for k in text.items("attn_type_list")] or [k == "full_attention" for k in text.items("layer_types")]
    if len(kinds) < count:
        raise ConfigError(f"{text.where}: neither attn_type_list nor layer_types names {count} layers")
    return kinds[:count]


def _linear(site: Site, hidden: int, inner: int) -> list[Module]:
    return [
        site.column("self_attn.qkv_proj", 3 * inner, hidden, "linear_attn"),
        site.column("self_attn.output_gate", inner, hidden, "linear_attn"),
        site.row("self_attn.out_proj", hidden, inner, "linear_attn"),
        Param("self_attn.norm.weight", (inner,), site.b.dtype, "linear_attn", shard_dim=0),
    ]


def _mlp(site: Site, text: Config, hidden: int) -> list[Module]:
    count, inner, at = (
        text.integer("num_local_experts", default=1),
        text.integer("intermediate_size"),
        "block_sparse_moe",
    )
    if count == 1:
        return site.gated_mlp(hidden, inner, at="mlp")
    gate = site.replicated(f"{at}.gate", count, hidden, "router", quantised=False)
    top_k = text.integer("num_experts_per_tok", default=2)
    experts = site.experts(count, hidden, inner, top_k, at=f"{at}.experts", projections=("w1", "w3", "w2"))
    return [replace(gate, created_dtype="F32"), experts]


# MiniMax-M3: block-sparse attention with an index branch inside the fused projection, a shared expert, a vision tower.
#
# vLLM: models/minimax_m3/ (0.32.0).


def build_m3(builder: Builder) -> Skeleton:
    text = builder.text
    heads, kv, width = heads_of(text)
    text.fill(partial_rotary_factor=text.integer("rotary_dim", default=width) / width)
    wrapped = text is not builder.config
    prefix = "language_model.model" if wrapped else "model"
    full = Attention("full", heads, kv, width, width, rope=rope_of(text, width))
    sparse = replace(full, indexer=_indexer(text.sub("sparse_attention_config")))
    count = text.integer("num_hidden_layers", high=10_000)
    indexed = _switches(text.sub("sparse_attention_config"), "sparse_attention_freq", count)
    routed = _switches(text, "moe_layer_freq", count)
    mixers = [sparse if is_indexed else full for is_indexed in indexed]
    layers = tuple(
        site.layer([mixer], _modules(builder, site, mixer, routed=experts))
        for site, mixer, experts in zip(builder.sites(f"{prefix}.layers", count), mixers, routed)
    )
    root = builder.head(
        text.integer("vocab_size"),
        text.integer("hidden_size"),
        embed=f"{prefix}.embed_tokens",
        norm=f"{prefix}.norm.weight",
        head="language_model.lm_head" if wrapped else "lm_head",
        tied=text.flag("tie_word_embeddings"),
    )
    drafts = _drafts(builder, f"{prefix}.mtp", sparse) if wrapped else ()
    if not wrapped or not builder.config.has("vision_config"):
        return Skeleton(layers, root, drafts)
    vision = builder.config.sub("vision_config")
    side = vision.integer("image_size", default=2016) // (2 * vision.integer("patch_size", default=14))
    return Skeleton(layers, root, drafts, towers=_towers(builder, vision), modalities=(Modality("image", side * side),))


def _indexer(config: Config) -> Indexer:
    top_k = config.integer("sparse_topk_blocks", default=16) * config.integer("sparse_block_size", default=128)
    return Indexer(
        config.integer("sparse_num_index_heads", default=4), config.integer("sparse_index_dim", default=128), top_k
    )


def _switches(config: Config, key: str, count: int) -> list[bool]:
    numbers = config.integers(key)
    if numbers and len(numbers) < count:
        raise ConfigError(f"{config.where}: {key} does not name {count} layers")
    return [bool(x) for x in numbers[:count]] if numbers else [True] * count


def _drafts(builder: Builder, prefix: str, sparse: Attention) -> tuple[Layer, ...]:
    """nvidia/mtp.py: a sparse layer between norms; embedding and head are the target's. Not every checkpoint has it."""
    hidden, out = builder.text.integer("hidden_size"), []
    stored = builder.stores(f"{prefix}.", False)
    count = builder.text.integer("num_mtp_modules", default=0, low=0, high=100)
    for site in builder.sites(f"{prefix}.layers", count):
        modules = [
            *(site.norm(name, hidden) for name in ("enorm", "hnorm", "final_layernorm")),
            site.replicated("eh_proj", hidden, 2 * hidden, "other", quantised=False),
            *_modules(builder, builder.site(f"{site.prefix}.transformer_layer"), sparse, routed=True),
        ]
        out.append(site.layer([sparse], modules if stored else [_unstored(module) for module in modules]))
    return tuple(out)


def _unstored(module: Module) -> Module:
    if isinstance(module, Linear):
        return replace(module, parts=tuple(replace(p, stored=False) for p in module.parts))
    return replace(module, stored=False)


def _modules(builder: Builder, site: Site, mixer: Attention, *, routed: bool) -> list[Module]:
    text = builder.text
    hidden, width, at = text.integer("hidden_size"), mixer.head_dim, "self_attn"
    parts = [
        (f"{at}.q_proj", mixer.num_heads * width, mixer.num_heads),
        (f"{at}.k_proj", mixer.num_kv_heads * width, mixer.num_kv_heads),
        (f"{at}.v_proj", mixer.num_kv_heads * width, mixer.num_kv_heads),
    ]
    norms = [site.norm(f"{at}.q_norm", width), site.norm(f"{at}.k_norm", width)]
    if mixer.indexer is not None:
        wide = mixer.indexer.head_dim
        parts += [
            (f"{at}.index_q_proj", mixer.indexer.heads * wide, mixer.indexer.heads),
            (f"{at}.index_k_proj", wide, 1),
        ]
        norms += [site.norm(f"{at}.index_q_norm", wide), site.norm(f"{at}.index_k_norm", wide)]
    modules: list[Module] = [
        site.linear(f"{at}.qkv_proj", parts, hidden, "column", "attention"),
        site.row(f"{at}.o_proj", hidden, mixer.num_heads * width, "attention"),
        *norms,
        *(
            _moe(site, text)
            if routed
            else site.gated_mlp(hidden, text.integer("dense_intermediate_size", "intermediate_size"))
        ),
    ]
    return [*modules, site.norm("input_layernorm", hidden), site.norm("post_attention_layernorm", hidden)]


def _moe(site: Site, text: Config) -> list[Module]:
    hidden, count, at = text.integer("hidden_size"), text.integer("num_local_experts"), "block_sparse_moe"
    gate = site.replicated(f"{at}.gate", count, hidden, "router", quantised=False)
    shared = text.integer("n_shared_experts", default=0, low=0) * text.integer(
        "shared_intermediate_size", default=0, low=0
    )
    modules: list[Module] = [
        score_correction(f"{at}.e_score_correction_bias", count),
        replace(gate, created_dtype="F32"),
    ]
    if shared:
        modules += site.gated_mlp(hidden, shared, at=f"{at}.shared_experts", role="shared_experts")
    inter = text.integer("moe_intermediate_size", "intermediate_size")
    top_k = text.integer("num_experts_per_tok")
    experts = site.experts(
        count,
        hidden,
        inter,
        top_k,
        at=f"{at}.experts",
        projections=("w1", "w3", "w2"),
        activation="swigluoai_uninterleave",
        routing=Routing("sigmoid", biased=True),
    )
    return [*modules, experts]


def _towers(builder: Builder, vision: Config) -> tuple[Tower, ...]:
    hidden, inter = vision.integer("hidden_size", default=1280), vision.integer("intermediate_size", default=5120)
    heads, count = vision.integer("num_attention_heads", default=16), vision.integer("num_hidden_layers", default=32)
    patch = vision.integer("patch_size", default=14)
    site = builder.site("vision_tower.vision_model")
    first: list[Module] = [
        site.tensor("embeddings.patch_embedding.weight", hidden, 3, 2, patch, patch),
        *layer_norm(site, "pre_layrnorm", hidden),
        *[
            Param(f"inv_freq_{n}", (hidden // heads // 6,), "F32", "multimodal", stored=False, created_dtype="F32")
            for n in ("t", "h", "w")
        ],
    ]
    at = "encoder.layers.0."
    layer: list[Module] = [
        *layer_norm(site, f"{at}layer_norm1", hidden),
        site.qkv(hidden, heads, heads, hidden // heads, at=f"{at}self_attn", bias=True, role="multimodal"),
        site.row(f"{at}self_attn.out_proj", hidden, hidden, "multimodal", bias=True),
        *layer_norm(site, f"{at}layer_norm2", hidden),
        site.column(f"{at}mlp.fc1", inter, hidden, "multimodal", bias=True),
        site.row(f"{at}mlp.fc2", hidden, inter, "multimodal", bias=True),
    ]
    tower = site.tower("vision_tower", "vision", [(1, first), (count, layer)], count, hidden, inter, heads)
    text = builder.text.integer("hidden_size")
    wide = builder.config.integer("projector_hidden_size", default=text)
    pairs = (("multi_modal_projector", hidden), ("patch_merge_mlp", 4 * text))
    return (tower, *(_pair(builder, name, inputs, wide, text) for name, inputs in pairs))


def _pair(builder: Builder, name: str, inputs: int, wide: int, out: int) -> Tower:
    site = builder.site(name)
    modules = [
        site.column("linear_1", wide, inputs, "multimodal", bias=True),
        site.row("linear_2", out, wide, "multimodal", bias=True),
    ]
    return Tower(name, "vision", name, ((1, builder.block(modules)),))
