"""An order of quality, never a measurement: a published figure or an estimate, times what a quantisation keeps."""

import re
from functools import cache

from msgspec import Struct

from oomph.catalog.facts import ModelFacts, facts
from oomph.facts.quality import RECOVERY, class_of


class Quality(Struct, frozen=True, rename={"recovery": "kept"}):
    """On the scale of the Artificial Analysis index of June 2026 (facts/quality.py). `low` to `high`: what the source
    and the quantisation leave open."""

    value: float
    low: float
    high: float
    published: bool  # False: estimated from size and date
    grade: str  # A (best) to E; - = there is no scale for this kind of model
    source: str
    recovery: tuple[float, float] = (1.0, 1.0)  # what the quantisation keeps

    @property
    def order(self) -> tuple[str, bool, float]:
        """The smaller comes first: by grade, a published figure before an estimate of the same grade, then the figure.
        An estimate has the grade of its low end."""
        return self.grade, not self.published, -self.rank

    @property
    def rank(self) -> float:
        """What orders models: a published figure counts as it is, an estimate by its low end."""
        return self.value if self.published else self.low


def quality_of(model: ModelFacts, precision: str, native: bool) -> Quality:
    """`native`: the checkpoint that the published figures are of."""
    value, low, high = model.quality
    share = (1.0, 1.0)
    if not native and precision in RECOVERY:
        share = (RECOVERY[precision].low, RECOVERY[precision].high)
    middle = (share[0] + share[1]) / 2
    source = facts().sources[model.quality_from]
    published = not source.startswith("no published")
    if not published:  # a guess is never above what a larger sister of it reaches
        ceiling = _sisters().get(_family(model.plain), ())
        larger = [sister for parameters, sister in ceiling if parameters >= 2 * model.parameters]
        low, value = min([low, *larger]), min([value, *larger])
    scaled, lowest = _times(value, middle), _times(low, share[0])
    grade = class_of(scaled if published else lowest)
    return Quality(
        round(scaled, 2),
        round(lowest, 2),
        round(_times(high, share[1]), 2),
        published,
        "-" if "e" in model.uses else grade,
        source,
        recovery=share,
    )


def _family(plain: str) -> str:
    """'Qwen/Qwen3.5-0.8B' and 'Qwen/Qwen3.5-9B' are sisters: their names differ in the size alone."""
    return re.sub(r"(?i)-(?:[ea]?\d+(?:\.\d+)?[bm])(?=-|$)", "", plain)


@cache
def _sisters() -> dict[str, tuple[tuple[int, float], ...]]:
    """Of each family: (parameters, the figure that orders it)."""
    out: dict[str, list[tuple[int, float]]] = {}
    for model in facts().models:
        value, low, _ = model.quality
        published = not facts().sources[model.quality_from].startswith("no published")
        out.setdefault(_family(model.plain), []).append((model.parameters, value if published else low))
    return {family: tuple(sisters) for family, sisters in out.items()}


def _times(value: float, share: float) -> float:
    """The lost share makes a figure smaller, also one below zero."""
    return value - abs(value) * (1 - share)


# Of two figures of one table: what its own confidence intervals leave open (the index states 1 point either way; the
# later reading is stretched by 1.6 where it is linked).
SAME_TABLE = 1.6


def decides(better: Quality, other: Quality, same_model: bool) -> bool:
    """Whether a difference of quality is one at all: outside both intervals. Of one model only what the quantisation
    keeps is compared; of one table only what that table leaves open, not how it is linked to others."""
    if same_model:
        return better.recovery[0] > other.recovery[1]
    if comparable(better, other):
        low = _times(better.value / _middle(better) - SAME_TABLE, better.recovery[0])
        return low > _times(other.value / _middle(other) + SAME_TABLE, other.recovery[1])
    return better.low > other.high


def comparable(first: Quality, second: Quality) -> bool:
    """Two figures of the same published table."""
    return first.published and second.published and first.source == second.source


def _middle(quality: Quality) -> float:
    return (quality.recovery[0] + quality.recovery[1]) / 2 or 1.0
