"""The heights of a load, in order: each allocation that took it higher than it had been.

There are thousands of them, and most loads are asked for the last one alone. Those of a stretch in which nothing is
freed are kept as that stretch's list, which all places of a kind share, and where it began.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

from oomph.engines.vllm.allocator import request_size
from oomph.engines.vllm.load_program import Rise

Record = tuple[str, int, str, int, int, str]  # the fields of a Point
Stretch = tuple[str, int, Sequence[Rise], int, int, str]  # where, layer, its rises, bytes before it, and at its end
Entry = Record | Stretch


class Point(Struct, frozen=True):
    """One allocation of the load. `layer`: decoder layer index, -1 outside."""

    where: str
    layer: int
    module: str
    nbytes: int
    total: int  # allocated bytes once it is made
    doing: str = "building"  # building, loading, repacking, LoRA slots, draft model

    @property
    def tried(self) -> int:
        """The size in torch's "Tried to allocate"."""
        return request_size(self.nbytes)


def last_point(entries: Sequence[Entry]) -> Point:
    return _point(entries[-1], entries[-1][4] - 1) if entries else Point("", -1, "", 0, 0)


def points(entry: Entry) -> list[Point]:
    where, layer, module, start, total, doing = entry
    if isinstance(module, str):
        return [Point(where, layer, module, start, total, doing)]
    return [Point(where, layer, name, size, start + above, doing) for name, size, above in module]


def first_beyond(entries: Sequence[Entry], limit: int) -> Point | None:
    """The first allocation that takes the load beyond `limit` bytes."""
    at = bisect_right(entries, limit, key=lambda entry: entry[4])
    return _point(entries[at], limit) if at < len(entries) else None


def _point(entry: Entry, limit: int) -> Point:
    """Of an entry that ends beyond `limit`, the first allocation that does."""
    where, layer, module, start, total, doing = entry
    if isinstance(module, str):
        return Point(where, layer, module, start, total, doing)
    at = bisect_right(module, limit - start, key=lambda rise: rise[2])
    name, size, above = module[at]
    return Point(where, layer, name, size, start + above, doing)
