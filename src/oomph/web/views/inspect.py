"""A checkpoint as people see it: its bytes by part and dtype as a treemap, what is not quantised, its layers."""

from collections.abc import Sequence
from typing import NamedTuple

from oomph.answers.inspection import Inspection
from oomph.ir.roles import role_words
from oomph.text.tables import all_that_hold
from oomph.units import gib, human
from oomph.web.markup import Html, el, join
from oomph.web.views.shared import percent, section, soft, table, tiles

_WIDTH, _HEIGHT = 100.0, 46.0  # the map's proportions; its height is _PIXELS on every screen
_PIXELS = 340
_SMALLEST = 0.001  # of the whole: less is in the table only
# Formats of weights by the bits that they keep: the fewer, the paler.
_BITS = {
    "F64": 64, "F32": 32, "BF16": 16, "F16": 16, "FP8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "INT8": 8, "NVFP4": 4,
    "MXFP4": 4, "FP4": 4, "INT4": 4, "INT3": 3, "INT2": 2,
}  # fmt: skip


def inspect_view(inspection: Inspection) -> Html:
    i = inspection
    about = [i.architecture, f"from the {i.source}" if i.source else "", f"by its {i.basis}" if i.basis else ""]
    return el(
        "article",
        el("header", el("h1", i.model), soft(", ".join(part for part in about if part)), cls="heading"),
        _sentence(i),
        tiles(_figures(i)),
        section("Where the bytes are", _map(i), _legend(i)),
        section("By part", _parts(i)),
        section("Layers and their cache", _layers(i)),
        section("By dtype", table(["dtype", "#size", "#elements", "#tensors"],
                [(row.dtype, human(row.bytes), f"{row.elements:,}", f"{row.tensors:,}") for row in i.by_dtype],
                label="Bytes by dtype")) if i.by_dtype else None,
        section("Notes", el("ul", [el("li", note) for note in i.warnings], cls="notes")) if i.warnings else None,
        cls="view inspect",
    )  # fmt: skip


def _sentence(i: Inspection) -> Html:
    sentence = i.quantization.sentence if i.quantization is not None else ""
    if sentence:
        words = f" {sentence[:1].upper()}{sentence[1:]}."
        return el("div", el("p", el("strong", gib(i.bytes)), words, cls="says"),
                  cls="verdict close")  # fmt: skip
    name = i.quantization.name if i.quantization is not None else f"not quantised ({i.dtype})"
    return el("div", el("p", el("strong", gib(i.bytes)), f" {name}", cls="says"), cls="verdict fits")


def _figures(i: Inspection) -> list[tuple[str, str]]:
    active = f"used by one token ({i.experts[1]} of {i.experts[0]} experts)"
    grows, length = i.kv_known and i.kv_bytes_per_token, min(32768, i.context_length or 32768)
    return all_that_hold(
        (True, (f"{i.parameters / 1e9:.2f} B", "parameters")),
        (i.active_parameters, (f"{(i.active_parameters or 0) / 1e9:.2f} B", active)),
        (True, (f"{i.context_length:,}", "tokens of context")),
        (grows, (human(i.kv_bytes_per_token), "KV cache for each further token")),
        (grows, (human(i.kv_bytes(length) if grows else 0), f"KV cache of one request of {length:,} tokens")),
        (i.state_bytes_per_sequence, (human(i.state_bytes_per_sequence), "recurrent state of one request")),
    )


def _pieces(i: Inspection) -> list[tuple[str, str, int]]:
    """(part, dtype, bytes), the largest first."""
    out = [(row.name, form, size) for row in i.by_role for form, size in row.stored_as.items() if size]
    return sorted(out, key=lambda piece: -piece[2])


def bits_class(form: str) -> str:
    """The class of a format, by the bits it keeps for each weight."""
    bits = _BITS.get(form.upper())
    if bits is None:  # Q4_K, IQ3_XXS: the figure in its name
        digits = "".join(c for c in form if c.isdigit())[:1]
        bits = int(digits) if digits else 16
    return "b32" if bits >= 32 else "b16" if bits >= 16 else "b8" if bits >= 6 else "b4"


def _map(i: Inspection) -> Html | None:
    pieces = [piece for piece in _pieces(i) if piece[2] >= _SMALLEST * max(1, i.bytes)]
    if not pieces:
        return None
    shapes = []
    for (part, form, size), tile in zip(pieces, squarify([float(p[2]) for p in pieces], _WIDTH, _HEIGHT)):
        left, top = tile.left / _WIDTH, tile.top / _HEIGHT
        width, height = tile.width / _WIDTH, tile.height / _HEIGHT
        tip = el("title", f"{part} in {form}: {human(size)}, {size / max(1, i.bytes):.0%} of the checkpoint")
        box = el("rect", tip, cls=f"tile {bits_class(form)}", x=percent(left), y=percent(top), width=percent(width),
                 height=percent(height))  # fmt: skip
        lines = [el("text", text, x="8", y=18 + 16 * n) for n, text in enumerate((part, form, human(size)))]
        # an inner picture cuts what does not fit into its tile
        shown = lines if height > 0.17 else lines[:1] if height > 0.07 else []
        shown = shown if width > 0.08 else []
        inner = el("svg", shown, x=percent(left), y=percent(top), width=percent(width), height=percent(height),
                   cls=f"on-{bits_class(form)} {'' if width > 0.25 else 'wide'}") if shown else None  # fmt: skip
        shapes.append(join(box, inner))
    words = "; ".join(f"{part} in {form} {human(size)}" for part, form, size in pieces)
    return el("svg", shapes, cls="treemap", width="100%", height=_PIXELS, role="img", aria_label=words)


_WORDS = {"b32": "32 bits", "b16": "16 bits: not quantised", "b8": "8 bits", "b4": "4 bits or fewer"}


def _legend(i: Inspection) -> Html:
    sizes: dict[str, int] = {}
    for _, form, size in _pieces(i):
        sizes[bits_class(form)] = sizes.get(bits_class(form), 0) + size
    rows = [
        el("li", el("i", cls=f"chip {kind}"), f"{_WORDS[kind]} ", el("b", human(sizes[kind])))
        for kind in _WORDS
        if kind in sizes
    ]
    return el("ul", rows, cls="legend")


def _parts(i: Inspection) -> Html:
    rows = [
        (role_words(row.name), (human(row.bytes), row.bytes), (f"{row.bytes / max(1, i.bytes):.1%}", row.bytes),
         (f"{row.parameters / 1e6:,.0f} M", row.parameters),
         ", ".join(f"{form} {human(size)}" for form, size in row.stored_as.items()))
        for row in i.by_role
    ]  # fmt: skip
    return table(["part", "#size", "#share", "#parameters", "stored as"], rows, sorts=True, label="Bytes by part")


def _layers(i: Inspection) -> Html | None:
    if not i.layers:
        return None
    rows = [
        (row.kind.replace("_", " "), f"{row.layers}", row.text, human(row.kv_bytes_per_token) if row.kv_bytes_per_token
         else "", f"{row.window:,}" if row.window else "", human(row.state_bytes) if row.state_bytes else "")
        for row in i.layers
    ]  # fmt: skip
    heads = ["kind", "#layers", "cache", "#per token", "#window", "#state per request"]
    return table(heads, rows, label="Layers")


# A squarified treemap (Bruls, Huizing, van Wijk: "Squarified Treemaps", 2000): areas to scale, as square as can be.


class Tile(NamedTuple):
    left: float
    top: float
    width: float
    height: float


def squarify(sizes: Sequence[float], width: float, height: float) -> list[Tile]:
    """A tile for each size, in their order; the sizes must be positive and fall."""
    total = sum(sizes)
    if not total:
        return []
    areas = [size * width * height / total for size in sizes]
    tiles: list[Tile] = []
    left = top = 0.0
    while areas:
        side = min(width, height)
        count = 1
        while count < len(areas) and _worst(areas[: count + 1], side) <= _worst(areas[:count], side):
            count += 1
        row, areas = areas[:count], areas[count:]
        depth = sum(row) / side if side else 0.0
        at = 0.0
        for area in row:
            length = area / depth if depth else 0.0
            upright = width >= height
            tiles.append(Tile(left, top + at, depth, length) if upright else Tile(left + at, top, length, depth))
            at += length
        if width >= height:
            left, width = left + depth, width - depth
        else:
            top, height = top + depth, height - depth
    return tiles


def _worst(row: Sequence[float], side: float) -> float:
    """The most elongated tile of a row along a side."""
    total = sum(row)
    if not total or not side:
        return float("inf")
    return max(max(side * side * area / total**2, total**2 / (side * side * area)) for area in row if area)
