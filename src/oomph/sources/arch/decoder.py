"""The usual decoder: attention and an MLP behind norms. A `Style` says in what an architecture differs from Llama.

The families of llama.py are a row each; others bring their own MLP (experts) or towers and take attention from here.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from oomph.errors import ConfigError
from oomph.ir import Attention, Block, Layer, Linear, Module, Param, Part, Role, Rope, Vocab
from oomph.sources.arch.base import Builder, Site, Skeleton, heads_of, rope_of
from oomph.sources.config import Config

# The MLP of one layer: (site, layer index) -> modules
Mlp = Callable[[Site, int], list[Module]]
# The rotary table of a layer with this window
Ropes = Callable[[int], "Rope | None"]


class Names(Struct, frozen=True, kw_only=True):
    """What a checkpoint calls things."""

    attn: str = "self_attn"
    qkv: tuple[str, str, str] = ("q_proj", "k_proj", "v_proj")
    packed_qkv: str = ""  # one tensor holds q, k and v
    out: str = "o_proj"
    q_norm: str = "q_norm"
    k_norm: str = "k_norm"
    mlp: str = "mlp"
    gate_up_down: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    packed_gate_up: str = ""
    layers: str = "layers"
    embed: str = "embed_tokens"
    norm: str = "norm"


class Style(Struct, frozen=True, kw_only=True):
    """In what an architecture differs from Llama. Biases: None = as the config's attention_bias / mlp_bias say."""

    qkv_bias: bool | None = None
    o_bias: bool | None = None  # None: the same as q, k and v have
    mlp_bias: bool | None = None
    gated: bool = True
    # over each head ("head"), over all of q and all of k, whole on every rank ("whole") or split with the heads
    # ("split"), one weight per head and dimension ("heads")
    qk_norm: Literal["", "head", "whole", "split", "heads"] = ""
    qk_norm_flag: str = ""  # the config key that turns the norm on
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    norm_bias: bool = False
    # "config": sliding_window, layer by layer where layer_types says so; "qwen": only with use_sliding_window, and
    # then all layers or none (the class passes no window of its own); "layers": only where layer_types says so, also
    # where all layers are of one kind; "none": the class has none
    window: Literal["config", "qwen", "layers", "none"] = "config"
    every: int = 0  # each n-th layer has full attention where there is no layer_types; 0 = layers are all alike
    own_head_dim: bool = True  # False: hidden_size / heads, whatever head_dim says (qwen2.py:149, commandr.py:141)
    # what the class builds on every pipeline stage, used there or not
    everywhere: tuple[Literal["embed", "norm", "lm_head"], ...] = ()
    names: Names = Names()
    defaults: tuple[tuple[str, int | float | bool | str], ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()  # (this config's key, the usual one)


def attention_modules(builder: Builder, site: Site, style: Style, heads: int, kv: int, head_dim: int) -> list[Module]:
    """qkv, o and their norms, in the order of LlamaAttention, Qwen3Attention, ..."""
    text, n = builder.text, style.names
    hidden = text.integer("hidden_size")
    bias = text.flag("attention_bias", "bias", default=False) if style.qkv_bias is None else style.qkv_bias
    o_bias = bias if style.o_bias is None else style.o_bias
    bias = text.flag("qkv_bias", default=bias)
    if n.packed_qkv:
        sizes = [(f"{n.attn}.{q}", h * head_dim, h) for q, h in zip(n.qkv, (heads, kv, kv), strict=True)]
        qkv = packed(site, f"{n.attn}.{n.packed_qkv}", sizes, hidden, bias)
    else:
        qkv = site.qkv(hidden, heads, kv, head_dim, at=n.attn, bias=bias, names=n.qkv)
    is_normed = style.qk_norm and (not style.qk_norm_flag or text.flag(style.qk_norm_flag))
    normed = ((n.q_norm, heads), (n.k_norm, kv)) if is_normed else ()
    return [
        qkv,
        site.row(f"{n.attn}.{n.out}", hidden, heads * head_dim, "attention", bias=o_bias),
        *(_qk_norm(builder, style.qk_norm, f"{n.attn}.{name}.weight", count, head_dim) for name, count in normed),
    ]


def _qk_norm(builder: Builder, kind: str, name: str, heads: int, head_dim: int) -> Param:
    if kind == "head":
        return Param(name, (head_dim,), builder.dtype, "norm")
    if kind == "heads":  # commandr.py:207
        return Param(name, (heads, head_dim), builder.dtype, "norm", shard_dim=0, heads=heads)
    split = kind == "split"
    return Param(
        name, (heads * head_dim,), builder.dtype, "norm", shard_dim=0 if split else None, heads=heads if split else 0
    )


def packed(
    site: Site, name: str, parts: Sequence[tuple[str, int, int]], in_features: int, bias: bool = False
) -> Linear:
    """One tensor in the checkpoint that engines split as if it were several: `parts` as in Site.linear."""
    whole = Part(name, sum(p[1] for p in parts), created=False)
    role: Role = "attention" if parts[0][2] else "mlp"
    return Linear(
        name,
        parts=(whole, *(Part(*p, stored=False) for p in parts)),
        in_features=in_features,
        shard="column",
        role=role,
        dtype=site.b.dtype,
        bias=bias,
        scheme=site.b.scheme([f"{site.prefix}.{name}"]),
    )


def dense_mlp(builder: Builder, style: Style) -> Mlp:
    text, n = builder.text, style.names
    hidden, inner = text.integer("hidden_size"), text.integer("intermediate_size")
    bias = text.flag("mlp_bias") if style.mlp_bias is None else style.mlp_bias

    def mlp(site: Site, index: int) -> list[Module]:
        gate, up, down = n.gate_up_down
        if not style.gated:
            return [
                site.column(f"{n.mlp}.{up}", inner, hidden, "mlp", bias=bias),
                site.row(f"{n.mlp}.{down}", hidden, inner, "mlp", bias=bias),
            ]
        if n.packed_gate_up:
            pair = [(f"{n.mlp}.{gate}", inner, 0), (f"{n.mlp}.{up}", inner, 0)]
            return [
                packed(site, f"{n.mlp}.{n.packed_gate_up}", pair, hidden, bias),
                site.row(f"{n.mlp}.{down}", hidden, inner, "mlp", bias=bias),
            ]
        return site.gated_mlp(hidden, inner, at=n.mlp, bias=bias, names=n.gate_up_down)

    return mlp


def layer_kinds(text: Config, style: Style) -> list[str]:
    """One of full_attention, sliding_attention, ... per layer."""
    count = text.integer("num_hidden_layers", high=10_000)
    kinds = text.items("layer_types")
    if kinds:
        if len(kinds) < count or not all(isinstance(k, str) for k in kinds):
            raise ConfigError(f"{text.where}: layer_types does not name {count} layers")
        return [str(k) for k in kinds[:count]]
    pattern = text.get("sliding_window_pattern", "_sliding_window_pattern")
    if isinstance(pattern, str) and pattern:  # EXAONE: "LLLG" is three local layers and a global one
        return ["sliding_attention" if pattern[i % len(pattern)] == "L" else "full_attention" for i in range(count)]
    every = text.integer("sliding_window_pattern", "_sliding_window_pattern", default=style.every, low=0)
    if not every:
        return ["full_attention"] * count
    return ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(count)]


def windows(text: Config, style: Style) -> list[int]:
    """The window of each layer, 0 = none. A config with one kind of layer gives all of them its sliding_window
    (arg_utils.py:1678, attention.py:213, 0.21.0)."""
    kinds = layer_kinds(text, style)
    window = text.integer("sliding_window", default=0, low=0)
    if style.window == "none" or (style.window == "qwen" and not text.flag("use_sliding_window")):
        return [0] * len(kinds)
    if len(set(kinds)) == 1 and style.window != "layers":
        return [window] * len(kinds)
    if style.window == "qwen":
        return [0] * len(kinds)
    return [window if kind == "sliding_attention" else 0 for kind in kinds]


def attention(text: Config, window: int, rope: Rope | None, *, sinks: bool = False) -> Attention:
    heads, kv, head_dim = heads_of(text)
    kind: Literal["full", "sliding_window"] = "sliding_window" if window else "full"
    return Attention(kind, heads, kv, head_dim, head_dim, window=window, rope=rope, sinks=sinks)


def decoder_layers(
    builder: Builder,
    style: Style,
    prefix: str = "model",
    mlp: Mlp | None = None,
    rope: Rope | Ropes | None = None,
    after: Callable[[list[Module]], list[Module]] | None = None,
) -> tuple[Layer, ...]:
    """`rope`: one table for all layers, or a choice by a layer's window; `after`: what the checkpoint has besides,
    given the layer's modules."""
    text = builder.text
    heads, kv, head_dim = dims(text, style)
    hidden = text.integer("hidden_size")
    make_mlp = mlp or dense_mlp(builder, style)
    table = None if callable(rope) else rope or rope_of(text, head_dim)
    kinds = {
        window: Attention(
            "sliding_window" if window else "full",
            heads,
            kv,
            head_dim,
            head_dim,
            window=window,
            rope=rope(window) if callable(rope) else table,
        )
        for window in set(windows(text, style))
    }
    are_alike = mlp is None and after is None  # but for their windows and their quantisation

    def modules_of(site: Site, index: int) -> list[Module]:
        modules = [
            *attention_modules(builder, site, style, heads, kv, head_dim),
            *make_mlp(site, index),
            *(part for name in style.norms for part in norm(site, name, hidden, style.norm_bias)),
        ]
        return modules + after(modules) if after is not None else modules

    layers = []
    for i, window in enumerate(windows(text, style)):
        kind = (prefix, style) if are_alike else (prefix, i)
        place = f"{prefix}.{style.names.layers}.{i}".removeprefix(".")
        layers.append(builder.layer_like(kind, i, place, [kinds[window]], partial(modules_of, index=i)))
    return tuple(layers)


def backed(builder: Builder, rope: Rope) -> Rope:
    """The table of an architecture that transformers' own code may serve: then there is none (facts/vllm/structure.py
    TRANSFORMERS_SINCE)."""
    return replace(rope, only=f"{builder.architecture} by vLLM", short=-1)


def frequencies(builder: Builder, layers: Sequence[Layer]) -> list[Module]:
    """What transformers keeps instead of a table: inv_freq and a copy of it, float32."""
    ropes = {m.rope for x in layers for m in x.mixers if isinstance(m, Attention) and m.rope is not None}
    return [
        Param(f"rotary_emb.inv_freq.{i}", (rope.dim,), "F32", "other", stored=False, created_dtype="F32",
              only=f"{builder.architecture} by transformers", everywhere=True)
        for i, rope in enumerate(sorted(ropes, key=repr))
    ]  # fmt: skip


def dims(text: Config, style: Style) -> tuple[int, int, int]:
    heads, kv, head_dim = heads_of(text)
    return heads, kv, head_dim if style.own_head_dim else text.integer("hidden_size") // heads


def norm(site: Site, name: str, dim: int, bias: bool) -> list[Module]:
    modules: list[Module] = [site.norm(name, dim)]
    return [*modules, Param(f"{name}.bias", (dim,), site.b.dtype, "norm")] if bias else modules


def decoder_root(
    builder: Builder,
    style: Style,
    prefix: str = "model",
    head: str = "lm_head",
    *,
    head_bias: bool = False,
    tied: bool | None = None,
) -> Block:
    text, n = builder.text, style.names
    hidden = text.integer("hidden_size")
    shared = (
        builder.config.flag("tie_word_embeddings", default=text.flag("tie_word_embeddings")) if tied is None else tied
    )
    extra = (
        [Param(f"{prefix}.{n.norm}.bias".removeprefix("."), (hidden,), builder.dtype, "norm")]
        if style.norm_bias
        else []
    )
    root = builder.head(
        text.integer("vocab_size"),
        hidden,
        embed=f"{prefix}.{n.embed}".removeprefix("."),
        norm=f"{prefix}.{n.norm}.weight".removeprefix(".") if n.norm else "",
        head=head,
        tied=shared,
        bias=head_bias,
        extra=extra,
    )
    return builder.block(
        [
            replace(module, everywhere=True)
            if isinstance(module, Vocab | Param) and module.role in style.everywhere
            else module
            for module in root.modules
        ]
    )


def tied_outside(builder: Builder, root: Block, head: str, *, default: bool = True) -> Block:
    """config/vllm.py:622 (0.21.0) hands the outer config's tie_word_embeddings to the text model; `default`: the outer
    config class's. Where neither config says that the head is tied, the checkpoint has one of its own."""
    tied = builder.config.flag("tie_word_embeddings", default=default)
    unsaid = not builder.config.has("tie_word_embeddings") and not builder.text.flag(
        "tie_word_embeddings", default=False
    )
    stored = builder.stores(f"{head}.weight", unsaid or not tied)
    assumed = builder.names is None and f"{head}.weight" not in builder.told
    by = "outer configs tie the head" if tied and unsaid else ""
    modules = [
        replace(module, tied=tied, tied_by=by, stored=stored, assumed=assumed)
        if isinstance(module, Vocab) and module.name == head
        else module
        for module in root.modules
    ]
    return builder.block(modules)


ALL_STAGES: tuple[Literal["embed", "norm", "lm_head"], ...] = ("embed", "norm", "lm_head")


def fill(builder: Builder, style: Style) -> None:
    builder.text.fill(**dict(style.defaults))
    for key, usual in style.aliases:
        value = builder.text.get(key)
        if value is not None:
            builder.text.fill(**{usual: value})


def decoder(builder: Builder, style: Style, mlp: Mlp | None = None) -> Skeleton:
    fill(builder, style)
    return Skeleton(decoder_layers(builder, style, mlp=mlp), decoder_root(builder, style))
