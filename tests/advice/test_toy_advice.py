"""The advice of a toy engine on a few hundred random tables, as stored: the order, the settings, every figure.

toys.json holds a digest for each table; `python tests/advice/test_toy_advice.py` writes it again, and a commit that
changes it says why. And what must hold of any advice, whatever the digests are.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from toy_engine import problems

from oomph.advice.advise import advise
from oomph.advice.judge import Judge
from oomph.advice.what_if import what_if
from oomph.ir.advice import Judged, Lever

STORED = Path(__file__).parent / "toys.json"
TABLES = 1000
EACH = 100  # tables of one test


def row(judged: Judged) -> list[Any]:
    fields: dict[str, Any] = to_builtins(judged)
    fields["change"]["gpus"] = len(judged.change.gpus)
    return [fields]


def answers(judge: Judge, levers: list[Lever]) -> list[Any]:
    advice = advise(judge, levers, ("a reason",), "oomph fit")
    planned = [key.partition("Device(")[0] for key in judge._plans]  # in turn: an advice that plans more is another one
    table = what_if(judge, tuple(levers))
    lists = [[row(judged) for judged in some] for some in (advice.fixes, advice.helps, advice.useless)]
    rows = [(row(one.judged), one.tokens_change) for one in table.rows]
    return [advice.why, advice.next_step, lists, rows, table.binding, table.in_short(), planned]


def digest(judge: Judge, levers: list[Lever]) -> str:
    return hashlib.blake2b(json.dumps(answers(judge, levers)).encode(), digest_size=3).hexdigest()


@pytest.mark.parametrize("first", range(0, TABLES, EACH))
def test_the_advice_is_as_stored(first: int) -> None:
    stored = json.loads(STORED.read_text())
    now = {seed: digest(judge, levers) for seed, judge, levers in problems(range(first, first + EACH))}
    changed = [seed for seed, text in now.items() if stored[seed] != text]
    assert not changed, "on purpose: python tests/advice/test_toy_advice.py"


def test_every_fix_fits_and_the_tables_are_of_all_kinds() -> None:
    outcomes: Counter[str] = Counter()
    for _, judge, levers in problems(range(EACH)):
        advice = advise(judge, levers, ())
        outcomes[judge.before.verdict.outcome] += 1
        assert all(judge.fixes(fix.change) for fix in advice.fixes)
        outcomes["fixed"] += bool(advice.fixes)
    assert min(outcomes[name] for name in ("fits", "fails", "close", "fixed")) > 2, outcomes


if __name__ == "__main__":
    STORED.write_text(json.dumps([digest(judge, levers) for _, judge, levers in problems(range(TABLES))]) + "\n")
