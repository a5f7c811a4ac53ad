"""Kimi Linear and Kimi K3: delta attention (KDA) with a latent-attention layer after every few, routed MLP.

vLLM: models/kimi_linear.py and layers/kda.py (to 0.26), models/kimi_k3/ (0.27 and later). K3 adds gates of full rank,
residual attention, a latent space for the routed experts and a vision tower.
"""

from math import prod

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Attention, Layer, Linear, Mixer, Modality, Module, Param, Part, Routing, State, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.kimi import IMAGE_TOKENS
from oomph.sources.arch.mla import mla_mixer, mla_modules
from oomph.sources.config import Config

_AS_K3 = "Kimi Linear as K3"
_COMPILED = "KDA with compiled kernels"


def build(builder: Builder) -> Skeleton:
    text = builder.text
    wrapped = builder.architecture == "KimiK3ForConditionalGeneration"
    prefix = "language_model.model" if wrapped else "model"
    kda = set(text.sub("linear_attn_config").integers("kda_layers"))
    if not text.has("linear_attn_config"):
        raise ConfigError(f"{text.where} has no linear_attn_config")
    layers = tuple(_layer(site, site.index + 1 in kda) for site in builder.sites(f"{prefix}.layers"))
    hidden = text.integer("hidden_size")
    extra: list[Module] = []
    if text.integer("attn_res_block_size", default=0, low=0):
        extra = [
            Param(f"{prefix}.output_attn_res_norm.weight", (hidden,), builder.dtype, "norm"),
            Param(f"{prefix}.output_attn_res_proj.weight", (1, hidden), builder.dtype, "norm"),
        ]
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        embed=f"{prefix}.embed_tokens",
        norm=f"{prefix}.norm.weight",
        head="language_model.lm_head" if wrapped else "lm_head",
        tied=text.flag("tie_word_embeddings"),
        extra=extra,
    )
    if not wrapped:
        return Skeleton(layers, root)
    towers = _towers(builder, builder.config.sub("vision_config"))
    return Skeleton(layers, root, towers=towers, modalities=(Modality("vision_chunk", IMAGE_TOKENS),))


def _layer(site: Site, delta: bool) -> Layer:
    text = site.b.text
    hidden = text.integer("hidden_size")
    mixer: Mixer
    if delta:
        mixer, modules = _delta(site, text.sub("linear_attn_config"), hidden)
    else:
        mixer, modules = _latent(site, text)
    sparse = site.index >= text.integer("first_k_dense_replace", default=0, low=0) and text.has("num_experts")
    residuals = ("self_attention_res", "mlp_res") if text.integer("attn_res_block_size", default=0, low=0) else ()
    modules += [
        *(_moe(site, text) if sparse else site.gated_mlp(hidden, text.integer("intermediate_size"))),
        site.norm("input_layernorm", hidden),
        site.norm("post_attention_layernorm", hidden),
        *(module for name in residuals for module in _residual(site, name, hidden)),
    ]
    return site.layer([mixer], modules)


def _residual(site: Site, name: str, hidden: int) -> list[Module]:
    return [site.norm(f"{name}_norm", hidden), Param(f"{name}_proj.weight", (1, hidden), site.b.dtype, "other")]


def _delta(site: Site, config: Config, hidden: int) -> tuple[State, list[Module]]:
    heads, width = config.integer("num_heads"), config.integer("head_dim")
    kernel, full_rank = config.integer("short_conv_kernel_size", default=4), config.flag("use_full_rank_gate")
    wide, at, dtype = heads * width, "self_attn", site.b.dtype
    backend = "KIMI_K3_KDA" if full_rank else ""
    mixer = State(
        "kda", conv_kernel=kernel, num_heads=heads, head_dim=width, groups=heads, key_dim=width, backend=backend
    )
    inputs = [Part(f"{at}.{n}_proj", wide, heads) for n in ("q", "k", "v")]
    gate: list[Module] = []
    if full_rank:
        inputs.append(Part(f"{at}.g_proj", wide, heads))
    else:
        gate = [
            site.replicated(f"{at}.g_a_proj", width, hidden, "linear_attn"),
            site.column(f"{at}.g_b_proj", wide, width, "linear_attn"),
        ]
    # one head: whole on every rank
    inputs += [Part(f"{at}.f_a_proj", width, 1), Part(f"{at}.b_proj", heads, heads)]
    scheme = site.b.scheme([f"{site.prefix}.{p.name}" for p in inputs])
    name = f"{at}.in_proj_qkvgfab"
    align = 16 if full_rank else 0  # kimi_k3/nvidia/kda.py:635 (0.32.0)
    modules: list[Module] = [
        Linear(name, tuple(inputs), hidden, "column", "linear_attn", dtype, scheme=scheme, align=align),
        site.column(f"{at}.f_b_proj", wide, width, "linear_attn"),
        Param(f"{at}.dt_bias", (wide,), "F32", "linear_attn", shard_dim=0, created_dtype="F32"),
        *[
            Param(f"{at}.{n}_conv1d.weight", (wide, 1, kernel), dtype, "linear_attn", shard_dim=0, created_dtype="F32")
            for n in ("q", "k", "v")
        ],
        Param(f"{at}.A_log", (heads,), "F32", "linear_attn", shard_dim=0, created_dtype="F32"),
        *gate,
        Param(f"{at}.o_norm.weight", (width,), dtype, "linear_attn"),
        site.row(f"{at}.o_proj", hidden, wide, "linear_attn"),
    ]
    if full_rank:  # copies in the decode kernel's layout
        modules += [
            Param(
                f"{at}.decode_conv1d_weight",
                (3, kernel, wide),
                "F32",
                "linear_attn",
                shard_dim=2,
                stored=False,
                created_dtype="F32",
                only=_COMPILED,
            ),
            Param(
                f"{at}.decode_norm_weight",
                (width,),
                "F32",
                "linear_attn",
                stored=False,
                created_dtype="F32",
                only=_COMPILED,
            ),
        ]
    return mixer, modules


def _latent(site: Site, text: Config) -> tuple[Attention, list[Module]]:
    mixer = mla_mixer(text, rope=not text.flag("mla_use_nope"))
    modules = mla_modules(site, text)
    if text.flag("mla_use_output_gate"):
        # the gate is a part of the first, merged projection, and the only one that is divided
        wide = mixer.num_heads * text.integer("v_head_dim")
        modules.insert(1, site.column("self_attn.g_proj", wide, text.integer("hidden_size"), "attention"))
    scale = Param("self_attn._one_scale", (1,), "F32", "other", stored=False, created_dtype="F32", only=_AS_K3)
    return mixer, [*modules, scale]


def _moe(site: Site, text: Config) -> list[Module]:
    hidden, inter, count = (
        text.integer("hidden_size"),
        text.integer("moe_intermediate_size"),
        text.integer("num_experts"),
    )
    at, latent = "block_sparse_moe", text.integer("routed_expert_hidden_size", default=0, low=0)
    bias = f"{at}.gate.e_score_correction_bias"
    modules: list[Module] = [
        site.replicated(f"{at}.gate", count, hidden, "router", quantised=False),
        Param(bias, (count,), "F32", "router", created_dtype="F32", only=_AS_K3),
        Param(bias, (count,), site.b.dtype, "router", stored=False, only="Kimi Linear of its own"),
    ]
    site.b.shared_whole_by = _AS_K3  # KimiMLP, disable_tp=replicate
    shared = text.integer("num_shared_experts", default=0, low=0)
    if shared:
        modules += site.gated_mlp(hidden, inter * shared, at=f"{at}.shared_experts", role="shared_experts")
    if latent:
        modules += [
            site.replicated(f"{at}.routed_expert_down_proj", latent, hidden, "experts", quantised=False),
            site.replicated(f"{at}.routed_expert_up_proj", hidden, latent, "experts", quantised=False),
        ]
        if text.flag("latent_moe_use_norm"):
            modules.append(site.norm(f"{at}.routed_expert_norm", latent))
    top_k = text.integer("num_experts_per_token", "num_experts_per_tok")
    experts = site.experts(
        count,
        latent or hidden,
        inter,
        top_k,
        at=f"{at}.experts",
        projections=("w1", "w3", "w2"),
        activation=text.text("hidden_act", default="silu"),
        routing=Routing(
            "sigmoid" if text.text("moe_router_activation_func", default="sigmoid") == "sigmoid" else "softmax",
            text.flag("moe_renormalize", default=True),
            text.integer("num_expert_group", default=1, low=0) if text.flag("use_grouped_topk", default=True) else 0,
            biased=True,
        ),
    )
    # models/kimi_k3/nvidia/model.py:596 (0.32.0)
    least = text.integer("min_moe_intermediate_per_partition", default=256, low=0)
    experts = replace(experts, least_share=(_AS_K3, least))
    return [*modules, experts]


def _towers(builder: Builder, vision: Config) -> tuple[Tower, ...]:
    hidden, inter = vision.integer("vt_hidden_size", default=1024), vision.integer("vt_intermediate_size", default=4096)
    heads, count = (
        vision.integer("vt_num_attention_heads", default=12),
        vision.integer("vt_num_hidden_layers", default=27),
    )
    wide, patch = vision.integer("qkv_hidden_size", default=hidden), vision.integer("patch_size", default=14)
    height, width = vision.integer("init_pos_emb_height", default=64), vision.integer("init_pos_emb_width", default=64)
    frames, site, at = vision.integer("init_pos_emb_time", default=4), builder.site("vision_tower"), "encoder.blocks.0"
    first: list[Module] = [
        site.tensor("patch_embed.proj.weight", hidden, 3, patch, patch),
        site.tensor("patch_embed.pos_emb.weight", height, width, hidden),
        Param(
            "patch_embed.pos_emb.time_weight",
            (frames, 1, hidden),
            "F32",
            "multimodal",
            stored=False,
            created_dtype="F32",
        ),
        site.tensor("encoder.final_layernorm.weight", hidden),
    ]
    qkv = [(f"{at}.wqkv", 3 * wide, heads)]
    layer: list[Module] = [
        *[site.tensor(f"{at}.{n}.weight", hidden) for n in ("norm0", "norm1")],
        site.column(f"{at}.mlp.fc0", inter, hidden, "multimodal", quantised=False),
        site.row(f"{at}.mlp.fc1", hidden, inter, "multimodal", quantised=False),
        site.linear(f"{at}.wqkv", qkv, hidden, "column", "multimodal", quantised=False),
        site.row(f"{at}.wo", hidden, wide, "multimodal", quantised=False),
    ]
    tower = site.tower(
        "vision_tower", "vision", [(1, first), (count, layer)], count, hidden, inter, heads, alone="tower"
    )
    text = vision.integer("text_hidden_size", default=builder.text.integer("hidden_size"))
    merged = vision.integer("mm_hidden_size", default=hidden) * prod(vision.integers("merge_kernel_size") or [2, 2])
    site = builder.site("mm_projector")
    projector: list[Module] = [
        site.replicated("proj.0", merged, merged, "multimodal", quantised=False),
        site.replicated("proj.2", text, merged, "multimodal", quantised=False),
        site.tensor("post_norm.weight", text),
    ]
    return tower, site.tower("mm_projector", "vision", [(1, projector)])
