"""The largest number that keeps a promise, in few trials: what is used of it grows as a power of the number."""

from collections.abc import Callable
from math import exp, log

from msgspec import Struct

_FARTHEST = 4  # times the number before it, upwards or downwards, while only one side is known
_HALVES = 4  # every so many trials between two known sides the middle is taken: no bad guess lasts
_FLAT = 0.05  # a power below which two trials say nothing


class Trial(Struct, frozen=True):
    breach: str  # what breaks the promise; "" = it is kept
    use: float = 0.0  # of what is promised; 1.0 = all of it, 0 = not known


def largest(trial: Callable[[int], Trial], most: int, first: int = 1, within: float = 0.0) -> tuple[int, int, str]:
    """(the largest number that keeps the promise, the smallest that is known to break it, how), apart by `within` a
    share at most: more of it makes nothing quicker. 0 stands for none."""
    good = bad = 0
    why = ""
    uses: dict[int, float] = {}
    number = min(first, most)
    while not (bad and bad - good <= max(1, int(within * bad))) and number not in uses:
        result = trial(number)
        uses[number] = result.use
        if result.breach:
            bad, why = number, result.breach
        else:
            good = number
        number = _next(uses, good, bad, most, max(1, int(within * good)))
    return good, bad, why


def _next(uses: dict[int, float], good: int, bad: int, most: int, apart: int) -> int:
    meets = _meets(uses)
    step = 1 << (len(uses) - 1)  # twice the last one, while only one side is known: no bad guess creeps there
    if not bad:
        return min(most, max(good + step, min(meets or 2 * good, _FARTHEST * good)))
    if not good:
        return max(1, min(bad - step, max(meets or bad // 2, bad // _FARTHEST)))
    if not meets or len(uses) % _HALVES == 0:
        return (good + bad) // 2
    apart = min(apart, (bad - good) // 2)
    return max(good + apart, min(meets, bad - apart))


def _meets(uses: dict[int, float]) -> int:
    """Where all of the promise would be used, by the power law through the two trials that are nearest to it, or in
    proportion to the only one; 0 = nobody knows."""
    nearest = sorted((abs(log(use)), number, use) for number, use in uses.items() if use > 0)[:2]
    if not nearest:
        return 0
    _, number, use = nearest[0]
    rise = 1.0
    if len(nearest) > 1:
        _, other, other_use = nearest[1]
        rise = log(use / other_use) / log(number / other)
    if rise <= _FLAT:
        return 0
    return int(number * exp(max(-50.0, min(50.0, -log(use) / rise))))
