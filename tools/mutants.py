"""Change random lines of the source, one at a time, and list the changes that no test notices.

    python tools/mutants.py [--count 100] [--seed TEXT] [--map FOLDER] [--part 1/8] [--limit SECONDS] [FOLDER...]

FOLDER is one of engines, doctor, advice, search (default: all, with an equal share of the changes). A change is a
number, a truth value, a comparison, an `and` or `or`, or a sign. The seed is the commit's hash unless another is named,
and it is printed: the same seed on the same commit makes the same changes. Each change is made in a copy of the tree,
so that nothing here is touched, and the stored answers and tests that run the changed line run against it, the quickest
first (tools/executed.py records once which those are; --map keeps the record). What fails must pass again without the
change. A change that runs longer than the limit counts as noticed.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import json
import os
import py_compile
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from executed import REPLAY, Choice, Executed

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "oomph"
FOLDERS = ("engines", "doctor", "advice", "search")
LIMIT = 240  # seconds for the tests of one change

# Tests that run oomph's own code in this process; those of the page, the documents and the commands start others.
TESTS = (
    "replay", "tests/engines", "tests/doctor", "tests/advice", "tests/search", "tests/commands", "tests/emit",
    "tests/report", "tests/facts", "tests/logs", "tests/simulate", "tests/launch", "tests/pack", "tests/learn",
    "tests/cli/test_plan_command.py", "tests/cli/test_words.py", "tests/test_plan.py", "tests/test_outcomes.py",
    "tests/test_compare.py", "tests/test_truth.py", "tests/test_field_plans.py", "tests/test_consistency.py",
    "tests/test_host.py", "tests/test_calibration.py", "tests/test_whose_figures.py", "tests/test_public_api.py",
    "tests/test_frozen.py",
)  # fmt: skip
EVERYWHERE = ("tests/test_frozen.py",)  # of what runs on import: these look at every module
SHARE = 16  # seconds that the tests of one change may take when nothing else runs, and the answers as long again
FIRST = 3  # tests of each file that go before all the others

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


def statement(tree: ast.AST, line: int) -> range | None:
    """The lines of the statement of a function that a line belongs to; None: it runs on import."""
    lines: range | None = None
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            inner = getattr(node, "body", None)
            if isinstance(node, ast.stmt) and node is not function:
                last = inner[0].lineno - 1 if isinstance(inner, list) else node.end_lineno or line
                if node.lineno <= line <= max(last, node.lineno):
                    lines = range(node.lineno, max(last, node.lineno) + 1)
    return lines


def choice(mutant: Mutant, executed: Executed) -> Choice:
    """The stored answers and tests for one change: all that run its line, as far as their time allows."""
    tree = ast.parse((ROOT / mutant.path).read_text())
    lines = statement(tree, mutant.line)
    names = executed.of_lines(mutant.path, lines)
    if lines is None:
        names += [name for name in executed.seconds if name.startswith(EVERYWHERE) and name not in names]
    answers = _interleaved([name for name in names if name.startswith(REPLAY)], str(mutant))
    tests = sorted((name for name in names if not name.startswith(REPLAY)), key=executed.seconds.__getitem__)
    seen: Counter[str] = Counter()
    ranks: dict[str, bool] = {}
    for name in tests:
        seen[name.split("::")[0]] += 1
        ranks[name] = seen[name.split("::")[0]] > FIRST
    in_order = sorted(tests, key=lambda name: (ranks[name], executed.seconds[name]))
    return Choice(_within(answers, SHARE, executed), _within(in_order, SHARE, executed))


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


def _within(names: Sequence[str], seconds: float, executed: Executed) -> list[str]:
    sums = accumulate(executed.seconds[name] for name in names)
    return [name for name, total in zip(names, sums, strict=True) if total <= seconds]


class Copy:
    """The tree in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tracked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.run(tracked, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0"):
            if name and (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        # Compiled once; the hash of the source is looked at, so that a changed file is compiled anew.
        compileall.compile_dir(folder / "src", quiet=2, invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)

    def notices(self, mutant: Mutant, chosen: Choice, limit: float) -> str:
        """What notices a change: a stored answer, a test, the time limit, or "" for nothing."""
        path = self.folder / mutant.path
        data = path.read_bytes()
        while True:
            path.write_bytes(data[: mutant.begin] + mutant.after.encode() + data[mutant.end :])
            try:
                failed = self.judge(chosen, limit)
            finally:
                path.write_bytes(data)
            again = chosen if failed.startswith("pytest") else Choice([], [failed])
            if not failed or " limit" in failed or failed.startswith(REPLAY) or not self.judge(again, limit):
                return failed
            if again is chosen:
                raise SystemExit(f"{failed}, without any change")
            chosen = chosen._replace(tests=[test for test in chosen.tests if test != failed])  # it fails anyway

    def judge(self, chosen: Choice, limit: float) -> str:
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "tools/executed.py", "judge"]
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=limit,
                input=json.dumps(chosen._asdict()),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "the time limit"
        return done.stdout.rpartition("JUDGED ")[2].strip() if "JUDGED " in done.stdout else "an error on import"


def part_of(chosen: list[Mutant], part: str) -> list[Mutant]:
    number, parts = map(int, part.split("/"))
    return chosen[number - 1 :: parts]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", metavar="FOLDER", default=FOLDERS)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", default="")
    parser.add_argument("--map", type=Path)
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--limit", type=float, default=LIMIT)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    if unknown := set(options.folders) - set(FOLDERS):
        parser.error(f"{unknown.pop()!r} is not one of {', '.join(FOLDERS)}")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    seed = options.seed or commit.stdout.strip()
    chosen = part_of(choose(options.folders, options.count, seed), options.part)
    print(f"{len(chosen)} changes of {', '.join(options.folders)}; seed {seed}, part {options.part}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        folder = options.map or Path(scratch) / "map"
        if not (folder / "seconds.json").exists():
            subprocess.run([sys.executable, str(ROOT / "tools" / "executed.py"), str(folder), *TESTS], cwd=ROOT)
        verdicts = judge_all(chosen, Executed(folder), Path(scratch), options.limit, options.jobs)
    survivors = [mutant for mutant, noticed in zip(chosen, verdicts, strict=True) if not noticed]
    print(f"\n{len(chosen) - len(survivors)} of {len(chosen)} noticed; survivors:")
    for mutant in survivors:
        print(f"  {mutant}    {mutant.text[:110]}")
    return 0


def judge_all(chosen: list[Mutant], executed: Executed, scratch: Path, limit: float, jobs: int) -> list[str]:
    copies: SimpleQueue[Copy] = SimpleQueue()
    for number in range(jobs):
        copies.put(Copy(scratch / str(number)))

    def one(mutant: Mutant) -> str:
        copy = copies.get()
        chosen = choice(mutant, executed)
        try:
            noticed = copy.notices(mutant, chosen, limit)
        finally:
            copies.put(copy)
        by = f"by {noticed}" if noticed else f"{len(chosen.answers)} answers, {len(chosen.tests)} tests"
        print(f"{'noticed ' if noticed else 'SURVIVED'}  {mutant}  {by}", flush=True)
        return noticed

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, chosen))


if __name__ == "__main__":
    sys.exit(main())
