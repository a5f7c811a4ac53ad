"""A squarified treemap (Bruls, Huizing, van Wijk: "Squarified Treemaps", 2000): areas to scale, as square as can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


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
