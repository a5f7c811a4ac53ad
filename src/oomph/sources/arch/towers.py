"""Encoders and projectors as tables: a row for each module, in the order in which the network builds them.

A `TowerStyle` is such a table and where its sizes stand in a config. A row is a name, a kind and sizes:

    patch_embed.proj      conv+     H 3 P P      a tensor of that shape; "+": and a bias
    norm1                 norm+     H            a norm, here with a bias
    attn.qkv              qkv+      H A          one tensor that engines split as q, k and v of A heads
    self_attn             heads+    H A          q_proj, k_proj and v_proj, which engines fuse
    mlp.fc1               column+   I H          outputs and inputs; row and whole likewise
    mlp.fc1,mlp.fc3       pair      I H          two of the same size that engines fuse

"!" behind the kind: never quantised (torch's own linear layer); "?S" behind the kind's signs: a bias where S is not
zero. `each N` begins the layers, `then` what follows them; a row that ends in `if S` is left out where S is zero.
A size is a product or a sum of products of names and numbers: 4*H, H*M*M, 2*P+1.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Literal

from msgspec import Struct

from oomph.errors import ConfigError
from oomph.ir import Module, Param, Part, Tower
from oomph.sources.arch.base import Builder, Site
from oomph.sources.config import Config

Sizes = Mapping[str, int]


class TowerStyle(Struct, frozen=True, kw_only=True):
    """`sizes`: a letter -> the config's keys and, behind "=", what its class has where the config is silent."""

    rows: str
    sizes: tuple[tuple[str, str], ...] = ()
    name: str = "vision_tower"
    modality: Literal["vision", "audio"] = "vision"
    alone: Literal["", "attention", "tower"] = ""


def read_sizes(style: TowerStyle, config: Config) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for letter, source in style.sizes:
        keys, _, default = source.partition("=")
        value = config.get(*keys.split("|"))
        if isinstance(value, bool):
            sizes[letter] = int(value)
        elif default and value is None:
            sizes[letter] = _size(default, sizes)
        else:
            sizes[letter] = config.integer(*keys.split("|"), low=0)
    return sizes


def styled_tower(builder: Builder, style: TowerStyle, prefix: str, config: Config, sizes: Sizes | None = None) -> Tower:
    """The tower that a style describes; `sizes` adds to those that its config has."""
    values = {**read_sizes(style, config), **(sizes or {})}
    site, blocks, modules, times = builder.site(prefix), [], list[Module](), 1
    for line in style.rows.strip().splitlines():
        words = line.split()
        if words[0] in ("each", "then"):
            blocks.append((times, modules))
            modules, times = [], _size(words[1], values) if words[0] == "each" else 1
            if times > 10_000:
                raise ConfigError(f"{config.where}: an encoder of {times:,} layers is not planned")
        else:
            modules += _row(site, words, values)
    blocks.append((times, modules))
    return site.tower(
        style.name,
        style.modality,
        [(count, block) for count, block in blocks if block],
        values.get("N", 0),
        values.get("H", 0),
        values.get("I", 0),
        values.get("A", 0),
        style.alone,
    )


def _size(text: str, sizes: Sizes) -> int:
    def factor(word: str) -> int:
        return int(word) if word.isdigit() else sizes[word]

    return sum(prod(factor(word) for word in part.split("*")) for part in text.split("+"))


def _row(site: Site, words: Sequence[str], sizes: Sizes) -> list[Module]:
    name, signed, *rest = words
    if "if" in rest:
        at = rest.index("if")
        if not sizes[rest[at + 1]]:
            return []
        rest = rest[:at]
    signed, _, flag = signed.partition("?")
    kind = signed.rstrip("+!")
    bias = "+" in signed or bool(flag and sizes[flag])
    quantised = "!" not in signed
    shape = [_size(word, sizes) for word in rest]
    match kind:
        case "conv" | "tensor":
            weight = site.tensor(f"{name}.weight" if kind == "conv" else name, *shape)
            return [weight, site.tensor(f"{name}.bias", shape[0])] if bias else [weight]
        case "norm":
            return [site.tensor(f"{name}.{part}", *shape) for part in ("weight", "bias")[: 1 + bias]]
        case "float32":  # a buffer that engines compute
            return [Param(name, tuple(shape), "F32", "multimodal", stored=False, created_dtype="F32")]
        case "positions":
            return [Param(name, (1, *shape), "I64", "multimodal", stored=False, created_dtype="I64")]
        case "buffer":
            return [Param(name, tuple(shape), site.b.dtype, "multimodal", stored=False)]
        case "qkv":
            return [site.packed_qkv(name, shape[0], shape[1], "multimodal", bias=bias)]
        case "heads":
            hidden, heads = shape
            units = [(f"{name}.{letter}_proj", hidden, heads) for letter in "qkv"]
            fused = f"{name}.qkv_proj"
            return [site.linear(fused, units, hidden, "column", "multimodal", bias=bias, quantised=quantised)]
        case "pair":
            parts = [Part(part, shape[0]) for part in name.split(",")]
            return [site.linear(name, parts, shape[1], "column", "multimodal", bias=bias, quantised=quantised)]
    linear = {"column": site.column, "row": site.row, "whole": site.replicated}[kind]
    return [linear(name, shape[0], shape[1], "multimodal", bias=bias, quantised=quantised)]
