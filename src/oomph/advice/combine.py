"""The smallest set of flags that makes a plan fit where no single one does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from oomph.advice.judge import Judge, together
from oomph.ir.advice import Change, Judged, Lever

MOST_FLAGS = 3  # a longer list is what `oomph fit` is for
MOST_PLANS = 48  # of one search; the sets come in the order of their price, so that what is left out is dear


def smallest_combination(
    judge: Judge, levers: Sequence[Lever], base: Change | None = None, most: int = MOST_FLAGS
) -> Iterator[Judged]:
    """At most one answer. `base` is a change that is in force already: another checkpoint, offloaded weights."""
    start = [base] if base is not None else []
    movers = [lever for lever in levers if _may_matter(judge, lever, base)]
    if not movers or not judge.fixes(together([*start, *(lever.changes[-1] for lever in movers)])):
        return
    fewest = 1 if start else 2
    sets = (group for size in range(fewest, most + 1) for group in combinations(movers, size))
    affordable = sorted(sets, key=lambda group: (len(group), sum(lever.changes[-1].rank for lever in group)))
    for group in affordable[:MOST_PLANS]:
        strongest = [lever.changes[-1] for lever in group]
        if judge.fixes(together([*start, *strongest])):
            yield judge.judge(together([*start, *_relaxed(judge, start, group)]))
            return


def _may_matter(judge: Judge, lever: Lever, base: Change | None) -> bool:
    """A lever that does nothing alone may decide once another change lets the start get further."""
    if len(lever.changes[-1].flags) != 1:
        return False
    judged = judge.judge(lever.changes[-1], lever)
    return judged.effect == "helps" or (judged.effect == "nothing" and judge.before.verdict.stage not in lever.not_read)


def _relaxed(judge: Judge, start: Sequence[Change], group: Sequence[Lever]) -> list[Change]:
    """Each flag as mild as it may be, the dearest first."""
    chosen = {lever.name: lever.changes[-1] for lever in group}
    for lever in sorted(group, key=lambda lever: -lever.changes[-1].rank):
        for change in lever.changes:
            if judge.fixes(together([*start, *{**chosen, lever.name: change}.values()])):
                chosen[lever.name] = change
                break
    return list(chosen.values())
