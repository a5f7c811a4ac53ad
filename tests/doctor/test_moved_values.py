"""What every rule says when one value that a log's line gave is another: on a bound of a rule, one beside it, absent.

A stored question is the fixture, the observation, the value and what it becomes; the answer all that the rules, the
stage machine and the summary of a served load then say. The values were picked out of many: each puts a comparison of
the doctor on its bound, or runs an expression, that no other one does. `python tools/replay.py renew moved_values`
stores the answers again; a commit that does says why. Of a sentence only its figures and flags count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from stored_answers import Row, check_table, groups, stored

from oomph.doctor.beside import read_command
from oomph.doctor.diagnose import explain_case
from oomph.doctor.explain import case_of, observe_raw
from oomph.doctor.explanation import Explanation
from oomph.doctor.levers import changes
from oomph.doctor.rank import candidates
from oomph.doctor.serving import summary
from oomph.errors import OomphError
from oomph.ir import Change
from oomph.logs.parse import engine_of
from oomph.logs.reader import RawLog, read_paths
from oomph.sources.gpu import parse_gpus

FIXTURES = Path(__file__).parent / "fixtures"
FIGURES = re.compile(r"--[a-z][\w-]+|\d+(?:[.,]\d+)*")
# where a fixture does not tell its release: a new one changes no answer
AT_RELEASE, _ = read_command((), "vllm==0.32.0")
Move = tuple[str, int, str, Any, str]  # fixture, observation, value, what it becomes (None: absent), --gpu


@cache
def observed(log: str) -> tuple[RawLog, Any]:
    raw = read_paths([str(FIXTURES / f"{log}.log")])
    return raw, observe_raw(raw)


def answer(move: Move) -> Any:
    log, at, name, value, gpu = move
    raw, (lines, observations) = observed(log)
    values = {key: old for key, old in observations[at].values.items() if key != name}
    if value is not None:
        values[name] = value
    moved = (*observations[:at], replace(observations[at], values=values), *observations[at + 1 :])
    try:
        about = AT_RELEASE if engine_of(moved) in ("", "vllm") else None  # the engine that is said is obeyed
        case = case_of(raw, about, parse_gpus(gpu) if gpu else (), (lines, moved))
    except OomphError as refused:
        return type(refused).__name__
    rows = [
        (rule.id, finding.tier.name, figures(finding.text), finding.lines, shown(changes(case, finding.levers)))
        for rule, finding in candidates(case, case.rebuilt.engine or "vllm")
    ]
    explained = explain_case(case)
    inferred = (explained.inferred_stage, figures(explained.inferred_reason), figures(explained.settle))
    death = (case.death.stage, case.death.failed, case.death.basis, case.unified, case.before_ampere)
    ledger = [(entry.term, entry.bytes) for entry in case.account.entries]
    summed_up = figures(summary(case)), figures(explained.cause.text)
    return rows, death, ledger, case.account.unaccounted, advice(explained), inferred, summed_up


def figures(text: str) -> str:
    return " ".join(FIGURES.findall(text))


def advice(told: Explanation) -> tuple[Any, ...]:
    return shown([one.change for one in told.remedies]), [one.change.lever for one in told.rejected]


def shown(some: list[Change]) -> list[Any]:
    return [(one.lever, one.label, one.kind, one.flags, one.rank) for one in some]


def rows(log: str) -> Iterator[Row]:
    return ((question, answer(tuple(json.loads(question)))) for question in stored("moved_values", log))


TABLES: dict[str, Callable[[], Iterator[Row]]] = {log: partial(rows, log) for log in groups("moved_values")}


@pytest.mark.parametrize("log", TABLES)
def test_the_rules_say_what_they_said(log: str) -> None:
    check_table("moved_values", log, TABLES[log]())


def test_there_are_enough_values() -> None:
    assert sum(len(stored("moved_values", log)) for log in TABLES) >= 39
