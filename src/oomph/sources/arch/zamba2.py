"""Zamba2: Mamba 2 with a few transformer blocks whose weights many layers share, each with small adapters of its own.

vLLM: models/zamba2.py. The shared blocks are in the root: they are built once, however many layers use them.
"""

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Attention, Linear, Mixer, Module, Part, Role
from oomph.sources.arch.base import Builder, Site, Skeleton, rope_of
from oomph.sources.arch.mamba import Mamba2, mamba2_modules
from oomph.sources.config import Config

# Zamba2Config.layers_block_type, where a config has none
_DEFAULT = (
    *["mamba"],
    *(["mamba"] * 5 + ["hybrid"]) * 7,
    *["mamba"] * 4,
    "hybrid",
    *["mamba"] * 3,
    "hybrid",
    *["mamba"] * 2,
)


def build(builder: Builder) -> Skeleton:
    text = builder.text
    text.fill(  # Zamba2Config
        vocab_size=32000, hidden_size=2560, num_attention_heads=32, max_position_embeddings=4096, mamba_d_state=64,
        mamba_d_conv=4, mamba_expand=2, mamba_ngroups=1, n_mamba_heads=8, adapter_rank=128, use_conv_bias=True,
        tie_word_embeddings=True, num_mem_blocks=1,
    )  # fmt: skip
    hidden, heads = text.integer("hidden_size"), text.integer("num_attention_heads")
    text.fill(intermediate_size=4 * hidden, num_key_value_heads=heads)
    kinds = _kinds(text)
    if 2 * hidden % heads:
        raise ConfigError(f"{text.where}: twice hidden_size {hidden} is not divisible by {heads} attention heads")
    width = 2 * hidden // heads
    rope = rope_of(text, width) if text.flag("use_mem_rope") else None
    attention = Attention("full", heads, text.integer("num_key_value_heads"), width, width, rope=rope)
    mamba = _mamba(text)
    layers = []
    for site, kind in zip(builder.sites("model.layers", len(kinds)), kinds):
        mixer: list[Mixer] = [mamba.mixer] if kind == "mamba" else [attention, mamba.mixer]
        at = "" if kind == "mamba" else "mamba_decoder."
        modules: list[Module] = [] if kind == "mamba" else [site.replicated("linear", hidden, hidden, "other")]
        modules += [*mamba2_modules(site, mamba, f"{at}mamba"), site.norm(f"{at}input_layernorm", hidden)]
        layers.append(site.layer(mixer, modules))
    extra = _shared(builder, [i for i, kind in enumerate(kinds) if kind == "hybrid"], attention)
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        norm="model.final_layernorm.weight",
        tied=text.flag("tie_word_embeddings"),
        extra=extra,
        everywhere=True,
    )
    return Skeleton(tuple(layers), root)


def _kinds(text: Config) -> list[str]:
    listed = text.items("layers_block_type") or list(_DEFAULT)
    names = {"mamba": "mamba", "linear_attention": "mamba", "hybrid": "hybrid"}
    if not all(isinstance(k, str) and k in names for k in listed) or len(listed) > 10_000:
        raise ConfigError(f"{text.where}: layers_block_type holds something else than mamba and hybrid")
    count = text.integer("num_hidden_layers", default=len(listed), high=10_000)
    if count != len(listed):
        raise ConfigError(f"{text.where}: {len(listed)} layers in layers_block_type, but num_hidden_layers is {count}")
    return [names[k] for k in listed]


def _mamba(text: Config) -> Mamba2:
    inner, heads = text.integer("mamba_expand") * text.integer("hidden_size"), text.integer("n_mamba_heads")
    return Mamba2(
        text.integer("hidden_size"),
        inner,
        text.integer("mamba_d_state"),
        text.integer("mamba_d_conv"),
        text.integer("mamba_ngroups"),
        heads,
        head_dim=inner // heads,
        conv_bias=text.flag("use_conv_bias"),
        proj_bias=text.flag("add_bias_linear"),
        chunk=text.integer("chunk_size", default=256),
    )


def _shared(builder: Builder, hybrid: list[int], attention: Attention) -> list[Module]:
    """Block n serves the hybrid layers n, n + num_mem_blocks, ...: their adapters belong to it."""
    text = builder.text
    blocks = text.integer("num_mem_blocks", high=1000)
    modules: list[Module] = []
    for n in range(min(blocks, len(hybrid))):
        at = f"model.layers.{hybrid[n]}.shared_transformer"
        site = builder.site("")
        modules += _block(site, text, at, attention)
        for place in range(n, len(hybrid), blocks):
            modules += _adapters(site, text, at, attention, place)
    return modules


def _block(site: Site, text: Config, at: str, attention: Attention) -> list[Module]:
    hidden, inter = text.integer("hidden_size"), text.integer("intermediate_size")
    return [
        site.qkv(2 * hidden, attention.num_heads, attention.num_kv_heads, attention.head_dim, at=f"{at}.self_attn"),
        site.row(f"{at}.self_attn.o_proj", hidden, attention.num_heads * attention.head_dim, "attention"),
        _gate_up(site, f"{at}.feed_forward.gate_up_proj", inter, hidden, "mlp"),
        site.row(f"{at}.feed_forward.down_proj", hidden, inter, "mlp"),
        _norm(site, f"{at}.input_layernorm", 2 * hidden),
        _norm(site, f"{at}.pre_ff_layernorm", hidden),
    ]


def _gate_up(site: Site, name: str, inter: int, in_features: int, role: Role) -> Linear:
    """One tensor in the checkpoint, two parts in the engine."""
    parts = (Part(name, 2 * inter, created=False), *(Part(f"{name}.{i}", inter, stored=False) for i in (0, 1)))
    return Linear(name, parts, in_features, "column", role, site.b.dtype, scheme=site.b.scheme([name]))


def _norm(site: Site, name: str, dim: int) -> Module:
    return replace(site.norm(name, dim), role="other", everywhere=True)


def _adapters(site: Site, text: Config, at: str, attention: Attention, place: int) -> list[Module]:
    hidden, inter, rank = text.integer("hidden_size"), text.integer("intermediate_size"), text.integer("adapter_rank")
    name = f"{at}.feed_forward.gate_up_proj_adapter_list.{place}"
    modules: list[Module] = [
        site.column(f"{name}.0", rank, hidden, "other"),
        _gate_up(site, f"{name}.1", inter, rank, "other"),
    ]
    if text.flag("use_shared_attention_adapter"):
        for letter in "qkv":
            name = f"{at}.self_attn.linear_{letter}_adapter_list.{place}"
            modules += [
                site.column(f"{name}.0", rank, 2 * hidden, "other"),
                site.column(f"{name}.1", attention.num_heads * attention.head_dim, rank, "other"),
            ]
    return modules
