"""How vLLM's expert kernels pad the sizes they are given, by GPU and release."""

from __future__ import annotations

from msgspec import Struct

from oomph.facts.changes import Facts, Span, rows
from oomph.ir.model import Scheme
from oomph.units import round_up


class Padding(Struct, frozen=True):
    """Multiples to which one rank's hidden and intermediate sizes of MXFP4 and of unquantised experts are rounded."""

    mxfp4: tuple[int, int] = (1, 1)
    plain: tuple[int, int] = (1, 1)

    def sizes(self, scheme: Scheme | None, hidden: int, inter: int) -> tuple[int, int]:
        multiples = self.plain if scheme is None else self.mxfp4 if scheme.method == "mxfp4" else (1, 1)
        return round_up(hidden, multiples[0]), round_up(inter, multiples[1])


class PaddingRow(Span, frozen=True):
    multiples: tuple[int, int]  # of the hidden size, of the intermediate size
    sm: tuple[int, int]  # compute capabilities, from and to (exclusive)


class ExpertPadding(Facts):
    # oracle/mxfp4.py:561 (0.21.0) mxfp4_round_up_hidden_size_and_intermediate_size, by the backend that a GPU gets;
    # before 0.19 the same multiples stood in quantization/mxfp4.py create_weights
    mxfp4 = rows(
        PaddingRow((1, 64), (90, 100), since="0.12.0"),  # Triton kernels, in the wheel since then
        PaddingRow((256, 256), (100, 120), until="0.27.0"),  # FlashInfer TRT-LLM kernels
        PaddingRow((256, 128), (0, 1000)),  # Marlin; FlashInfer since 0.27.0
    )
    # oracle/unquantized.py (0.31.0): FlashInfer's BF16 kernels want multiples of 128
    plain = rows(PaddingRow((1, 128), (100, 110), since="0.31.0"))

    def on(self, sm: int) -> Padding:
        return Padding(_first(self.mxfp4, sm), _first(self.plain, sm))


def _first(padding: tuple[PaddingRow, ...], sm: int) -> tuple[int, int]:
    return next((row.multiples for row in padding if row.sm[0] <= sm < row.sm[1]), (1, 1))
