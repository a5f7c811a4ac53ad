"""Change random lines of the source, one at a time, and list the changes that no test notices.

    python tools/mutants.py [--count 100] [--seed TEXT] [--limit SECONDS] [--jobs N] [FOLDER...]

FOLDER is one of engines, doctor, advice, search (default: all, with an equal share of the changes). A change is a
number, a truth value, a comparison, an `and` or `or`, or a sign. The seed is the commit's hash unless another is named,
and it is printed: the same seed on the same commit makes the same changes. Each change is made in a copy of the tree,
so that nothing here is touched, and the tests that belong to the changed file run against it: first those of its
folder, then a share of the replayed answers. A change that runs longer than the limit counts as noticed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "oomph"
FOLDERS = ("engines", "doctor", "advice", "search")
LIMIT = 240  # seconds for the tests of one change

# folder of the source -> the tests that belong to it; the longest name that fits counts
TESTS: dict[str, tuple[str, ...]] = {
    "engines": ("tests/engines/test_protocol.py", "tests/commands"),
    "engines/vllm": ("tests/test_plan.py", "tests/engines/vllm", "tests/test_outcomes.py", "tests/advice"),
    "engines/llamacpp": ("tests/engines/llamacpp/test_planner.py", "tests/engines/ollama", "tests/engines/llamacpp"),
    "engines/ollama": ("tests/engines/ollama",),
    "engines/sglang": ("tests/engines/sglang",),
    "doctor": ("tests/doctor", "tests/report"),
    "advice": ("tests/advice", "tests/test_outcomes.py"),
    "search": ("tests/search",),
}
# files of an engine whose tests are elsewhere
PARTS: dict[str, tuple[str, ...]] = {
    "command": ("tests/commands",),
    "arguments": ("tests/commands",),
    "values": ("tests/commands",),
    "python_call": ("tests/commands",),
    "container": ("tests/commands",),
    "emit": ("tests/emit",),
    "offer": ("tests/test_compare.py",),
    "cards": ("tests/search",),
    "arm": ("tests/search",),
}
# folder of the source -> the kinds of stored answers that it takes part in, and how many are skipped for each one
REPLAYED: dict[str, tuple[str, int]] = {
    "engines": ("plan", 4),
    "doctor": ("explain", 1),
    "advice": ("explain", 2),
    "search": ("fit", 2),
}

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
SIGNS: dict[type[ast.operator], tuple[str, str]] = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}


class Mutant(NamedTuple):
    path: Path  # below the root
    begin: int  # characters of the file
    end: int
    line: int
    before: str
    after: str
    text: str  # the whole line

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {self.before} -> {self.after}"


class Lines:
    """Where a node's position is in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line.encode()))
        self.data = text.encode()

    def between(self, first: ast.expr, second: ast.expr, word: str) -> tuple[int, int] | None:
        """The place of an operator between two operands; None where a comment or a string hides it."""
        begin = self.starts[(first.end_lineno or 1) - 1] + (first.end_col_offset or 0)
        end = self.starts[second.lineno - 1] + second.col_offset
        at = self.data[begin:end].find(word.encode())
        return (begin + at, begin + at + len(word)) if at >= 0 and b"#" not in self.data[begin:end] else None

    def of(self, node: ast.expr) -> tuple[int, int]:
        begin = self.starts[node.lineno - 1] + node.col_offset
        return begin, self.starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)


def mutants(path: Path) -> Iterator[Mutant]:
    """Every change of one file."""
    lines = Lines((ROOT / path).read_text())
    tree = ast.parse(lines.text)
    for node in _running(tree):
        for place, before, after in _changes(node, lines):
            if place is not None:
                line = lines.data[: place[0]].count(b"\n")
                yield Mutant(path, *place, line + 1, before, after, lines.text.splitlines()[line].strip())


def _running(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but annotations, which change nothing at run time, and what only a type checker reads."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or _for_types(node):
                continue
            yield node
            yield from _running(node)


def _for_types(node: ast.AST) -> bool:
    checked = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return checked or (
        isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal"
    )


def _changes(node: ast.AST, lines: Lines) -> Iterator[tuple[tuple[int, int] | None, str, str]]:
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield lines.of(node), str(node.value), str(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        changed = node.value + 1 if isinstance(node.value, int) else round(node.value * 1.5 + 0.01, 6)
        begin, end = lines.of(node)
        yield (begin, end), lines.data[begin:end].decode(), str(changed)
    elif isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for at, operator in enumerate(node.ops):
            before, after = COMPARISONS[type(operator)]
            yield lines.between(operands[at], operands[at + 1], before), before, after
    elif isinstance(node, ast.BoolOp):
        before, after = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        yield lines.between(node.values[0], node.values[1], before), before, after
    elif isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
        before, after = SIGNS[type(node.op)]
        yield lines.between(node.left, node.right, before), before, after


def choose(folders: Sequence[str], count: int, seed: str) -> list[Mutant]:
    chance = random.Random(seed)
    chosen: list[Mutant] = []
    for number, folder in enumerate(folders):
        share = count // len(folders) + (number < count % len(folders))
        paths = sorted(path.relative_to(ROOT) for path in (SOURCE / folder).rglob("*.py"))
        every = [mutant for path in paths for mutant in mutants(path)]
        chosen += chance.sample(every, min(share, len(every)))
    return chosen


def tests_of(path: Path) -> tuple[str, ...]:
    parts = path.relative_to("src/oomph").parts
    if "rules" in parts:
        return TESTS["doctor"]
    if parts[0] == "engines" and path.stem in PARTS:
        return PARTS[path.stem]
    here = "/".join(parts[:-1])
    name = max((name for name in TESTS if f"{here}/".startswith(f"{name}/")), key=len)
    return TESTS[name]


class Copy:
    """The tree in a folder of its own, with the tests that do not even pass there left out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tracked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.run(tracked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0"):
            if name and (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)

    def notices(self, mutant: Mutant, limit: float, without: Sequence[str]) -> str:
        """What notices a change: a test, the time limit, or "" for nothing."""
        path = self.folder / mutant.path
        data = path.read_bytes()
        path.write_bytes(data[: mutant.begin] + mutant.after.encode() + data[mutant.end :])
        try:
            began = time.monotonic()
            failed = self.run(tests_of(mutant.path), limit, without)
            left = limit - (time.monotonic() - began)
            return failed or self.replay(mutant.path, left, without)
        finally:
            path.write_bytes(data)

    def replay(self, path: Path, limit: float, without: Sequence[str]) -> str:
        parts = path.relative_to("src/oomph").parts
        kind, every = REPLAYED["doctor" if "rules" in parts else parts[0]]
        return self.run([f"tests/replay/test_replay.py::test_answers_are_as_they_were[{kind}]"], limit, without, every)

    def run(self, tests: Sequence[str], limit: float, without: Sequence[str], every: int = 1) -> str:
        """The first test that fails; "" = none."""
        options = [
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            "--no-header",
            "--tb=no",
            *(f"--deselect={w}" for w in without),
        ]
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "src"), "REPLAY_EVERY": str(every)}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        present = [test for test in tests if (self.folder / test.split("::")[0]).exists()]
        command = [sys.executable, "-m", "pytest", *options, *present]
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=max(limit, 1)
            )
        except subprocess.TimeoutExpired:
            return "the time limit"
        if done.returncode in (0, 5):  # 5: no test was collected
            return ""
        failures = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return failures[0].split(" - ")[0].partition(" ")[2] if failures else "pytest itself"


def unreliable(copy: Copy, chosen: Sequence[Mutant], limit: float) -> list[str]:
    """The tests that fail without any change: they say nothing about one."""
    failing: list[str] = []
    for tests in {tests_of(mutant.path) for mutant in chosen}:
        while failed := copy.run(tests, 4 * limit, failing):
            if failed in failing or failed in ("the time limit", "pytest itself"):
                raise SystemExit(f"{', '.join(tests)}: {failed}, without any change")
            failing.append(failed)
    for path in {mutant.path.parts[2]: mutant.path for mutant in chosen}.values():  # one for each folder
        if failed := copy.replay(path, 4 * limit, failing):
            failing.append(failed)
    return failing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER", default=FOLDERS)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", default="")
    parser.add_argument("--limit", type=float, default=LIMIT)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if unknown := set(options.folders) - set(FOLDERS):
        parser.error(f"{unknown.pop()!r} is not one of {', '.join(FOLDERS)}")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    seed = options.seed or commit.stdout.strip()
    chosen = choose(options.folders, options.count, seed)
    print(f"{len(chosen)} changes of {', '.join(options.folders)}; seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(options.jobs):
            copies.put(Copy(Path(scratch) / str(number)))
        first = copies.get()
        without = unreliable(first, chosen, options.limit)
        copies.put(first)
        for name in without:
            print(f"left out, it fails without any change: {name}", flush=True)

        def judge(mutant: Mutant) -> str:
            copy = copies.get()
            try:
                noticed = copy.notices(mutant, options.limit, without)
            finally:
                copies.put(copy)
            print(
                f"{'noticed ' if noticed else 'SURVIVED'}  {mutant}{f'  by {noticed}' if noticed else ''}", flush=True
            )
            return noticed

        with ThreadPoolExecutor(options.jobs) as pool:
            verdicts = list(pool.map(judge, chosen))
    survivors = [mutant for mutant, noticed in zip(chosen, verdicts, strict=True) if not noticed]
    print(f"\n{len(chosen) - len(survivors)} of {len(chosen)} noticed; survivors:")
    for mutant in survivors:
        print(f"  {mutant}    {mutant.text[:110]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
