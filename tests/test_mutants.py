"""tools/mutants.py: the changes are changes, the same seed makes the same ones, and a test that is there is found."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
_spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
assert _spec is not None and _spec.loader is not None
mutants = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(mutants)


def changed(mutant: mutants.Mutant) -> str:  # type: ignore[name-defined]
    data = (ROOT / mutant.path).read_bytes()
    assert data[mutant.begin : mutant.end].decode() == mutant.before
    return (data[: mutant.begin] + mutant.after.encode() + data[mutant.end :]).decode()


def test_every_change_is_python_and_means_something_else() -> None:
    for mutant in mutants.choose(mutants.FOLDERS, 120, "a seed"):
        before = ast.dump(ast.parse((ROOT / mutant.path).read_text()))
        assert ast.dump(ast.parse(changed(mutant))) != before, mutant


def test_a_seed_decides() -> None:
    assert mutants.choose(("search",), 10, "1") == mutants.choose(("search",), 10, "1")
    assert mutants.choose(("search",), 10, "1") != mutants.choose(("search",), 10, "2")


def test_the_kinds_of_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "x: Literal[1] = 2\nif a < b and c + 1 or d is not None:\n    e = True\n"
    (tmp_path / "code.py").write_text(code)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    made = [(mutant.before, mutant.after) for mutant in mutants.mutants(Path("code.py"))]
    expected = {("2", "3"), ("<", "<="), ("and", "or"), ("or", "and"), ("+", "-"), ("1", "2"), ("True", "False")}
    assert set(made) == expected | {("is not", "is")} and len(made) == 8


def test_a_line_belongs_to_its_statement() -> None:
    code = "TABLE = {\n    1: 2,\n}\n\ndef f(a):\n    if (\n        a\n    ):\n        return call(\n            1,\n"
    code += "        )\n"
    tree = ast.parse(code)
    assert mutants.statement(tree, 2) is None  # it runs on import
    assert mutants.statement(tree, 7) == range(6, 9)
    assert mutants.statement(tree, 10) == range(9, 12)


def test_the_parts_are_the_whole() -> None:
    whole = mutants.choose(("search",), 10, "1")
    parts = [mutants.part_of(whole, f"{number}/3") for number in (1, 2, 3)]
    assert sorted(map(str, whole)) == sorted(str(mutant) for part in parts for mutant in part)
