"""Where random runs die, as stored: the failing line, its stage and its basis, doubts, the ledger, and of some all.

A run is a few observations of random kinds, a few lines apart, with values out of a small grid: equal sizes, and lines
as far apart as a bound allows, are common. toy_examples.json has the examples that they are made of, so that a
fixture more changes none; `python tools/replay.py renew toy_deaths` stores what is said of them again, and a commit
that does says why.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from stored_answers import Row, check_table
from toy_cases import NUMBERS, SIZES, explained

from oomph.doctor.ledger import account
from oomph.doctor.reading.doubt import find_doubt
from oomph.doctor.reading.failing_stage import failing_stage
from oomph.doctor.reading.failure import find_failure
from oomph.doctor.reading.guesses import guess
from oomph.doctor.reading.milestones import milestone
from oomph.doctor.reading.new_case import build_case
from oomph.doctor.reading.stages import chosen_run, death
from oomph.doctor.reading.story import told_stage
from oomph.doctor.reading.tracebacks import behind, traceback
from oomph.doctor.serving import summary
from oomph.ir.observation import Observation
from oomph.logs.claims import read_claims
from oomph.logs.clean import Line
from oomph.logs.documents import sentences
from oomph.logs.parse import printed_lines

EXAMPLES = Path(__file__).parent / "toy_examples.json"
RELEASE = "0.32.0"  # of a run that does not tell: a new one changes no answer
RUNS = 3600
PARTS = 8
EACH = 10  # of so many runs one is explained as a whole
GAPS = (0, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 39, 40, 41)
THEMES = ("lc_", "ol_", "sg_", "tr_", "x_", "v0_")
PROCESSES = ("", "", "EngineCore", "Worker", "APIServer")
STATUSES = (0, 1, -15, 143, -2, 130, 137)
WORDS = (
    "# [Bug]: OOM when the server starts", "# How to avoid OOM", "# CUDA out of memory while loading", "Killed",
    "died or was killed while executing a task", "CUDA error: out of memory", "HIP out of memory",
    "RuntimeError: it failed", "a.b.CustomError: it failed", "WARN it failed", "Tried to allocate 2 GiB",
    "failed to allocate the buffer", "error loading model: unable to allocate", "EngineCore failed to start",
    "core initialization failed",
    "wake_up failed", "# KV cache is too large", "terminated by signal_handler", "using SIGKILL", "HTTP status 500",
)  # fmt: skip
PROSE = (
    "I am running into an out of memory error when I start the server.",
    "The engine crashes with an error after an hour.", "It fails while loading the model weights.",
    "It works fine now, no error any more.", "The process was killed.",
    "While capturing CUDA graphs it dies.", "    self.model_runner.profile_run(dummy)", "    self.load_model(config)",
    "INFO the server is up", "# Server fails to start", "The pod is unhealthy and stuck.",
)  # fmt: skip


@cache
def known() -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    return whole


@cache
def every_kind() -> list[str]:
    return sorted(known()["examples"])


def observation(draw: random.Random, line: int, kind: str) -> Observation:
    values, process, text = draw.choice(known()["examples"][kind])
    values = {name: value(draw, name, seen) for name, seen in values.items() if name == "stage" or draw.random() < 0.88}
    if draw.random() < 0.04:
        values["title"] = "it failed"
    if draw.random() < 0.15:
        process = draw.choice(PROCESSES)
    if draw.random() < 0.12:
        text = draw.choice(WORDS)
    return Observation(line, kind, values, None, process, text)


def value(draw: random.Random, name: str, seen: Any) -> Any:
    if name == "status":
        return draw.choice(STATUSES)
    if isinstance(seen, str) or draw.random() < 0.4:
        return seen
    return draw.choice(SIZES if seen > 1 << 20 else NUMBERS) * draw.choice((1, 1, 1, -1))


def run(seed: int) -> tuple[tuple[Observation, ...], list[Line]]:
    draw = random.Random(seed)
    focus = known()["focus"]
    theme = [kind for kind in focus if kind.startswith(draw.choice(THEMES))] or focus
    observations = []
    line = 0
    for _ in range(draw.randint(1, 9)):
        line += draw.choice(GAPS) + (not line)
        kinds = draw.choice((theme, theme, focus, focus, ["frame", "exception", "torch_oom"], every_kind()))
        observations.append(observation(draw, line, draw.choice(kinds)))
    lines = [Line(one.line, one.text, one.process) for one in observations]
    for _ in range(draw.choice((0, 0, 1, 3))):
        lines.append(
            Line(line := line + draw.choice(GAPS) + 1, draw.choice(PROSE), level=draw.choice(("", "", "INFO")))
        )
    return tuple(observations), lines


def answer(seed: int) -> Any:
    observations, lines = run(seed)
    failure, doubt = find_failure(observations), find_doubt(observations)
    chosen, notes = chosen_run(observations)
    claims = read_claims(sentences(lines, printed_lines(observations)))
    ended = death(observations, lines, claims)
    told = told_stage(claims)[0]
    parts: list[Any] = [milestone(observations), told, len(chosen), len(notes), doubt and doubt.line]
    if failure is not None:
        at = observations.index(failure)
        above, below = traceback(observations, at), behind(observations, at)
        parts += [at, above, below, guess(failure, observations)]
        parts.append(failing_stage(failure, *above, observations[:at], observations, told))
    util = (None, 0.9, 0.5)[seed % 3]
    books = account(observations, ended, util)
    parts += [books.total, books.unaccounted, [(entry.term, entry.bytes) for entry in books.entries]]
    if seed % EACH == 0:
        case = build_case(lines, observations)
        rebuilt = replace(case.rebuilt, version=case.rebuilt.version or RELEASE)
        parts.append(explained(replace(case, rebuilt=rebuilt)))
    return ended.failed, ended.stage, ended.basis, ended.line, ended.kind, ended.functions, ended.files, parts


def serving(seed: int) -> str:
    """What the reports of a server that is up say, one after the other."""
    draw = random.Random(f"serving {seed}")
    kind: Any = draw.choice(("stats", "sg_stats"))
    shares = (0.0, 0.3, 0.5, 9.9, 10.0, 10.4, 50.0, 94.9, 95.0, 99.0)
    lines = []
    for line in range(draw.choice((0, 1, 2, 3))):
        values: dict[str, Any] = {"usage": draw.choice(shares) / (100 if kind == "sg_stats" else 1)}
        values |= {name: draw.choice((0, 1, 2, 3)) for name in ("running", "waiting") if draw.random() < 0.9}
        lines.append(Observation(line, kind, values))
    case: Any = SimpleNamespace(observations=lines)
    return summary(case)


def rows(first: int) -> Iterator[Row]:
    for seed in range(first, first + RUNS // PARTS):
        yield f"{seed:04}", answer(seed)
        if seed % EACH == 0:
            yield f"{seed:04} serving", serving(seed)


TABLES: dict[str, Callable[[], Iterator[Row]]] = {
    f"{first:04}": partial(rows, first) for first in range(0, RUNS, RUNS // PARTS)
}


@pytest.mark.parametrize("name", TABLES)
def test_a_run_dies_where_it_died(name: str) -> None:
    check_table("toy_deaths", name, TABLES[name]())


def test_the_runs_are_of_all_kinds() -> None:
    stages, bases = Counter[Any](), Counter[Any]()
    for seed in range(RUNS // 9):
        observations, lines = run(seed)
        ended = death(observations, lines)
        stages[ended.stage] += 1
        bases[ended.basis] += 1
    assert len(stages) >= 9 and len(bases) >= 4, (stages, bases)
