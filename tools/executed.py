"""Which tests and stored answers run which line of the source, and the run of those that tools/mutants.py picks.

    python tools/executed.py MAP TESTS...   add to the folder MAP what these tests run; `replay` = the stored answers,
                                            `replay:fit` = those of one kind
    python tools/executed.py judge          run the answers and tests named on standard input; exit code 1 and a name
                                            where an answer differs or a test fails

A test that takes its answer from a cache runs few lines, so oomph's caches are emptied before each file of tests.
"""

from __future__ import annotations

import functools
import gc
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module  # coverage is installed by `make mutants`, not with what the tests need
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
REPLAY = "replay"
TRACED = ("engines", "doctor", "advice", "search")


class Executed:
    """What MAP holds: the names of the tests and answers that run a line, and how long each one takes."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self.root = root
        self.data = import_module("coverage").CoverageData(str(folder / "lines"))
        self.data.read()
        self.seconds: dict[str, float] = _seconds(folder)

    @functools.cache  # noqa: B019
    def of_file(self, path: Path) -> dict[int, list[str]]:
        """For each line the tests and answers that pass on the unchanged source."""
        by_line = self.data.contexts_by_lineno(str(self.root / path))
        return {line: [name for name in names if name in self.seconds] for line, names in by_line.items()}

    def of_lines(self, path: Path, statement: range | None) -> list[str]:
        """Those that run a statement; None, on import, and where none does: those that run anything of the file."""
        lines = self.of_file(path)
        names = {name for line in statement or () for name in lines.get(line, ())}
        return sorted(names or {name for others in lines.values() for name in others})


def _seconds(folder: Path) -> dict[str, float]:
    path = folder / "seconds.json"
    return json.loads(path.read_text()) if path.exists() else {}


class Recorder:
    """A plugin of pytest that switches the context of the coverage with each test."""

    def __init__(self, coverage: Any) -> None:
        self.coverage = coverage
        self.seconds: dict[str, float] = {}
        self.path: Path | None = None

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if item.path != self.path:
            self.path = item.path
            empty_caches()
        self.coverage.switch_context(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.seconds[report.nodeid] = round(report.duration, 3)


def empty_caches() -> None:
    for value in gc.get_objects():
        if isinstance(value, functools._lru_cache_wrapper) and str(value.__module__).startswith("oomph"):
            value.cache_clear()


def record(folder: Path, tests: Sequence[str]) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    include = [str(ROOT / "src" / "oomph" / name / "*") for name in TRACED]
    coverage = import_module("coverage").Coverage(data_file=str(folder / "lines"), include=include, messages=False)
    coverage.load()
    recorder = Recorder(coverage)
    coverage.start()
    code = 0
    recorder.seconds.update(_recorded_answers(coverage, tests))
    if paths := [test for test in tests if not test.startswith(REPLAY)]:
        code = int(pytest.main([*paths, "-q", "-p", "no:cacheprovider", "--no-header", "--tb=line"], [recorder]))
    coverage.stop()
    coverage.save()
    (folder / "seconds.json").write_text(json.dumps({**_seconds(folder), **recorder.seconds}))
    return code


def _recorded_answers(coverage: Any, tests: Sequence[str]) -> Iterator[tuple[str, float]]:
    import time

    import replay

    for kind in replay.KINDS:
        if REPLAY not in tests and f"{REPLAY}:{kind}" not in tests:
            continue
        empty_caches()
        for number in range(len(replay.load(kind))):
            name = f"{REPLAY}:{kind}:{number}"
            coverage.switch_context(name)
            began = time.monotonic()
            if not list(replay.differences(kind, [number])):  # one that differs already would notice every change
                yield name, round(time.monotonic() - began, 3)


class Only:
    """A plugin of pytest: the tests of a list, in its order."""

    def __init__(self, names: Iterable[str]) -> None:
        self.order = {name: number for number, name in enumerate(names)}
        self.failed = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((item for item in items if item.nodeid in self.order), key=lambda i: self.order[i.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


class Choice(NamedTuple):
    answers: list[str]
    tests: list[str]


def judge(choice: Choice) -> str:
    """The first stored answer that differs or test that fails; "" = none."""
    import replay

    for kind in replay.KINDS:
        numbers = [int(name.split(":")[2]) for name in choice.answers if name.split(":")[1] == kind]
        try:
            for arguments, *_ in replay.differences(kind, numbers):
                return f"{REPLAY}:{kind}: {' '.join(arguments)}"
        except Exception as error:  # a change may break anything
            return f"{REPLAY}:{kind}: {type(error).__name__}"
    paths = sorted({name.split("::")[0] for name in choice.tests})
    only = Only(choice.tests)
    options = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
    code = pytest.main([*paths, *options], [only]) if paths else 0
    return only.failed or ("" if code in (0, 5) else f"pytest itself ({code})")


def main() -> int:
    action, *tests = sys.argv[1:]
    if action != "judge":
        return record(Path(action), tests)
    answer = judge(Choice(**json.load(sys.stdin)))
    print(f"\nJUDGED {answer}")
    return int(bool(answer))


if __name__ == "__main__":
    sys.exit(main())
