"""What some starts prove about the next one of their kind.

Below three starts nothing is known of their spread. That none of n starts lay beyond the largest of them proves, at a
confidence of 1 - a, that at most the share 1 - a**(1/n) of all starts lies there: (1 - share)**n >= a. So of the room
that the plan leaves beyond the largest (and below the smallest) that share is kept: 95 % after one start, 78 % after
two. From three starts on their own spread counts: the next lies within t * s * sqrt(1 + 1/n) of their mean (Student's
prediction interval), at the same confidence. Where that interval and the plan's have nothing in common, the starts
agree with each other and not with the plan, and they are right; scattered starts overlap it and correct nothing.
"""

from collections.abc import Sequence
from math import sqrt
from statistics import mean, median, stdev

from oomph.ir import Measured
from oomph.machine.learn.start import ROUNDING, is_plausible

_DOUBT = 0.05  # a
AGREEING = 3  # starts that can correct a plan
# Student's t, two-sided at 95 %, for 2, 3, ... degrees of freedom; beyond them the last, which is wider than needed
_STUDENT = (4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def summarised(sizes: Sequence[int], low: int, high: int, rounding: int = ROUNDING) -> tuple[Measured | None, int]:
    """What counts in the next plan, whose own interval is `low` to `high`; and how many of the figures do not."""
    plausible = [size for size in sizes if is_plausible(size, low, high)]
    if len(sizes) >= AGREEING and len(plausible) < len(sizes):
        together = _spread(sizes, rounding)
        if together.low > high or together.high < low:
            return together, 0
    if not plausible:
        return None, len(sizes)
    ignored = len(sizes) - len(plausible)
    if len(plausible) >= AGREEING:
        return _spread(plausible, rounding), ignored
    doubtful = 1 - _DOUBT ** (1 / len(plausible))
    least, most = min(plausible) - rounding, max(plausible) + rounding
    lower = min(least, round(least - doubtful * max(0, least - low)))
    upper = max(most, round(most + doubtful * max(0, high - most)))
    return Measured(round(median(plausible)), max(0, lower), upper, len(plausible)), ignored


def _spread(sizes: Sequence[int], rounding: int) -> Measured:
    student = _STUDENT[min(len(sizes) - AGREEING, len(_STUDENT) - 1)]
    half = round(student * stdev(sizes) * sqrt(1 + 1 / len(sizes))) + rounding
    middle, centre = round(median(sizes)), round(mean(sizes))
    low, high = min(middle, centre - half), max(middle, centre + half)
    return Measured(middle, max(0, low), high, len(sizes))
