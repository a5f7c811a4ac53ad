"""One layer's experts as the steps of repacking see them (facts/vllm/repack_moe.py, repack_mxfp4.py)."""

from msgspec import Struct

from oomph.ir import Scheme
from oomph.units import cdiv

Step = tuple[str, int] | tuple[str, int, int]


class ExpertsCase(Struct, frozen=True):
    """One layer's experts on one rank; hidden and inter as the kernels pad them."""

    scheme: Scheme | None
    experts: int
    hidden: int
    inter: int
    shards: int  # 2: gate and up; 1: no gate
    dtype_bytes: int
    sms: int
    bias: bool
    kernel: str  # facts/vllm/expert_kernels.py

    @property
    def rows(self) -> tuple[tuple[str, int, int], tuple[str, int, int]]:
        """(name, output features, input features) of the two stacked weights."""
        return ("w13", self.shards * self.inter, self.hidden), ("w2", self.hidden, self.inter)


def scale_sizes(case: ExpertsCase, total: int) -> tuple[int, int]:
    """How the scales that create_weights.py sums are divided between the two weights."""
    scheme = case.scheme
    assert scheme is not None
    if scheme.strategy == "block":
        bn, bk = scheme.block[0] or 128, scheme.block[1] or 128
        first, second = (
            case.shards * cdiv(case.inter, bn) * cdiv(case.hidden, bk),
            cdiv(case.hidden, bn) * cdiv(case.inter, bk),
        )
    elif scheme.strategy == "channel" or scheme.group_size == -1:
        first, second = case.shards * case.inter, case.hidden
    else:
        first, second = case.shards, 1
    w13 = total * first // (first + second)
    return w13, total - w13


def drop(*names: str) -> list[Step]:
    return [(name, 0) for name in names]


def marlin_values(case: ExpertsCase) -> list[Step]:
    """marlin_utils_fp4.py: four-bit values are repacked expert by expert, then stacked."""
    steps: list[Step] = []
    for name, n, k in case.rows:
        packed = n * k // 2
        steps += [
            ("t", packed),
            (f"{name}x", packed, case.experts),
            ("t", 0),
            (f"{name}'", case.experts * packed),
            *drop(f"{name}x"),
        ]
    return steps
