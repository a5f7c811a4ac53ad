"""What every rule says when one value that a log's line gave is another: on a bound of a rule, one beside it, absent.

moved.json holds the fixture, the observation, the value, what it becomes, and a digest of all that the rules, the stage
machine and the summary of a served load then say. The values were picked out of many: each puts a comparison of the
doctor on its bound, or runs an expression, that no other one does. `python tests/doctor/test_moved_values.py` writes
the digests again; a commit that changes them says why. Of a sentence only its figures and flags count.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from oomph.doctor.diagnose import explain_case
from oomph.doctor.explain import case_of, observe_raw
from oomph.doctor.rank import candidates
from oomph.doctor.serving import summary
from oomph.errors import OomphError
from oomph.logs.reader import RawLog, read_paths
from oomph.sources.gpu import parse_gpus

FIXTURES = Path(__file__).parent / "fixtures"
STORED = Path(__file__).parent / "moved.json"
FIGURES = re.compile(r"--[a-z][\w-]+|\d+(?:[.,]\d+)*")
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
        case = case_of(raw, None, parse_gpus(gpu) if gpu else (), (lines, moved))
    except OomphError as refused:
        return type(refused).__name__
    rows = [
        (rule.id, candidate.tier.name, figures(candidate.text), candidate.lines, *advice(candidate))
        for rule, candidate in candidates(case, case.rebuilt.engine or "vllm")
    ]
    explained = explain_case(case)
    inferred = (explained.inferred_stage, figures(explained.inferred_reason), figures(explained.settle))
    death = (case.death.stage, case.death.failed, case.death.basis, case.unified, case.before_ampere)
    ledger = [(entry.term, entry.bytes) for entry in case.account.entries]
    summed_up = figures(summary(case)), figures(explained.cause.text)
    return rows, death, ledger, case.account.unaccounted, advice(explained), inferred, summed_up


def figures(text: str) -> str:
    return " ".join(FIGURES.findall(text))


def advice(told: Any) -> tuple[Any, ...]:
    remedies = [(one.lever, one.change, one.kind, one.flags, one.rank) for one in told.remedies]
    return remedies, [one.lever for one in told.rejected]


def digest(move: Move) -> str:
    return hashlib.blake2b(repr(answer(move)).encode(), digest_size=3).hexdigest()


@cache
def stored() -> dict[str, list[tuple[Move, str]]]:
    by_log: dict[str, list[tuple[Move, str]]] = {}
    for *move, text in json.loads(STORED.read_text()) if STORED.exists() else []:
        by_log.setdefault(move[0], []).append(((*move,), text))  # type: ignore[arg-type]
    return by_log


@pytest.mark.parametrize("log", sorted(stored()))
def test_the_rules_say_what_they_said(log: str) -> None:
    changed = [move for move, text in stored()[log] if digest(move) != text]
    assert not changed, "on purpose: python tests/doctor/test_moved_values.py"


if __name__ == "__main__":
    rows = [[*move, digest(move)] for moves in stored().values() for move, _ in moves]
    STORED.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
