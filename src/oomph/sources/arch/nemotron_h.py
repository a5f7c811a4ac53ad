"""Nemotron-H, Nemotron Nano v2 and Nemotron 3: one mixer a layer (Mamba 2, attention, MLP or experts), no rotary table.

vLLM: models/nemotron_h.py, nemotron_h_mtp.py. Nemotron 3 Super and Ultra route in a narrower latent space.
"""

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Attention, Block, Experts, Layer, Linear, Mixer, Module, Param, Part, Role, Vocab
from oomph.sources.arch.base import SHARED_WHOLE, Builder, Site, Skeleton, heads_of, sigmoid_routing
from oomph.sources.arch.mamba import Mamba2, mamba2_modules, state_dtype
from oomph.sources.arch.mla import score_correction
from oomph.sources.config import Config

_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_WORDS = {"linear_attention": "mamba", "full_attention": "attention"}  # what transformers writes since 5.16


def build(builder: Builder, outer: str = "") -> Skeleton:
    """`outer`: where it stands in a larger model."""
    text = builder.text
    # NemotronHConfig
    text.fill(
        head_dim=text.integer("attention_head_dim", default=128), n_groups=8, conv_kernel=4, mamba_head_dim=64,
        ssm_state_size=128, chunk_size=128, use_conv_bias=True,
    )  # fmt: skip
    kinds = _kinds(text, "hybrid_override_pattern", "layers_block_type")
    if not kinds:
        raise ConfigError(f"{text.where} has no hybrid_override_pattern or layers_block_type")
    if len(kinds) > 10_000:
        raise ConfigError(f"{text.where}: {len(kinds)} layers in the pattern")
    text.fill(num_hidden_layers=len(kinds))  # the config class counts the pattern, whatever else it says
    layers = []
    for site, kind in zip(builder.sites(f"{outer}backbone.layers", len(kinds)), kinds):
        mixer, modules = _mixer(builder, site, kind, kinds[: site.index].count("mlp"))
        layers.append(site.layer(mixer, [*modules, site.norm("norm", text.integer("hidden_size"))]))
    root = builder.head(
        text.integer("vocab_size"),
        text.integer("hidden_size"),
        embed=f"{outer}backbone.embeddings",
        norm=f"{outer}backbone.norm_f.weight",
        head=f"{outer}lm_head",
        tied=text.flag("tie_word_embeddings"),
        everywhere=True,  # nemotron_h.py:556, 585, 861 (0.21.0)
    )
    drafts, draft_root = _drafts(builder)
    return Skeleton(tuple(layers), root, drafts=drafts, draft_root=draft_root)


def _kinds(config: Config, pattern: str, types: str) -> list[str]:
    listed = [_WORDS.get(kind, kind) if isinstance(kind, str) else kind for kind in config.items(types)]
    if listed:
        names = set(_LETTERS.values())
        if not all(isinstance(k, str) and k in names for k in listed):
            raise ConfigError(f"{config.where}: {types} holds something else than {', '.join(sorted(names))}")
        return [str(k) for k in listed]
    text = config.text(pattern)
    if any(c not in _LETTERS for c in text):
        raise ConfigError(f"{config.where}: {pattern} is not made of M, *, - and E")
    return [_LETTERS[c] for c in text]


def _mixer(builder: Builder, site: Site, kind: str, mlp_index: int) -> tuple[list[Mixer], list[Module]]:
    text = builder.text
    hidden = text.integer("hidden_size")
    if kind == "mamba":
        mamba = _mamba(text)
        return [mamba.mixer], mamba2_modules(site, mamba, "mixer")
    if kind == "attention":
        heads, kv, width = heads_of(text)
        bias = text.flag("attention_bias")
        return [Attention("full", heads, kv, width, width)], [
            site.qkv(hidden, heads, kv, width, at="mixer", bias=bias),
            site.row("mixer.o_proj", hidden, heads * width, "attention", bias=bias),
        ]
    if kind == "moe":
        return [], _moe(site, text)
    sizes = text.get("intermediate_size")
    if isinstance(sizes, list):
        wide = text.integers("intermediate_size")
        if not wide or (len(wide) > 1 and mlp_index >= len(wide)) or min(wide) < 1:
            raise ConfigError(f"{text.where}: intermediate_size does not name a size for each MLP")
        inter = wide[0] if len(wide) == 1 else wide[mlp_index]
    else:
        inter = text.integer("intermediate_size")
    return [], _mlp(site, hidden, inter, "mixer", bias=text.flag("mlp_bias"))


def _mamba(text: Config) -> Mamba2:
    heads, width = text.integer("mamba_num_heads"), text.integer("mamba_head_dim")
    return Mamba2(
        text.integer("hidden_size"),
        heads * width,
        text.integer("ssm_state_size"),
        text.integer("conv_kernel"),
        text.integer("n_groups"),
        heads,
        head_dim=width,
        conv_bias=text.flag("use_conv_bias"),
        proj_bias=text.flag("use_bias"),
        chunk=text.integer("chunk_size"),
        dtype=state_dtype(text, "mamba_ssm_cache_dtype"),
    )


def _mlp(site: Site, hidden: int, inter: int, at: str, *, bias: bool, shared: bool = False) -> list[Module]:
    role: Role = "shared_experts" if shared else "mlp"
    return [
        site.column(f"{at}.up_proj", inter, hidden, role, bias=bias),
        site.row(f"{at}.down_proj", hidden, inter, role, bias=bias),
    ]


def _moe(site: Site, text: Config) -> list[Module]:
    """nemotron_h.py NemotronHMoE: experts without a gate, behind two projections where they work in a latent space."""
    hidden, count = text.integer("hidden_size"), text.integer("n_routed_experts")
    latent, bias = text.integer("moe_latent_size", default=0, low=0), text.flag("mlp_bias")
    name = "mixer.gate"
    plain = Part(name, count, only="router in the model's dtype")
    float32 = Part(name, count, stored=False, only="router in float32")
    modules: list[Module] = [
        Linear(name, (plain,), hidden, "replicated", "router", site.b.dtype),
        Linear(name, (float32,), hidden, "replicated", "router", site.b.dtype, created_dtype="F32"),
        score_correction("mixer.gate.e_score_correction_bias", count),
    ]
    site.b.shared_whole_by = SHARED_WHOLE
    shared = text.integer("n_shared_experts", default=0, low=0)
    if shared:
        width = text.integer("moe_shared_expert_intermediate_size") * shared
        modules += _mlp(site, hidden, width, "mixer.shared_experts", bias=bias, shared=True)
    if latent:
        modules += [
            site.replicated("mixer.fc1_latent_proj", latent, hidden, "experts", bias=bias),
            site.replicated("mixer.fc2_latent_proj", hidden, latent, "experts", bias=bias),
        ]
    inter, top_k = text.integer("moe_intermediate_size"), text.integer("num_experts_per_tok")
    experts = site.experts(
        count,
        latent or hidden,
        inter,
        top_k,
        at="mixer.experts",
        gated=False,
        activation=text.text("mlp_hidden_act", default="relu2"),
        routing=sigmoid_routing(text),
    )
    return [*modules, experts]


def _drafts(builder: Builder) -> tuple[tuple[Layer, ...], Block]:
    """nemotron_h_mtp.py: the sub-layers of one MTP step; the first projects embedding and hidden state together, the
    last has a norm behind it. Published lists of these checkpoints have no tensors for them."""
    text = builder.text
    hidden = text.integer("hidden_size")
    if not text.integer("num_nextn_predict_layers", default=0, low=0, high=100):
        return (), Block()
    kinds = _kinds(text, "mtp_hybrid_override_pattern", "mtp_layers_block_type")
    layers = []
    for i, site in enumerate(builder.sites("mtp.layers", len(kinds))):
        mixer, modules = _mixer(builder, site, kinds[i], 0)
        modules.append(site.norm("norm", hidden))
        if i == 0:
            modules += [
                site.norm("enorm", hidden),
                site.norm("hnorm", hidden),
                site.column("eh_proj", hidden, 2 * hidden, "other"),
            ]
        if i == len(kinds) - 1:
            modules.append(site.norm("final_layernorm", hidden))
        layers.append(site.layer(mixer, [_unstored(module) for module in modules]))
    vocab = text.integer("vocab_size")
    ends = [
        Vocab("mtp.embed_tokens", vocab, hidden, builder.dtype, "embed", stored=False),
        Vocab("mtp.lm_head", vocab, hidden, builder.dtype, "lm_head", stored=False),
    ]
    return tuple(layers), builder.block(ends)


def _unstored(module: Module) -> Module:
    if isinstance(module, Linear):
        return replace(module, parts=tuple(replace(p, stored=False) for p in module.parts))
    if isinstance(module, Experts):
        return replace(module, stored=False)
    assert isinstance(module, Param)
    return replace(module, stored=False)
