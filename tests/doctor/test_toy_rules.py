"""What every rule says of random cases, as stored: when it speaks, in which tier, with which figures and remedies.

toy_kinds.json has the kinds of lines and values that the cases are made of, so that one fixture more changes none;
`python tools/replay.py renew toy_rules` stores what is said again, and a commit that does says why. Of a sentence only
its figures and flags count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from stored_answers import Row, check_table
from toy_cases import FIGURES, case, explained

from oomph.doctor.rule import Rule
from oomph.doctor.rules import rules

CASES = 200  # for each rule
EXPLAINED = 8  # whole explanations for each rule


def answer(rule: Rule, seed: int) -> Any:
    try:
        candidate = rule.speak(case(rule, seed))
    except (ArithmeticError, LookupError, StopIteration, TypeError, ValueError) as error:
        return type(error).__name__  # no log gives such values together
    if candidate is None:
        return None
    remedies = [(one.lever, one.change, one.flags, one.rank, one.gains_bytes) for one in candidate.remedies]
    rejected = [one.lever for one in candidate.rejected]
    return candidate.tier.name, FIGURES.findall(candidate.text), candidate.lines, remedies, rejected


def rows(rule: Rule) -> Iterator[Row]:
    yield from ((f"{seed:03}", answer(rule, seed)) for seed in range(CASES))
    yield from ((f"explained {seed}", explained(case(rule, seed))) for seed in range(EXPLAINED))


TABLES: dict[str, Callable[[], Iterator[Row]]] = {rule.id: partial(rows, rule) for rule in rules()}


@pytest.mark.parametrize("name", TABLES)
def test_a_rule_says_what_it_said(name: str) -> None:
    check_table("toy_rules", name, TABLES[name]())
