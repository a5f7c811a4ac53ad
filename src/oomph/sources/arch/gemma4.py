"""Gemma 4: dense, MoE beside a dense MLP (26B-A4B), and E2B/E4B with per-layer embeddings and shared caches.

vLLM: models/gemma4.py, gemma4_mm.py. Full-attention layers have heads of their own width, and in the larger models no
V: the keys serve as values, yet vLLM creates the V rows. Layers that share a cache keep their K and V weights.

Behind it: Gemma 4's assistants.
"""

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Attention, Layer, Modality, Module, Param, Part, Rope, Routing, Tower, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.gemma import layer_types, normalizer
from oomph.sources.arch.gemma4_towers import audio_tower, projector, unified_embedders, vision_tower
from oomph.sources.config import Config

# gemma4_mm.py: _VIDEO_MAX_FRAMES frames of _VIDEO_MAX_SOFT_TOKENS + 2 + 6 tokens; Gemma4Processor.audio_seq_length
_VIDEO_TOKENS = 32 * (70 + 2 + 6)
_AUDIO_TOKENS = 750


def build(builder: Builder) -> Skeleton:
    text = builder.text
    # Gemma4TextConfig; Gemma4UnifiedTextConfig has no per-layer embeddings
    diffuses = builder.architecture == "DiffusionGemmaForBlockDiffusion"
    if diffuses:  # diffusion_gemma.py: DiffusionGemmaTextConfig, and attention_k_eq_v whatever the config says
        text.fill(
            hidden_size_per_layer_input=0, max_position_embeddings=131072, sliding_window=512, attention_k_eq_v=True,
        )  # fmt: skip
    elif builder.architecture == "Gemma4UnifiedForConditionalGeneration":
        text.fill(hidden_size_per_layer_input=0, max_position_embeddings=262144, sliding_window=1024)
    else:
        text.fill(hidden_size_per_layer_input=256, max_position_embeddings=131072, sliding_window=512)
    text.fill(
        vocab_size=262144, hidden_size=2304, intermediate_size=9216, num_hidden_layers=30, num_attention_heads=8,
        num_key_value_heads=4, head_dim=256, global_head_dim=512, vocab_size_per_layer_input=262144,
        tie_word_embeddings=True,
    )  # fmt: skip
    unified = builder.architecture == "Gemma4UnifiedForConditionalGeneration"
    wrapped = text is not builder.config
    prefix = builder.root("model.language_model", "language_model.model") if wrapped else "model"
    types = layer_types(text, 6)
    types[-1] = "full_attention"  # Gemma4TextConfig forces it
    mixers = _mixers(text, types)
    layers = tuple(_layer(builder, prefix, i, kind, mixers[i], len(types)) for i, kind in enumerate(types))
    hidden, ple = text.integer("hidden_size"), text.integer("hidden_size_per_layer_input", default=0, low=0)
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        embed=f"{prefix}.embed_tokens",
        norm=f"{prefix}.norm.weight",
        tied=builder.config.flag("tie_word_embeddings", default=text.flag("tie_word_embeddings")),
        extra=[
            *(unified_embedders(builder, hidden) if unified else []),
            *_per_layer_root(builder, prefix, hidden, ple * len(types), ple),
            *(_self_conditioning(builder, hidden) if diffuses else []),
            normalizer(builder, prefix),
        ],
        everywhere=True,
    )
    # gemma4_mm.py:993: a buffer of this many values per scheduled token, kept for the CUDA graphs
    params = (("per_layer_embeddings", ple * len(types)),) if wrapped and ple else ()
    if unified:
        return Skeleton(layers, root, modalities=_unified_modalities(builder))
    towers, modalities = _towers(builder, prefix.startswith("model.")) if wrapped else ((), ())
    if diffuses:
        note = "what the diffusion sampler needs (logits of whole blocks in float32) is not in this plan"
        few = (("most_requests", 8),)
        return Skeleton(layers, root, towers=towers, modalities=modalities, params=few, warnings=(note,))
    return Skeleton(layers, root, towers=towers, modalities=modalities, params=params)


def _self_conditioning(builder: Builder, hidden: int) -> list[Module]:
    """diffusion_gemma.py DiffusionGemmaSelfConditioning: nn.Linear, whole on every rank."""
    site, at = builder.site(""), "model.decoder.self_conditioning"
    inner = builder.config.integer("self_conditioning_size", default=builder.text.integer("intermediate_size"))
    return [
        Param(f"{at}.pre_norm.weight", (hidden,), builder.dtype, "other"),
        site.replicated(f"{at}.gate_proj", inner, hidden, "other", quantised=False),
        site.replicated(f"{at}.up_proj", inner, hidden, "other", quantised=False),
        site.replicated(f"{at}.down_proj", hidden, inner, "other", quantised=False),
    ]


def _unified_modalities(builder: Builder) -> tuple[Modality, ...]:
    image = builder.config.sub("vision_config").integer("num_soft_tokens", default=280)
    audio = (Modality("audio", _AUDIO_TOKENS),) if builder.config.has("audio_config") else ()
    return (Modality("image", image), *audio, Modality("video", _VIDEO_TOKENS))


def _mixers(text: Config, types: list[str]) -> list[Attention]:
    """gemma4.py:419 (0.21.0): the last `num_kv_shared_layers` layers read the cache of the last layer of their kind
    before them."""
    heads, kv = text.integer("num_attention_heads"), text.integer("num_key_value_heads")
    global_kv = text.integer("num_global_key_value_heads", default=kv) if text.flag("attention_k_eq_v") else kv
    full = Attention(
        "full",
        heads,
        global_kv,
        text.integer("global_head_dim"),
        text.integer("global_head_dim"),
        rope=_rope(text, True),
    )
    width = text.integer("head_dim")
    window = text.integer("sliding_window")
    sliding = Attention("sliding_window", heads, kv, width, width, window=window, rope=_rope(text, False))
    first_shared = len(types) - text.integer("num_kv_shared_layers", default=0, low=0, high=len(types) - 1)
    out = []
    for i, kind in enumerate(types):
        mixer = full if kind == "full_attention" else sliding
        owner = max((j for j in range(first_shared) if types[j] == kind), default=None) if i >= first_shared else None
        out.append(mixer if owner is None else replace(mixer, shares_cache_of=owner))
    return out


def _rope(text: Config, full: bool) -> Rope:
    defaults = (
        {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6}
        if full
        else {"rope_type": "default", "rope_theta": 1e4}
    )
    rope = text.table("rope_parameters").get("full_attention" if full else "sliding_attention")
    head_dim = text.integer("global_head_dim" if full else "head_dim")
    return rope_of(text, head_dim, params=rope if isinstance(rope, dict) else defaults)


def _layer(builder: Builder, prefix: str, index: int, kind: str, mixer: Attention, count: int) -> Layer:
    text = builder.text
    inter = text.integer("intermediate_size")
    shared = text.integer("num_kv_shared_layers", default=0, low=0)
    if shared and index >= count - shared and text.flag("use_double_wide_mlp"):
        inter *= 2
    place = f"{prefix}.layers.{index}"
    return builder.layer_like(
        (prefix, kind, mixer, inter), index, place, [mixer], lambda site: _modules(site, kind, mixer, inter)
    )


def _modules(site: Site, kind: str, mixer: Attention, inter: int) -> list[Module]:
    text = site.b.text
    hidden = text.integer("hidden_size")
    heads, kv, width = mixer.num_heads, mixer.num_kv_heads, mixer.head_dim
    bias = text.flag("attention_bias")
    v_stored = not (kind == "full_attention" and text.flag("attention_k_eq_v"))
    kv_only = "kv of layers that share a cache" if mixer.shares_cache_of is not None else ""
    parts = [
        Part("self_attn.q_proj", heads * width, heads),
        Part("self_attn.k_proj", kv * width, kv, only=kv_only),
        Part("self_attn.v_proj", kv * width, kv, stored=v_stored, only=kv_only),
    ]
    modules: list[Module] = [
        site.linear("self_attn.qkv_proj", parts, hidden, "column", "attention", bias=bias),
        site.row("self_attn.o_proj", hidden, heads * width, "attention", bias=bias),
        site.norm("self_attn.q_norm", width),
        replace(site.norm("self_attn.k_norm", width), only=kv_only),
        *site.gated_mlp(hidden, inter),
        site.norm("input_layernorm", hidden),
        site.norm("post_attention_layernorm", hidden),
        site.norm("pre_feedforward_layernorm", hidden),
        site.norm("post_feedforward_layernorm", hidden),
    ]
    if text.flag("enable_moe_block", "use_second_mlp_block"):
        modules += _moe(site, hidden, text)
    ple = text.integer("hidden_size_per_layer_input", default=0, low=0)
    if ple:
        modules += [
            site.replicated("per_layer_input_gate", ple, hidden, "other"),
            site.replicated("per_layer_projection", hidden, ple, "other"),
            site.norm("post_per_layer_input_norm", hidden),
        ]
    return [*modules, Param("layer_scalar", (1,), site.b.dtype, "other")]


def _moe(site: Site, hidden: int, text: Config) -> list[Module]:
    count, dtype = text.integer("num_experts"), site.b.dtype
    inter = text.integer("moe_intermediate_size", "expert_intermediate_size")
    experts = site.experts(
        count,
        hidden,
        inter,
        text.integer("top_k_experts", default=1),
        at="experts",
        activation="gelu_tanh",
        routing=Routing(custom="gemma4"),
    )
    if experts.scheme is None:  # unquantised checkpoints have all experts in one tensor
        experts = replace(experts, layout="stacked")
    return [
        Param("router.scale", (hidden,), dtype, "router"),
        Param("router.root_size", (), dtype, "router", stored=False),
        site.replicated("router.proj", count, hidden, "router", quantised=False),
        Param("router.per_expert_scale", (count,), dtype, "router"),
        experts,
        site.norm("post_feedforward_layernorm_1", hidden),
        site.norm("post_feedforward_layernorm_2", hidden),
        site.norm("pre_feedforward_layernorm_2", hidden),
    ]


def _per_layer_root(builder: Builder, prefix: str, hidden: int, width: int, ple: int) -> list[Module]:
    if not ple:
        return []
    project = builder.site("").column(f"{prefix}.per_layer_model_projection", width, hidden, "other")
    scales = ("embed_scale_per_layer", "per_layer_input_scale", "per_layer_projection_scale")
    return [
        Vocab(
            f"{prefix}.embed_tokens_per_layer",
            builder.text.integer("vocab_size_per_layer_input"),
            width,
            builder.dtype,
            "embed",
            everywhere=True,
        ),
        project,
        Param(f"{prefix}.per_layer_projection_norm.weight", (ple,), builder.dtype, "norm", everywhere=True),
        *(Param(f"{prefix}.{n}", (), builder.dtype, "other", stored=False, everywhere=True) for n in scales),
    ]


def _towers(builder: Builder, outer: bool) -> tuple[tuple[Tower, ...], tuple[Modality, ...]]:
    before = "model." if outer else ""
    towers: list[Tower] = []
    modalities: list[Modality] = []
    hidden = builder.text.integer("hidden_size")
    if builder.config.has("vision_config"):
        vision = builder.config.sub("vision_config")
        towers += [
            vision_tower(builder, f"{before}vision_tower", vision),
            projector(builder, f"{before}embed_vision", "vision", hidden, vision.integer("hidden_size")),
        ]
        modalities.append(Modality("image", vision.integer("default_output_length", default=280)))
    if builder.config.has("audio_config"):
        audio = builder.config.sub("audio_config")
        towers += [
            audio_tower(builder, f"{before}audio_tower", audio),
            projector(builder, f"{before}embed_audio", "audio", hidden, audio.integer("output_proj_dims")),
        ]
        modalities.append(Modality("audio", _AUDIO_TOKENS))
    modalities.append(Modality("video", _VIDEO_TOKENS))
    return tuple(towers), tuple(modalities)


# Gemma 4's assistants: small drafters that read the target's caches. vLLM: models/gemma4_mtp.py.
#
# Their layers have queries only, so no cache is their own; embedding and head stay in the drafter's width.


def build_assistant(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(
        vocab_size=262144, hidden_size=256, intermediate_size=2048, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=1, head_dim=256, global_head_dim=512, max_position_embeddings=131072,
        tie_word_embeddings=True,
    )  # fmt: skip
    hidden, vocab = text.integer("hidden_size"), text.integer("vocab_size")
    target = builder.config.integer("backbone_hidden_size", default=1536)
    types = layer_types(text, 6)
    types[-1] = "full_attention"  # Gemma4TextConfig forces it
    site = builder.site("")
    extra: list[Module] = [
        site.column("pre_projection", hidden, 2 * target, "other"),
        site.row("post_projection", target, hidden, "other"),
        Param("model.normalizer", (), builder.dtype, "other", stored=False),
    ]
    if builder.config.flag("use_ordered_embeddings"):
        centroids = builder.config.integer("num_centroids", default=2048)
        extra += [
            Param("masked_embedding.centroids.weight", (centroids, hidden), builder.dtype, "other"),
            Param("masked_embedding.token_ordering", (vocab,), "I64", "other", created_dtype="I64"),
        ]
    tied = builder.config.flag("tie_word_embeddings", default=text.flag("tie_word_embeddings"))
    root = builder.head(vocab, hidden, tied=tied, extra=extra)
    places = builder.sites("model.layers", len(types))
    return Skeleton(tuple(_assistant_layer(site, kind) for site, kind in zip(places, types)), root)


def _assistant_layer(site: Site, kind: str) -> Layer:
    text = site.b.text
    if kind not in ("full_attention", "sliding_attention"):
        raise ConfigError(f"{text.where}: layer_types has {kind!r}, which is not known")
    hidden, heads = text.integer("hidden_size"), text.integer("num_attention_heads")
    width = text.integer("global_head_dim" if kind == "full_attention" else "head_dim")
    queries = ("self_attn.q_proj", heads * width, heads)
    norms = ("input", "post_attention", "pre_feedforward", "post_feedforward")
    modules: list[Module] = [
        site.linear("self_attn.q_proj", [queries], hidden, "column", "attention", bias=text.flag("attention_bias")),
        site.row("self_attn.o_proj", hidden, heads * width, "attention", bias=text.flag("attention_bias")),
        site.norm("self_attn.q_norm", width),
        *site.gated_mlp(hidden, text.integer("intermediate_size")),
        *[site.norm(f"{n}_layernorm", hidden) for n in norms],
        Param("layer_scalar", (1,), site.b.dtype, "other"),
    ]
    return site.layer([], modules)
