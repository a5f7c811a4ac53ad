"""tools/mutants.py: the changes are changes, a seed makes the same ones, a switch makes the one it names."""

from __future__ import annotations

import ast
import builtins
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import changes_of_code  # noqa: E402
import mutants  # noqa: E402
import switches  # noqa: E402
from changes_of_code import Mutant, places  # noqa: E402
from switches import State, Switched, names_on_import  # noqa: E402


def changed(mutant: Mutant, data: bytes) -> str:
    assert data[mutant.begin : mutant.end].decode() == mutant.before
    return (data[: mutant.begin] + mutant.after.encode() + data[mutant.end :]).decode()


def test_every_change_is_python_and_means_something_else() -> None:
    """The changed expression behind a switch is that of the changed text."""
    for mutant in mutants.choose(mutants.FOLDERS, 60, "a seed"):
        data = (ROOT / mutant.path).read_bytes()
        tree = ast.parse(data)
        (place,) = (place for place in places(mutant.path, tree, data.decode()) if place.mutant == mutant)
        before = ast.unparse(tree)

        class Changed(ast.NodeTransformer):
            def visit(self, node: ast.AST, place: changes_of_code.Place = place) -> ast.AST:
                return place.changed if node is place.node else super().generic_visit(node)

        after = ast.unparse(ast.parse(ast.unparse(Changed().visit(tree))))
        assert after == ast.unparse(ast.parse(changed(mutant, data))) != before, mutant


def test_a_seed_decides() -> None:
    assert mutants.choose(("advice",), 10, "1") == mutants.choose(("advice",), 10, "1")
    assert mutants.choose(("advice",), 10, "1") != mutants.choose(("advice",), 10, "2")


def test_the_kinds_of_changes() -> None:
    code = "x: Literal[1] = 2\nif a < b and c + 1 or d is not None:\n    e = True\n"
    pairs = [(place.mutant.before, place.mutant.after) for place in places(Path("code.py"), ast.parse(code), code)]
    expected = {("2", "3"), ("<", "<="), ("and", "or"), ("or", "and"), ("+", "-"), ("1", "2"), ("True", "False")}
    assert set(pairs) == expected | {("is not", "is")} and len(pairs) == 8


def test_the_parts_are_the_whole() -> None:
    whole = mutants.choose(("advice",), 10, "1")
    parts = [mutants.part_of(whole, f"{number}/3") for number in (1, 2, 3)]
    assert sorted(number for part in parts for number in part) == list(range(10))


CODE = """
LIMIT = 4
def f(a, b):
    "Words."
    return a < b and a + 1 != LIMIT or b in (7, 8)
"""


def test_a_switch_makes_one_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change of a text gives the same answers behind its switch as in a text of its own."""
    for name in ("as_it_was", "compared", "joined", "reads"):
        monkeypatch.setattr(builtins, f"__{name}__", getattr(switches, name), raising=False)
    tree = ast.parse(CODE)
    every = list(places(Path("code.py"), tree, CODE))
    by_node: dict[int, list[tuple[int, ast.expr]]] = {}
    for number, place in enumerate(every):
        by_node.setdefault(id(place.node), []).append((number, place.changed))
    switched = ast.fix_missing_locations(Switched(by_node, {"LIMIT": {0}}).visit(tree))
    code = compile(switched, "code.py", "exec")
    arguments = [(a, b) for a in (1, 2, 3, 4) for b in (3, 4, 7, 9)]
    monkeypatch.setattr(State, "noted", set())
    for number, mutant in [(-1, None), *((number, place.mutant) for number, place in enumerate(every))]:
        monkeypatch.setattr(State, "on", number)
        mine: dict[str, object] = {}
        own: dict[str, object] = {}
        exec(code, mine)
        exec(changed(mutant, CODE.encode()) if mutant else CODE, own)
        assert [mine["f"](*pair) for pair in arguments] == [own["f"](*pair) for pair in arguments], mutant  # type: ignore[operator]


def test_a_bound_is_noted_where_both_sides_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    for sides, noted in (((3, 3), {5}), ((2, 3), set()), ((4, 3), set())):
        monkeypatch.setattr(State, "noted", set())
        assert switches.compared(5, "lt", "le", *sides) is (sides[0] < sides[1])
        assert State.noted == noted


def test_what_runs_on_import_is_seen_through_a_name() -> None:
    code = "A = 1\nclass B(C, frozen=True):\n    x: int = 2\n    def g(self, y=3):\n        return 4\n"
    code += "def f(z=5):\n    return 6\n"
    tree = ast.parse(code)
    names = {place.mutant.before: names_on_import(tree, place.node) for place in places(Path("code.py"), tree, code)}
    expected = {"1": ["A"], "True": ["B"], "2": ["B"], "3": ["B", "g"], "4": [], "5": ["f"], "6": []}
    assert names == expected


def test_a_process_of_its_own() -> None:
    assert mutants.in_a_process(lambda: "an answer", 5) == "an answer"
    assert mutants.in_a_process(lambda: str(1 // 0), 5).startswith("ZeroDivisionError")


def test_an_and_is_noted_where_its_value_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    for first, second, noted in ((True, True, set()), (False, False, set()), (True, False, {5}), (False, True, {5})):
        monkeypatch.setattr(State, "noted", set())
        operands = (lambda a=first, b=second: a and b, lambda a=first, b=second: a or b)
        assert switches.joined(5, *operands) is (first and second)
        assert State.noted == noted
    monkeypatch.setattr(State, "noted", set())
    assert switches.joined(5, lambda: None, lambda: 1 // 0) is None and State.noted == {5}


def test_a_test_that_names_a_default_or_a_constant_reads_it() -> None:
    every = {
        (mutant.line, mutant.before): mutant for mutant in changes_of_code.mutants(Path("src/oomph/search/score.py"))
    }
    prompt = next(mutant for (_, before), mutant in every.items() if before == "2048")
    known = "tests/search/test_search_edges.py::test_the_reference_request_has_so_many_tokens_of_prompt_and_answer"
    assert known in mutants.readers_of(prompt)
