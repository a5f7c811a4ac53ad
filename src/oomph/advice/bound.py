"""What a set of changes can give to the KV cache at most, from the figures of a plan that is there already.

Where even that is less than a request lacks, the set need not be planned: most sets of flags are decided so.
"""

from __future__ import annotations

from collections.abc import Iterable

from oomph.ir import Lever, Plan
from oomph.units import MIB

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
