"""The advice of a toy engine on a few hundred random tables, as stored: the order, the settings, every figure.

`python tools/replay.py renew toy_advice` stores it again, and a commit that does says why. And what must hold of any
advice, whatever is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from stored_answers import Row, check_table, plain
from toy_engine import problems

from oomph.advice.advise import advise
from oomph.advice.judge import Judge
from oomph.advice.what_if import what_if
from oomph.ir.advice import Judged, Lever

COUNT = 1000
EACH = 100  # tables of one test


def row(judged: Judged) -> list[Any]:
    fields: dict[str, Any] = plain(judged)
    fields["change"]["gpus"] = len(judged.change.gpus)
    return [fields]


def answers(judge: Judge, levers: list[Lever]) -> list[Any]:
    advice = advise(judge, levers, ("a reason",), "oomph fit")
    planned = [key.partition("Device(")[0] for key in judge._plans]  # in turn: an advice that plans more is another one
    table = what_if(judge, tuple(levers))
    lists = [[row(judged) for judged in some] for some in (advice.fixes, advice.helps, advice.useless)]
    rows = [(row(one.judged), one.tokens_change) for one in table.rows]
    return [advice.why, advice.next_step, lists, rows, table.binding, table.in_short(), planned]


def rows(first: int) -> Iterator[Row]:
    return ((f"{seed:03}", answers(judge, levers)) for seed, judge, levers in problems(range(first, first + EACH)))


TABLES: dict[str, Callable[[], Iterator[Row]]] = {
    f"{first:03}": partial(rows, first) for first in range(0, COUNT, EACH)
}


@pytest.mark.parametrize("name", TABLES)
def test_the_advice_is_as_stored(name: str) -> None:
    check_table("toy_advice", name, TABLES[name]())


def test_every_fix_fits_and_the_tables_are_of_all_kinds() -> None:
    outcomes: Counter[str] = Counter()
    for _, judge, levers in problems(range(EACH)):
        advice = advise(judge, levers, ())
        outcomes[judge.before.verdict.outcome] += 1
        assert all(judge.fixes(fix.change) for fix in advice.fixes)
        outcomes["fixed"] += bool(advice.fixes)
    assert min(outcomes[name] for name in ("fits", "fails", "close", "fixed")) > 2, outcomes
