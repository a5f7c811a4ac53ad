"""Change random lines of the source, one at a time, and list the changes that no test notices.

    python tools/mutants.py [--count 100] [--seed TEXT] [--map FOLDER] [--part 1/8] [--limit SECONDS] [FOLDER...]
    python tools/mutants.py --map FOLDER --record TESTS... [--seed TEXT]    the first step of it, in pieces
    python tools/mutants.py --map FOLDER --only NUMBERS... [--seed TEXT]    some of the changes again

A map of many changes is recorded once and judged in pieces: `--count 8000 --record ...`, `--count 8000 --only ...`.

FOLDER is one of engines, doctor, advice, search (default: all, with an equal share of the changes). A change is a
number, a truth value, a comparison, an `and` or `or`, or a sign. The seed is the commit's hash unless another is named,
and it is printed: the same seed on the same commit makes the same changes. Nothing here is touched: the changes stand
in the imported code behind switches (tools/switches.py). All stored answers and tests run once and note which changes
would have mattered to them (--map keeps that; a test whose text names a constant or a default reads it); then each
change is switched on, in a process of its own, for those, one of each kind and file first, until one fails, which must
pass without the change. A change that runs longer than the limit counts as noticed.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import gc
import hashlib
import io
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import pytest
import switches
from changes_of_code import ROOT, Mutant, mutants, places
from switches import State, mentioned, names_on_import

SOURCE = ROOT / "src" / "oomph"
FOLDERS = ("engines", "doctor", "advice", "search")
LIMIT = 10  # seconds of the processor for one change, beside twice what its answers and tests take
MOST_MEMORY = 6 << 30  # of one process, for a loop that never stops adding
REPLAY = "replay"

# Tests that run oomph's own code in this process; those of the page, the documents and the commands start others.
TESTS = (
    "replay", "tests/engines", "tests/doctor", "tests/advice", "tests/search", "tests/commands", "tests/emit",
    "tests/report", "tests/facts", "tests/logs", "tests/simulate", "tests/machine", "tests/pack",
    "tests/cli/test_plan_command.py", "tests/cli/test_words.py", "tests/answers", "tests/test_outcomes.py",
    "tests/test_truth.py", "tests/test_field_plans.py", "tests/test_consistency.py",
    "tests/test_calibration.py", "tests/test_whose_figures.py", "tests/test_public_api.py",
    "tests/test_frozen.py",
)  # fmt: skip
EVERYWHERE = ("tests/test_frozen.py",)  # of what runs on import: these look at every module
SHARE = 16  # seconds that the tests of one change may take when nothing else runs, and the answers as long again
FIRST = 3  # tests of each file that go before all the others
QUIET = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=no", "-W", "ignore")


def choose(folders: Sequence[str], count: int, seed: str) -> list[Mutant]:
    chance = random.Random(seed)
    chosen: list[Mutant] = []
    for number, folder in enumerate(folders):
        share = count // len(folders) + (number < count % len(folders))
        paths = sorted(path.relative_to(ROOT) for path in (SOURCE / folder).rglob("*.py"))
        every = [mutant for path in paths for mutant in mutants(path)]
        chosen += chance.sample(every, min(share, len(every)))
    return chosen


def part_of(chosen: Sequence[Mutant], part: str) -> list[int]:
    number, parts = map(int, part.split("/"))
    return list(range(len(chosen)))[number - 1 :: parts]


class Notes:
    """What the folder MAP holds: how long each test and answer takes, and the changes that would matter to it."""

    def __init__(self, folder: Path, chosen: Sequence[Mutant]) -> None:
        self.folder = folder
        self.chosen = hashlib.sha256("\n".join(map(str, chosen)).encode()).hexdigest()
        self.seconds: dict[str, float] = {}
        self.noted: dict[str, list[int]] = {}
        self.on_import: set[int] = set()
        for path in sorted(folder.glob("*.json")):
            piece = json.loads(path.read_text())
            if piece["chosen"] == self.chosen:
                self.seconds |= piece["seconds"]
                self.noted |= piece["noted"]
                self.on_import |= set(piece["on_import"])

    def add(self, recorder: Recorder, name: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        piece = {
            "chosen": self.chosen, "seconds": recorder.seconds, "noted": recorder.noted,
            "on_import": sorted(recorder.on_import),
        }  # fmt: skip
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        (self.folder / f"{self.chosen[:8]}-{digest}.json").write_text(json.dumps(piece))

    @functools.cached_property
    def by_change(self) -> dict[int, list[str]]:
        names: dict[int, list[str]] = {}
        for name, numbers in self.noted.items():
            if name in self.seconds:
                for number in numbers:
                    names.setdefault(number, []).append(name)
        return names


class Recorder:
    """A plugin of pytest that notes for each test that passes how long it takes and which changes matter to it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.noted: dict[str, list[int]] = {}
        self.on_import: set[int] = set()

    def pytest_runtest_setup(self) -> None:
        empty_caches()
        State.noted.clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.seconds[report.nodeid] = round(report.duration, 3)
            self.noted[report.nodeid] = sorted(State.noted)

    def record_answers(self, kinds: Sequence[str]) -> None:
        import replay

        for kind in kinds:
            for number in range(len(replay.cases(kind))):
                empty_caches()
                State.noted.clear()
                name = f"{REPLAY}:{kind}:{number}"
                began = time.process_time()
                if not replay.differences_of(kind, [number]):  # one that differs already would notice every change
                    self.seconds[name] = round(time.process_time() - began, 3)
                    self.noted[name] = sorted(State.noted)


@functools.cache
def caches() -> list[Callable[[], None]]:
    """Those of the folders that are changed: an answer out of a cache runs few lines."""
    return [
        value.cache_clear
        for value in gc.get_objects()
        if isinstance(value, functools._lru_cache_wrapper) and str(value.__module__).startswith(TRACED)
    ]


TRACED = tuple(f"oomph.{folder}" for folder in FOLDERS)


def empty_caches() -> None:
    for clear in caches():
        clear()


def record(notes: Notes, tests: Sequence[str]) -> str:
    """Runs in a process of its own, which then holds every module with all its changes switched off."""
    import replay

    recorder = Recorder()
    State.noted.clear()
    switches.import_all()
    recorder.on_import = set(State.noted)
    kinds = [kind for kind in replay.KINDS if REPLAY in tests or f"{REPLAY}:{kind}" in tests]
    recorder.record_answers(kinds)
    if paths := [test for test in tests if not test.startswith(REPLAY)]:
        pytest.main([*paths, *QUIET], [recorder])
    notes.add(recorder, " ".join(tests))
    return ""


class Choice(NamedTuple):
    answers: list[str]
    tests: list[str]


def choice(mutant: Mutant, number: int, notes: Notes) -> Choice:
    """The stored answers and tests for one change: all to which it matters, as far as their time allows."""
    names = list(notes.by_change.get(number, []))
    if number in notes.on_import:
        reading = readers_of(mutant) | {*names}
        names += [name for name in notes.seconds if name.startswith(EVERYWHERE) or name.partition("[")[0] in reading]
        names = list(dict.fromkeys(names))
    answers = _interleaved([name for name in names if name.startswith(REPLAY)], str(mutant))
    tests = sorted((name for name in names if not name.startswith(REPLAY)), key=notes.seconds.__getitem__)
    seen: Counter[str] = Counter()
    ranks: dict[str, bool] = {}
    for name in tests:
        seen[name.split("::")[0]] += 1
        ranks[name] = seen[name.split("::")[0]] > FIRST
    in_order = sorted(tests, key=lambda name: (ranks[name], notes.seconds[name]))
    return Choice(_within(answers, notes), _within(in_order, notes))


def readers_of(mutant: Mutant) -> set[str]:
    """The tests whose own text names what a change of a default or a constant is seen through: they may look at it
    without calling any function that does."""
    text = (ROOT / mutant.path).read_text()
    tree = ast.parse(text)
    (place,) = (place for place in places(mutant.path, tree, text) if place.mutant == mutant)
    return {test for name in names_on_import(tree, place.node) for test in tests_naming(name)}


@functools.cache
def tests_naming(name: str) -> set[str]:
    """The tests in whose text a name is."""
    naming: set[str] = set()
    for path, text in texts_of_tests().items():
        if name not in text:
            continue
        for function in ast.parse(text).body:
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                naming |= {f"{path}::{function.name}"} if name in mentioned(function) else set()
    return naming


@functools.cache
def texts_of_tests() -> dict[Path, str]:
    return {path.relative_to(ROOT): path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}


def _interleaved(answers: Sequence[str], seed: str) -> list[str]:
    """One of each kind in turn, drawn at random: from all releases, cards and logs."""
    drawn = random.Random(seed).sample(answers, len(answers))
    turns: Counter[str] = Counter()
    places: dict[str, int] = {}
    for name in drawn:
        kind = name.split(":")[1]
        turns[kind] += 1
        places[name] = turns[kind]
    return sorted(drawn, key=places.__getitem__)


def _within(names: Sequence[str], notes: Notes) -> list[str]:
    sums = accumulate(notes.seconds[name] for name in names)
    return [name for name, total in zip(names, sums, strict=True) if total <= SHARE]


class Only:
    """A plugin of pytest: the tests of a list, in its order."""

    def __init__(self, names: Sequence[str]) -> None:
        self.order = {name: number for number, name in enumerate(names)}
        self.failed = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.order), key=lambda i: self.order[i.nodeid])

    def pytest_runtest_setup(self) -> None:
        empty_caches()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


def judge(number: int, chosen: Choice) -> str:
    """The first stored answer that differs or test that fails with one change on; "" = none."""
    switches.turn(number)
    try:
        switches.import_all()
        import replay

        for name in chosen.answers:
            empty_caches()
            _, kind, case = name.split(":")
            if replay.differences_of(kind, [int(case)]):
                return name
    except Exception as error:  # a change may break anything
        return f"{type(error).__name__}: {error}"[:100]
    if not chosen.tests:
        return ""
    only = Only(chosen.tests)
    code = pytest.main([*sorted({name.split("::")[0] for name in chosen.tests}), "-x", *QUIET], [only])
    return only.failed or ("" if code in (0, 5) else f"pytest itself ({code})")


def in_a_process(work: Callable[[], str], limit: float) -> str:
    """What the work answers in a forked process, whose output goes nowhere."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        answer = "a crash"
        try:
            os.setsid()
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
            resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
            signal.alarm(int(limit) * 8)  # a wait that never ends
            answer = work()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"[:100]
        finally:
            os.write(writing, answer.encode()[:4000])
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answered = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return "the time limit" if os.WIFSIGNALED(status) else answered


def verdict(number: int, chosen: Choice, limit: float) -> str:
    """What notices a change: a stored answer, a test, an error, the time limit, or "" for nothing."""
    failed = in_a_process(partial(judge, number, chosen), limit)
    if "::" not in failed or not in_a_process(partial(judge, -1, Choice([], [failed])), limit):
        return failed
    others = [test for test in chosen.tests if test != failed]  # it fails anyway
    return verdict(number, chosen._replace(tests=others), limit)


def judge_all(
    chosen: Sequence[Mutant], numbers: Sequence[int], notes: Notes, limit: float
) -> Iterator[tuple[int, str]]:
    """Changes of what runs on import come first: their processes are forked before anything is imported."""
    later = [number for number in numbers if number not in notes.on_import]
    for number in (*(number for number in numbers if number in notes.on_import), *later):
        if later[:1] == [number]:
            prepare(sorted({test.split("::")[0] for each in later for test in choice(chosen[each], each, notes).tests}))
        picked = choice(chosen[number], number, notes)
        seconds = sum(notes.seconds[name] for name in (*picked.answers, *picked.tests))
        noticed = verdict(number, picked, limit + 2 * seconds)
        by = f"by {noticed}" if noticed else f"{len(picked.answers)} answers, {len(picked.tests)} tests"
        print(f"{'noticed ' if noticed else 'SURVIVED'}  {number:3}  {chosen[number]}  {by}", flush=True)
        yield number, noticed


def prepare(paths: Sequence[str]) -> None:
    """What every later process would do first: import oomph and the tests, and look for caches."""
    switches.import_all()
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*paths, "--collect-only", *QUIET])
    caches()
    gc.freeze()


def options_of(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER", default=FOLDERS)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", default="")
    parser.add_argument("--map", type=Path)
    parser.add_argument("--record", nargs="+", metavar="TESTS", default=())
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", default=(), help="changes by their numbers")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS")
    options = parser.parse_args(words)
    if unknown := set(options.folders) - set(FOLDERS):
        parser.error(f"{unknown.pop()!r} is not one of {', '.join(FOLDERS)}")
    return options


def main() -> int:
    options = options_of()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    seed = options.seed or commit.stdout.strip()
    chosen = choose(options.folders, options.count, seed)
    numbers = options.only or part_of(chosen, options.part)
    switches.install(chosen)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        folder = options.map or Path(scratch)
        if options.record:
            record(Notes(folder, chosen), options.record)
            return 0
        print(f"{len(numbers)} changes of {', '.join(options.folders)}; seed {seed}, part {options.part}", flush=True)
        if not Notes(folder, chosen).seconds:
            in_a_process(partial(record, Notes(folder, chosen), TESTS), 3600)
        verdicts = dict(judge_all(chosen, numbers, Notes(folder, chosen), options.limit))
    survivors = [chosen[number] for number in numbers if not verdicts[number]]
    print(f"\n{len(numbers) - len(survivors)} of {len(numbers)} noticed; survivors:")
    for mutant in survivors:
        print(f"  {mutant}    {mutant.text[:110]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
