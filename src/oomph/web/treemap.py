"""Bytes as areas to scale, coloured by the bits that are kept for each weight."""

from collections.abc import Sequence
from typing import NamedTuple

from oomph.report.answer import Tile, Treemap
from oomph.units import human
from oomph.web.elements import percent
from oomph.web.markup import Html, el, join

_WIDTH, _HEIGHT = 100.0, 46.0  # the map's proportions; its height is _PIXELS on every screen
_PIXELS = 340
_SMALLEST = 0.001  # of the whole: less is in the table only
_WORDS = {"b32": "32 bits", "b16": "16 bits: not quantised", "b8": "8 bits", "b4": "4 bits or fewer"}


def treemap(block: Treemap) -> Html | None:
    whole = max(1, sum(tile.bytes for tile in block.tiles))
    tiles = [tile for tile in block.tiles if tile.bytes >= _SMALLEST * whole]
    if not tiles:
        return None
    boxes = squarify([float(tile.bytes) for tile in tiles], _WIDTH, _HEIGHT)
    shapes = [_shape(tile, box, whole) for tile, box in zip(tiles, boxes)]
    words = "; ".join(f"{tile.part} in {tile.form} {human(tile.bytes)}" for tile in tiles)
    drawing = el("svg", shapes, cls="treemap", width="100%", height=_PIXELS, role="img", aria_label=words)
    sizes = {bits: sum(tile.bytes for tile in block.tiles if tile.bits == bits) for bits in _WORDS}
    legend = [
        el("li", el("i", cls=f"chip {bits}"), f"{_WORDS[bits]} ", el("b", human(size)))
        for bits, size in sizes.items()
        if size
    ]
    return join(drawing, el("ul", legend, cls="legend"))


def _shape(tile: Tile, box: "Box", whole: int) -> Html:
    """An inner picture cuts what does not fit into its tile."""
    left, top, width, height = box.left / _WIDTH, box.top / _HEIGHT, box.width / _WIDTH, box.height / _HEIGHT
    place = {"x": percent(left), "y": percent(top), "width": percent(width), "height": percent(height)}
    tip = el("title", f"{tile.part} in {tile.form}: {human(tile.bytes)}, {tile.bytes / whole:.0%} of the checkpoint")
    lines = [el("text", text, x="8", y=18 + 16 * n) for n, text in enumerate((tile.part, tile.form, human(tile.bytes)))]
    shown = (lines if height > 0.17 else lines[:1] if height > 0.07 else []) if width > 0.08 else []
    inner = el("svg", shown, cls=f"on-{tile.bits} {'' if width > 0.25 else 'wide'}", **place) if shown else None
    return join(el("rect", tip, cls=f"tile {tile.bits}", **place), inner)


# A squarified treemap (Bruls, Huizing, van Wijk: "Squarified Treemaps", 2000): areas to scale, as square as can be.


class Box(NamedTuple):
    left: float
    top: float
    width: float
    height: float


def squarify(sizes: Sequence[float], width: float, height: float) -> list[Box]:
    """A tile for each size, in their order; the sizes must be positive and fall."""
    total = sum(sizes)
    if not total:
        return []
    areas = [size * width * height / total for size in sizes]
    boxes: list[Box] = []
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
            boxes.append(Box(left, top + at, depth, length) if upright else Box(left + at, top, length, depth))
            at += length
        if width >= height:
            left, width = left + depth, width - depth
        else:
            top, height = top + depth, height - depth
    return boxes


def _worst(row: Sequence[float], side: float) -> float:
    """The most elongated tile of a row along a side."""
    total = sum(row)
    if not total or not side:
        return float("inf")
    return max(max(side * side * area / total**2, total**2 / (side * side * area)) for area in row if area)
