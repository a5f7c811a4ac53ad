"""The smallest set of flags that makes a plan fit where no single one does."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from oomph.advice.judge import Judge, is_earlier, together
from oomph.ir import Change, Judged, Lever, Plan
from oomph.units import MIB

Group = tuple[Lever, ...]

MOST_FLAGS = 3  # a longer list is what `oomph fit` is for
_FEW = 8  # sets that are planned without asking first whether all flags together would be enough
MOST_PLANS = 48  # of one search; the sets come in the order of their price, so that what is left out is dear


def smallest_combination(
    judge: Judge, levers: Sequence[Lever], base: Change | None = None, most: int = MOST_FLAGS
) -> Iterator[Judged]:
    """At most one answer. `base` is a change that is in force already: another checkpoint, offloaded weights."""
    start = [base] if base is not None else []
    movers = [lever for lever in levers if _may_matter(judge, lever, base)]
    fewest = 1 if start else 2
    if len(movers) < fewest:
        return
    now = judge.plan(base) if base is not None else judge.before
    if isinstance(now, str):
        return
    sets = (group for size in range(fewest, most + 1) for group in combinations(movers, size))
    affordable = sorted(sets, key=lambda group: (len(group), sum(lever.changes[-1].rank for lever in group)))
    groups = [group for group in affordable[:MOST_PLANS] if not is_out_of_reach(now, group)]
    small = [group for group in groups if len(group) < MOST_FLAGS]
    at_once = small if len(small) <= _FEW else []
    for group in _in_turn(judge, now, start, movers, at_once, groups[len(at_once) :], most):
        if judge.fixes(together([*start, *(lever.changes[-1] for lever in group)])):
            yield judge.judge(together([*start, *_relaxed(judge, start, group)]))
            return
        between = group[0].changes[:-1] if start and len(group) == 1 and group[0].two_sided else ()
        for change in between:
            if judge.fixes(together([*start, change])):
                yield judge.judge(together([*start, change]))
                return


def _in_turn(
    judge: Judge, now: Plan, start: Sequence[Change], movers: Sequence[Lever],
    at_once: Sequence[Group], later: Sequence[Group], most: int,
) -> Iterator[Group]:  # fmt: skip
    """Many sets are worth a look only where all flags together would do."""
    yield from at_once
    if later and (most == 1 or _may_pass(judge, now, start, movers)):
        yield from later


def around_a_middle(judge: Judge, levers: Sequence[Lever]) -> Iterator[Judged]:
    """At most one answer: a setting between the two ends of a two-sided lever, with one or two flags more. Its own ends
    fail, whatever comes with them."""
    answers: list[Judged] = []
    for lever in levers:
        if not lever.two_sided:
            continue
        field = next(iter(lever.changes[-1].flags), "")
        others = [other for other in levers if is_flag(other) and field not in other.changes[-1].flags]
        everything = _strongest_of_each_flag(others)
        for change in lever.changes:
            if judge.may_fix(change) and judge.fixes(together([change, *everything])):
                answers += smallest_combination(judge, others, change, MOST_FLAGS - 1)
    answers.sort(key=lambda judged: (len(judged.change.flags), judged.change.rank))
    yield from answers[:1]


def _may_pass(judge: Judge, now: Plan, start: Sequence[Change], movers: Sequence[Lever]) -> bool:
    """Whether all of them together lead past the stage at which the start dies. Those that the engine has not read by
    then play no part in that, and the rest may have been planned before."""
    stage = now.verdict.stage
    read = [lever for lever in movers if stage not in lever.not_read]
    if now.verdict.outcome == "fails" and len(read) < len(movers):
        after = judge.plan(together([*start, *_strongest_of_each_flag(read)])) if read else now
        if isinstance(after, str) or (after.verdict.outcome == "fails" and not is_earlier(stage, after.verdict.stage)):
            return False
    return judge.may_fix(together([*start, *_strongest_of_each_flag(movers)]))


def _may_matter(judge: Judge, lever: Lever, base: Change | None) -> bool:
    """A lever that does nothing alone may decide once another change lets the start get further."""
    if not is_flag(lever):
        return False
    if base is not None:
        after = judge.plan(base)
        return not isinstance(after, str) and after.verdict.stage not in lever.not_read
    # What fixes the plan alone needs no company: a set with it in is never the better answer.
    return judge.judge(lever.changes[-1], lever).effect not in ("refused", "worse", "fixes")


def is_flag(lever: Lever) -> bool:
    """One flag that the engine takes and acts on."""
    return not lever.refused and not lever.idle and len(lever.changes[-1].flags) == 1


def _strongest_of_each_flag(levers: Sequence[Lever]) -> list[Change]:
    strongest: dict[str, Change] = {}
    for lever in levers:
        strongest.setdefault(next(iter(lever.changes[-1].flags)), lever.changes[-1])
    return list(strongest.values())


def _relaxed(judge: Judge, start: Sequence[Change], group: Sequence[Lever]) -> list[Change]:
    """Each flag as mild as it may be, the dearest first."""
    changes = {lever.name: lever.changes[-1] for lever in group}
    for lever in sorted(group, key=lambda lever: -lever.changes[-1].rank):
        others = [*start, *(change for name, change in changes.items() if name != lever.name)]
        changes[lever.name] = mildest(judge, lever.changes, others)
    return list(changes.values())


def mildest(judge: Judge, changes: Sequence[Change], others: Sequence[Change] = ()) -> Change:
    """The first of the settings that fixes the plan together with the others. The last one does, and so does every one
    after the first that does: each setting does more of the same."""
    low, high = 0, len(changes) - 1
    while low < high:
        middle = (low + high) // 2
        if judge.fixes(together([*others, changes[middle]])):
            high = middle
        else:
            low = middle + 1
    return changes[high]


# What a set of changes can give to the KV cache at most, from the figures of a plan that is there already.
#
# Where even that is less than a request lacks, the set need not be planned: most sets of flags are decided so.

_ROUNDING = 256 * MIB  # chosen: blocks, segments and a graph pool that are cut otherwise, and what no term names


def is_out_of_reach(plan: Plan, levers: Iterable[Lever]) -> bool:
    """The plan dies at the KV check, and all that these levers could free is less than it lacks there."""
    verdict = plan.verdict
    if verdict.stage != "kv_check" or verdict.outcome != "fails" or verdict.margin is None or not plan.ranks:
        return False
    names: set[str] = set()
    for lever in levers:
        if lever.frees is None:
            return False
        names.update(lever.frees)
    rank = plan.ranks[min(verdict.rank, len(plan.ranks) - 1)]
    most = _ROUNDING
    for name in names:
        term, _, part = name.partition(".")
        if term == "beyond the budget":
            most += max(0, rank.total_bytes - rank.requested_bytes)
        elif term in rank.terms:
            most += rank.terms[term].parts.get(part, 0) if part else rank.terms[term].bytes
    return verdict.margin.expected + most < 0
