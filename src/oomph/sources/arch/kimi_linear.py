"""Kimi Linear and Kimi K3: delta attention (KDA) with a latent-attention layer after every few, routed MLP.

vLLM: models/kimi_linear.py and layers/kda.py (to 0.26), models/kimi_k3/ (0.27 and later). K3 adds gates of full rank,
residual attention, a latent space for the routed experts and a vision tower.
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Layer, Linear, Mixer, Modality, Module, Param, Part, Routing, State, Tower
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.kimi import IMAGE_TOKENS
from oomph.sources.arch.mla import mla_mixer, mla_modules
from oomph.sources.config import Config

_AS_K3 = "Kimi Linear as K3"
_COMPILED = "KDA with compiled kernels"


def build(b: Builder) -> Skeleton:
    t = b.text
    wrapped = b.architecture == "KimiK3ForConditionalGeneration"
    prefix = "language_model.model" if wrapped else "model"
    count = t.integer("num_hidden_layers", high=10_000)
    kda = set(t.sub("linear_attn_config").integers("kda_layers"))
    if not t.has("linear_attn_config"):
        raise ConfigError(f"{t.where} has no linear_attn_config")
    layers = tuple(_layer(b, prefix, i, i + 1 in kda) for i in range(count))
    hidden = t.integer("hidden_size")
    extra: list[Module] = []
    if t.integer("attn_res_block_size", default=0, low=0):
        extra = [
            Param(f"{prefix}.output_attn_res_norm.weight", (hidden,), b.dtype, "norm"),
            Param(f"{prefix}.output_attn_res_proj.weight", (1, hidden), b.dtype, "norm"),
        ]
    root = b.head(
        t.integer("vocab_size"),
        hidden,
        embed=f"{prefix}.embed_tokens",
        norm=f"{prefix}.norm.weight",
        head="language_model.lm_head" if wrapped else "lm_head",
        tied=t.flag("tie_word_embeddings"),
        extra=extra,
    )
    if not wrapped:
        return Skeleton(layers, root)
    towers = _towers(b, b.config.sub("vision_config"))
    return Skeleton(layers, root, towers=towers, modalities=(Modality("vision_chunk", IMAGE_TOKENS),))


def _layer(b: Builder, prefix: str, index: int, delta: bool) -> Layer:
    t = b.text
    hidden = t.integer("hidden_size")
    s = b.site(f"{prefix}.layers.{index}")
    mixer: Mixer
    if delta:
        mixer, modules = _delta(s, t.sub("linear_attn_config"), hidden)
    else:
        mixer, modules = _latent(s, t)
    if index >= t.integer("first_k_dense_replace", default=0, low=0) and t.has("num_experts"):
        modules += _moe(s, t)
    else:
        modules += s.gated_mlp(hidden, t.integer("intermediate_size"))
    modules += [s.norm("input_layernorm", hidden), s.norm("post_attention_layernorm", hidden)]
    if t.integer("attn_res_block_size", default=0, low=0):
        for name in ("self_attention_res", "mlp_res"):
            modules += [s.norm(f"{name}_norm", hidden), Param(f"{name}_proj.weight", (1, hidden), b.dtype, "other")]
    return b.layer(index, s.prefix, [mixer], modules)


def _delta(s: Site, c: Config, hidden: int) -> tuple[State, list[Module]]:
    heads, width = c.integer("num_heads"), c.integer("head_dim")
    kernel, full_rank = c.integer("short_conv_kernel_size", default=4), c.flag("use_full_rank_gate")
    wide, at, dtype = heads * width, "self_attn", s.b.dtype
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
            s.replicated(f"{at}.g_a_proj", width, hidden, "linear_attn"),
            s.column(f"{at}.g_b_proj", wide, width, "linear_attn"),
        ]
    # one head: whole on every rank
    inputs += [Part(f"{at}.f_a_proj", width, 1), Part(f"{at}.b_proj", heads, heads)]
    scheme = s.b.scheme([f"{s.prefix}.{p.name}" for p in inputs])
    name = f"{at}.in_proj_qkvgfab"
    align = 16 if full_rank else 0  # kimi_k3/nvidia/kda.py:635 (0.32.0)
    modules: list[Module] = [
        Linear(name, tuple(inputs), hidden, "column", "linear_attn", dtype, scheme=scheme, align=align),
        s.column(f"{at}.f_b_proj", wide, width, "linear_attn"),
        Param(f"{at}.dt_bias", (wide,), "F32", "linear_attn", shard_dim=0, created_dtype="F32"),
        *[
            Param(f"{at}.{n}_conv1d.weight", (wide, 1, kernel), dtype, "linear_attn", shard_dim=0, created_dtype="F32")
            for n in ("q", "k", "v")
        ],
        Param(f"{at}.A_log", (heads,), "F32", "linear_attn", shard_dim=0, created_dtype="F32"),
        *gate,
        Param(f"{at}.o_norm.weight", (width,), dtype, "linear_attn"),
        s.row(f"{at}.o_proj", hidden, wide, "linear_attn"),
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


def _latent(s: Site, t: Config) -> tuple[Attention, list[Module]]:
    mixer = mla_mixer(t, rope=not t.flag("mla_use_nope"))
    modules = mla_modules(s, t)
    if t.flag("mla_use_output_gate"):
        # the gate is a part of the first, merged projection, and the only one that is divided
        wide = mixer.num_heads * t.integer("v_head_dim")
        modules.insert(1, s.column("self_attn.g_proj", wide, t.integer("hidden_size"), "attention"))
    scale = Param("self_attn._one_scale", (1,), "F32", "other", stored=False, created_dtype="F32", only=_AS_K3)
    return mixer, [*modules, scale]


def _moe(s: Site, t: Config) -> list[Module]:
    hidden, inter, count = t.integer("hidden_size"), t.integer("moe_intermediate_size"), t.integer("num_experts")
    at, latent = "block_sparse_moe", t.integer("routed_expert_hidden_size", default=0, low=0)
    bias = f"{at}.gate.e_score_correction_bias"
    modules: list[Module] = [
        s.replicated(f"{at}.gate", count, hidden, "router", quantised=False),
        Param(bias, (count,), "F32", "router", created_dtype="F32", only=_AS_K3),
        Param(bias, (count,), s.b.dtype, "router", stored=False, only="Kimi Linear of its own"),
    ]
    s.b.shared_whole_by = _AS_K3  # KimiMLP, disable_tp=replicate
    shared = t.integer("num_shared_experts", default=0, low=0)
    if shared:
        modules += s.gated_mlp(hidden, inter * shared, at=f"{at}.shared_experts", role="shared_experts")
    if latent:
        modules += [
            s.replicated(f"{at}.routed_expert_down_proj", latent, hidden, "experts", quantised=False),
            s.replicated(f"{at}.routed_expert_up_proj", hidden, latent, "experts", quantised=False),
        ]
        if t.flag("latent_moe_use_norm"):
            modules.append(s.norm(f"{at}.routed_expert_norm", latent))
    top_k = t.integer("num_experts_per_token", "num_experts_per_tok")
    experts = s.experts(
        count,
        latent or hidden,
        inter,
        top_k,
        at=f"{at}.experts",
        projections=("w1", "w3", "w2"),
        activation=t.text("hidden_act", default="silu"),
        routing=Routing(
            "sigmoid" if t.text("moe_router_activation_func", default="sigmoid") == "sigmoid" else "softmax",
            t.flag("moe_renormalize", default=True),
            t.integer("num_expert_group", default=1, low=0) if t.flag("use_grouped_topk", default=True) else 0,
            biased=True,
        ),
    )
    # models/kimi_k3/nvidia/model.py:596 (0.32.0)
    least = t.integer("min_moe_intermediate_per_partition", default=256, low=0)
    experts = replace(experts, least_share=(_AS_K3, least))
    return [*modules, experts]


def _towers(b: Builder, v: Config) -> tuple[Tower, ...]:
    hidden, inter = v.integer("vt_hidden_size", default=1024), v.integer("vt_intermediate_size", default=4096)
    heads, count = v.integer("vt_num_attention_heads", default=12), v.integer("vt_num_hidden_layers", default=27)
    wide, patch = v.integer("qkv_hidden_size", default=hidden), v.integer("patch_size", default=14)
    height, width = v.integer("init_pos_emb_height", default=64), v.integer("init_pos_emb_width", default=64)
    frames, s, at = v.integer("init_pos_emb_time", default=4), b.site("vision_tower"), "encoder.blocks.0"
    first: list[Module] = [
        Param("patch_embed.proj.weight", (hidden, 3, patch, patch), b.dtype, "multimodal"),
        Param("patch_embed.pos_emb.weight", (height, width, hidden), b.dtype, "multimodal"),
        Param(
            "patch_embed.pos_emb.time_weight",
            (frames, 1, hidden),
            "F32",
            "multimodal",
            stored=False,
            created_dtype="F32",
        ),
        Param("encoder.final_layernorm.weight", (hidden,), b.dtype, "multimodal"),
    ]
    qkv = [(f"{at}.wqkv", 3 * wide, heads)]
    layer: list[Module] = [
        *[Param(f"{at}.{n}.weight", (hidden,), b.dtype, "multimodal") for n in ("norm0", "norm1")],
        s.column(f"{at}.mlp.fc0", inter, hidden, "multimodal", quantised=False),
        s.row(f"{at}.mlp.fc1", hidden, inter, "multimodal", quantised=False),
        s.linear(f"{at}.wqkv", qkv, hidden, "column", "multimodal", quantised=False),
        s.row(f"{at}.wo", hidden, wide, "multimodal", quantised=False),
    ]
    blocks = ((1, b.block(first)), (count, b.block(layer)))
    tower = Tower("vision_tower", "vision", s.prefix, blocks, count, hidden, inter, heads, "tower")
    text = v.integer("text_hidden_size", default=b.text.integer("hidden_size"))
    merged = v.integer("mm_hidden_size", default=hidden)
    for side in v.integers("merge_kernel_size") or [2, 2]:
        merged *= side
    p = b.site("mm_projector")
    projector: list[Module] = [
        p.replicated("proj.0", merged, merged, "multimodal", quantised=False),
        p.replicated("proj.2", text, merged, "multimodal", quantised=False),
        Param("post_norm.weight", (text,), b.dtype, "multimodal"),
    ]
    return tower, Tower("mm_projector", "vision", p.prefix, ((1, b.block(projector)),))
