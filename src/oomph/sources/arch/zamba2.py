"""Zamba2: Mamba 2 with a few transformer blocks whose weights many layers share, each with small adapters of its own.

vLLM: models/zamba2.py. The shared blocks are in the root: they are built once, however many layers use them.
"""

from __future__ import annotations

from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Linear, Mixer, Module, Part, Role
from oomph.sources.arch.base import Builder, Site, Skeleton
from oomph.sources.arch.mamba import Mamba2, mamba2_modules
from oomph.sources.arch.rope import rope_of
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


def build(b: Builder) -> Skeleton:
    t = b.text
    t.fill(vocab_size=32000, hidden_size=2560, num_attention_heads=32, max_position_embeddings=4096)  # Zamba2Config
    t.fill(mamba_d_state=64, mamba_d_conv=4, mamba_expand=2, mamba_ngroups=1, n_mamba_heads=8, adapter_rank=128)
    t.fill(use_conv_bias=True, tie_word_embeddings=True, num_mem_blocks=1)
    hidden, heads = t.integer("hidden_size"), t.integer("num_attention_heads")
    t.fill(intermediate_size=4 * hidden, num_key_value_heads=heads)
    kinds = _kinds(t)
    if 2 * hidden % heads:
        raise ConfigError(f"{t.where}: twice hidden_size {hidden} is not divisible by {heads} attention heads")
    width = 2 * hidden // heads
    rope = rope_of(t, width) if t.flag("use_mem_rope") else None
    attention = Attention("full", heads, t.integer("num_key_value_heads"), width, width, rope=rope)
    mamba = _mamba(t)
    layers = []
    for i, kind in enumerate(kinds):
        s = b.site(f"model.layers.{i}")
        mixer: list[Mixer] = [mamba.mixer] if kind == "mamba" else [attention, mamba.mixer]
        at = "" if kind == "mamba" else "mamba_decoder."
        modules: list[Module] = [] if kind == "mamba" else [s.replicated("linear", hidden, hidden, "other")]
        modules += [*mamba2_modules(s, mamba, f"{at}mamba"), s.norm(f"{at}input_layernorm", hidden)]
        layers.append(b.layer(i, s.prefix, mixer, modules))
    extra = _shared(b, [i for i, kind in enumerate(kinds) if kind == "hybrid"], attention)
    root = b.head(
        t.integer("vocab_size"),
        hidden,
        norm="model.final_layernorm.weight",
        tied=t.flag("tie_word_embeddings"),
        extra=extra,
        everywhere=True,
    )
    return Skeleton(tuple(layers), root)


def _kinds(t: Config) -> list[str]:
    listed = t.items("layers_block_type") or list(_DEFAULT)
    names = {"mamba": "mamba", "linear_attention": "mamba", "hybrid": "hybrid"}
    if not all(isinstance(k, str) and k in names for k in listed) or len(listed) > 10_000:
        raise ConfigError(f"{t.where}: layers_block_type holds something else than mamba and hybrid")
    count = t.integer("num_hidden_layers", default=len(listed), high=10_000)
    if count != len(listed):
        raise ConfigError(f"{t.where}: {len(listed)} layers in layers_block_type, but num_hidden_layers is {count}")
    return [names[k] for k in listed]


def _mamba(t: Config) -> Mamba2:
    inner, heads = t.integer("mamba_expand") * t.integer("hidden_size"), t.integer("n_mamba_heads")
    return Mamba2(
        t.integer("hidden_size"),
        inner,
        t.integer("mamba_d_state"),
        t.integer("mamba_d_conv"),
        t.integer("mamba_ngroups"),
        heads,
        inner // heads,
        conv_bias=t.flag("use_conv_bias"),
        proj_bias=t.flag("add_bias_linear"),
        chunk=t.integer("chunk_size", default=256),
    )


def _shared(b: Builder, hybrid: list[int], a: Attention) -> list[Module]:
    """Block n serves the hybrid layers n, n + num_mem_blocks, ...: their adapters belong to it."""
    t = b.text
    blocks = t.integer("num_mem_blocks", high=1000)
    modules: list[Module] = []
    for n in range(min(blocks, len(hybrid))):
        at = f"model.layers.{hybrid[n]}.shared_transformer"
        s = b.site("")
        modules += _block(s, t, at, a)
        for place in range(n, len(hybrid), blocks):
            modules += _adapters(s, t, at, a, place)
    return modules


def _block(s: Site, t: Config, at: str, a: Attention) -> list[Module]:
    hidden, inter = t.integer("hidden_size"), t.integer("intermediate_size")
    return [
        s.qkv(2 * hidden, a.num_heads, a.num_kv_heads, a.head_dim, at=f"{at}.self_attn"),
        s.row(f"{at}.self_attn.o_proj", hidden, a.num_heads * a.head_dim, "attention"),
        _gate_up(s, f"{at}.feed_forward.gate_up_proj", inter, hidden, "mlp"),
        s.row(f"{at}.feed_forward.down_proj", hidden, inter, "mlp"),
        _norm(s, f"{at}.input_layernorm", 2 * hidden),
        _norm(s, f"{at}.pre_ff_layernorm", hidden),
    ]


def _gate_up(s: Site, name: str, inter: int, in_features: int, role: Role) -> Linear:
    """One tensor in the checkpoint, two parts in the engine."""
    parts = (Part(name, 2 * inter, created=False), *(Part(f"{name}.{i}", inter, stored=False) for i in (0, 1)))
    return Linear(name, parts, in_features, "column", role, s.b.dtype, scheme=s.b.scheme([name]))


def _norm(s: Site, name: str, dim: int) -> Module:
    return replace(s.norm(name, dim), role="other", everywhere=True)


def _adapters(s: Site, t: Config, at: str, a: Attention, place: int) -> list[Module]:
    hidden, inter, rank = t.integer("hidden_size"), t.integer("intermediate_size"), t.integer("adapter_rank")
    name = f"{at}.feed_forward.gate_up_proj_adapter_list.{place}"
    made: list[Module] = [
        s.column(f"{name}.0", rank, hidden, "other"),
        _gate_up(s, f"{name}.1", inter, rank, "other"),
    ]
    if t.flag("use_shared_attention_adapter"):
        for letter in "qkv":
            name = f"{at}.self_attn.linear_{letter}_adapter_list.{place}"
            made += [
                s.column(f"{name}.0", rank, 2 * hidden, "other"),
                s.column(f"{name}.1", a.num_heads * a.head_dim, rank, "other"),
            ]
    return made
