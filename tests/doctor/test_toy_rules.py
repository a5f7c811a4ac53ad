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

from oomph.doctor.levers import changes, useless
from oomph.doctor.rule import Rule
from oomph.doctor.rules import rules

CASES = 200  # for each rule
EXPLAINED = 8  # whole explanations for each rule


def answer(rule: Rule, seed: int) -> Any:
    drawn = case(rule, seed)
    try:
        finding = rule.speak(drawn)
    except (ArithmeticError, LookupError, StopIteration, TypeError, ValueError) as error:
        return type(error).__name__  # no log gives such values together
    if finding is None:
        return None
    rows = [(one.lever, one.label, one.flags, one.rank) for one in changes(drawn, finding.levers)]
    not_these = [one.change.lever for one in useless(drawn, rule, finding)]
    return finding.tier.name, FIGURES.findall(finding.text), finding.lines, rows, not_these


def rows(rule: Rule) -> Iterator[Row]:
    yield from ((f"{seed:03}", answer(rule, seed)) for seed in range(CASES))
    yield from ((f"explained {seed}", explained(case(rule, seed))) for seed in range(EXPLAINED))


TABLES: dict[str, Callable[[], Iterator[Row]]] = {rule.id: partial(rows, rule) for rule in rules()}


@pytest.mark.parametrize("name", TABLES)
def test_a_rule_says_what_it_said(name: str) -> None:
    check_table("toy_rules", name, TABLES[name]())
