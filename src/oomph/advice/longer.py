"""A fix that keeps more of the context, where the cheapest ones cut most of it away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oomph.advice.combine import MOST_FLAGS, is_flag, mildest
from oomph.advice.gain import tokens
from oomph.advice.judge import Judge, together
from oomph.ir import Change, Judged, Lever, Plan

_MUCH = 4  # a fix that leaves less than this part of the context is one that few people can use
_WORTH = 2  # how much longer the context must be for a further line


def longer_context(
    judge: Judge, flags: Sequence[Lever], checkpoints: Sequence[Lever], fixes: Sequence[Judged], dear: int
) -> Iterator[Judged]:
    """At most one answer: the two flags of a rank below `dear` that give the KV cache most, one after the other, and
    the longest context that starts with them, on the checkpoint of the fix that keeps most."""
    shorter = next((lever for lever in flags if lever.name == "max_model_len"), None)
    best = max(fixes, key=lambda fix: _context(judge.plan(fix.change)), default=None)
    if shorter is None or best is None:
        return
    longest = _context(judge.plan(best.change))
    if not 0 < _MUCH * longest < _context(judge.before):
        return
    mild = [_strongest_below(lever, dear) for lever in flags if lever is not shorter and is_flag(lever)]
    helpers = [change for change in mild if change is not None]
    others = [lever.changes[0] for lever in checkpoints if lever.changes[0].model == best.change.model != ""]
    for _ in range(MOST_FLAGS - 1):
        without = _tokens(judge.plan(together([*others, shorter.changes[-1]])))
        cached = {n: _tokens(judge.plan(together([*others, h, shorter.changes[-1]]))) for n, h in enumerate(helpers)}
        best_helper = max(cached, key=lambda n: cached[n], default=-1)
        if best_helper < 0 or cached[best_helper] <= without:
            break
        others.append(helpers[best_helper])
        helpers = [helper for n, helper in enumerate(helpers) if n != best_helper and cached[n] > without]
    if not judge.fixes(together([*others, shorter.changes[-1]])):
        return
    answer = together([*others, mildest(judge, shorter.changes, others)])
    if _context(judge.plan(answer)) >= _WORTH * longest:
        yield judge.judge(answer)


def _strongest_below(lever: Lever, dear: int) -> Change | None:
    return next((change for change in reversed(lever.changes) if change.rank < dear), None)


def _context(plan: Plan | str) -> int:
    return 0 if isinstance(plan, str) else int(plan.resolved.get("max_model_len", 0))


def _tokens(plan: Plan | str) -> int:
    return 0 if isinstance(plan, str) else tokens(plan)
