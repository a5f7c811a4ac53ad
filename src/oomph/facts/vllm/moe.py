"""How vLLM's expert kernels pad the sizes they are given, by GPU and release."""

from __future__ import annotations

from msgspec import Struct

from oomph.facts.vllm.versions import in_range
from oomph.ir.model import Scheme
from oomph.units import round_up


class Padding(Struct, frozen=True):
    """Multiples to which one rank's hidden and intermediate sizes of MXFP4 and of unquantised experts are rounded."""

    mxfp4: tuple[int, int] = (1, 1)
    plain: tuple[int, int] = (1, 1)

    def sizes(self, scheme: Scheme | None, hidden: int, inter: int) -> tuple[int, int]:
        multiples = self.plain if scheme is None else self.mxfp4 if scheme.method == "mxfp4" else (1, 1)
        return round_up(hidden, multiples[0]), round_up(inter, multiples[1])


class PaddingRow(Struct, frozen=True):
    mxfp4: tuple[int, int]
    plain: tuple[int, int]
    sm: tuple[int, int]  # from, to (exclusive)
    since: str = ""
    until: str = ""


def padding(version: str, sm: int) -> Padding:
    for row in _ROWS:
        if row.sm[0] <= sm < row.sm[1] and in_range(version, row.since, row.until):
            return Padding(row.mxfp4, row.plain)
    return Padding()


_ROWS: tuple[PaddingRow, ...] = (
    PaddingRow((1, 64), (1, 1), (90, 100)),
    # oracle/unquantized.py (0.31.0): FlashInfer's BF16 kernels want multiples of 128
    PaddingRow((1, 1), (1, 128), (100, 110), since="0.31.0"),
)
