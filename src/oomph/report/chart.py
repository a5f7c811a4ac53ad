"""The axes of a chart."""

import math
from collections.abc import Sequence

from oomph.report.answer import Axis

_MOST_STEPS = 6  # between the ticks of an axis


def doublings(values: Sequence[float], title: str) -> Axis:
    """An axis from the power of two below the smallest to the one above the largest, with few ticks."""
    low = math.floor(math.log2(max(1.0, min(values, default=1.0))))
    high = max(low + 1, math.ceil(math.log2(max(1.0, max(values, default=1.0)))))
    step = max(1, math.ceil((high - low) / _MOST_STEPS))
    powers = [*range(low, high, step), high]
    return Axis(title, tuple((float(2**p), _short(2**p)) for p in powers))


def tens(values: Sequence[float], title: str) -> Axis:
    """A linear axis in steps of ten, from the ten below the smallest to the one above the largest."""
    low = 10 * math.floor(min(values, default=0.0) / 10)
    high = max(low + 10, 10 * math.ceil(max(values, default=0.0) / 10))
    return Axis(title, tuple((float(n), str(n)) for n in range(low, high + 1, 10)), even=True)


def _short(n: int) -> str:
    return f"{n // 1048576}M" if n >= 1 << 20 else f"{n // 1024}k" if n >= 1024 else str(n)
