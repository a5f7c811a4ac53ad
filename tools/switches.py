"""All changes of a seed in one process: each stands in the imported code beside the original, behind a switch.

`install` puts a loader in front of Python's own. An expression with a change becomes `original if as_it_was(number)
else changed`, a comparison of sizes `compared(number, ...)`, an `and` or `or` `joined(number, ...)`, so that one run of
a test notes every change that would have mattered to it: those whose expression it runs; of comparisons of sizes, those
it puts on the bound; of `and` and `or`, those whose value changes. `turn` switches one change on.

What runs on import (a table, a default) is noted for the functions that read it, by their names.
"""

from __future__ import annotations

import ast
import builtins
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from changes_of_code import BOUNDS, ROOT, Mutant, places

OPERATORS = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}
AS_IT_WAS, COMPARED, JOINED, READS = "__as_it_was__", "__compared__", "__joined__", "__reads__"
# Calls that may be made twice: nothing but their answer comes of them.
PURE = frozenset((
    "abs", "all", "any", "before", "bool", "endswith", "first", "flag", "float", "frozenset", "fullmatch", "get",
    "getattr", "has", "has_words", "int", "isdigit", "isdisjoint", "isinstance", "issubset", "items", "keys", "last",
    "len", "lower", "lstrip", "match", "max", "min", "number", "partition", "range", "removeprefix", "removesuffix",
    "replace", "round", "rpartition", "rstrip", "search", "set", "sorted", "split", "startswith", "str", "strip",
    "sum", "tuple", "upper", "value", "values", "whole",
))  # fmt: skip
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class State:
    """Which change is on, and those that would have mattered since `noted` was last emptied."""

    on = -1
    noted: set[int] = set()  # noqa: RUF012


def turn(number: int) -> None:
    State.on = number


def as_it_was(number: int) -> bool:
    State.noted.add(number)
    return State.on != number


def compared(number: int, word: str, other: str, left: Any, right: Any) -> Any:
    answer, changed = getattr(operator, word)(left, right), getattr(operator, other)(left, right)
    if answer is not changed:
        State.noted.add(number)
    return changed if State.on == number else answer


def joined(number: int, original: Callable[[], Any], changed: Callable[[], Any]) -> Any:
    if State.on == number:
        return changed()
    answer = original()
    if State.on < 0 and number not in State.noted:
        try:
            other = changed()
            differs = other is not answer and bool(other != answer)
        except Exception:  # what the other operand kept from being asked
            differs = True
        if differs:
            State.noted.add(number)
    return answer


def reads(numbers: tuple[int, ...]) -> None:
    State.noted.update(numbers)


class Switched(ast.NodeTransformer):
    def __init__(self, by_node: dict[int, list[tuple[int, ast.expr]]], readers: dict[str, set[int]]) -> None:
        self.by_node = by_node
        self.readers = readers
        self.in_function = False  # elsewhere a lambda does not see the names around it

    def visit(self, node: ast.AST) -> Any:
        changes = self.by_node.get(id(node), ())
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            around, self.in_function = self.in_function, isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            node = self.generic_visit(node)
            self.in_function = around
        else:
            node = self.generic_visit(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._note_what_it_reads(node)
        for number, changed in changes:
            node = _switch(number, node, changed, self.in_function)  # type: ignore[arg-type]
        return node

    def visit_match_case(self, node: ast.match_case) -> Any:
        node.body = [self.visit(statement) for statement in node.body]  # a pattern takes no calls
        return node

    def _note_what_it_reads(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        numbers = sorted({number for name in mentioned(function) for number in self.readers.get(name, ())})
        if numbers:
            note = ast.Expr(_call(READS, ast.Tuple([ast.Constant(number) for number in numbers], ast.Load())))
            at = int(ast.get_docstring(function, clean=False) is not None)
            function.body.insert(at, ast.copy_location(note, function.body[min(at, len(function.body) - 1)]))


def _switch(number: int, node: ast.expr, changed: ast.expr, in_function: bool) -> ast.expr:
    if isinstance(node, ast.Compare) and isinstance(changed, ast.Compare) and len(node.ops) == 1:
        old, new = node.ops[0], changed.ops[0]
        if isinstance(old, BOUNDS):
            words = (ast.Constant(OPERATORS[type(op)].__name__) for op in (old, new))
            return ast.copy_location(
                _call(COMPARED, ast.Constant(number), *words, node.left, node.comparators[0]), node
            )
    if isinstance(node, ast.BoolOp) and in_function and _may_run_twice(node):
        return ast.copy_location(_call(JOINED, ast.Constant(number), _later(node), _later(changed)), node)
    return ast.copy_location(ast.IfExp(_call(AS_IT_WAS, ast.Constant(number)), node, changed), node)


def _may_run_twice(node: ast.expr) -> bool:
    """It binds nothing, and calls nothing but what only answers."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
            return False
        if isinstance(inner, ast.Call):
            name = getattr(inner.func, "attr", getattr(inner.func, "id", ""))
            if name not in PURE and not name.startswith("__"):
                return False
    return True


def _later(value: ast.expr) -> ast.Lambda:
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.Lambda(nothing, value)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def mentioned(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.attr if isinstance(node, ast.Attribute) else node.name


def names_on_import(tree: ast.Module, node: ast.AST) -> list[str]:
    """The names through which functions see an expression that runs on import; [] for one inside a function."""
    statements: Sequence[ast.stmt] = tree.body
    names: list[str] = []
    while statements:
        around = [statement for statement in statements if any(inner is node for inner in ast.walk(statement))]
        if not around:
            return names
        (statement,) = around
        if isinstance(statement, FUNCTIONS):
            inside = any(inner is node for line in statement.body for inner in ast.walk(line))
            return [] if inside else [*names, statement.name]
        targets = getattr(statement, "targets", [getattr(statement, "target", None)])
        here = [name.id for target in targets if target for name in ast.walk(target) if isinstance(name, ast.Name)]
        is_field = bool(names) and isinstance(statement, ast.AnnAssign)  # seen by whoever makes one of the class
        names += [statement.name] if isinstance(statement, ast.ClassDef) else [] if is_field else here
        blocks = (getattr(statement, name, []) for name in ("body", "orelse", "handlers", "finalbody"))
        statements = [line for block in blocks for line in block]
    return names


class Loader(SourceFileLoader):
    chosen: dict[Path, dict[Mutant, int]]
    readers: dict[str, set[int]]

    def get_code(self, fullname: str) -> CodeType:
        path = Path(self.get_filename(fullname))
        text = path.read_text()
        mine = self.chosen.get(path, {})
        if not mine and not any(name in text for name in self.readers):
            return super().get_code(fullname)  # type: ignore[return-value]
        tree = ast.parse(text)
        by_node: dict[int, list[tuple[int, ast.expr]]] = {}
        if mine:
            for place in places(path.relative_to(ROOT), tree, text):
                if place.mutant in mine:
                    by_node.setdefault(id(place.node), []).append((mine[place.mutant], place.changed))
        tree = ast.fix_missing_locations(Switched(by_node, self.readers).visit(tree))
        code: CodeType = compile(tree, str(path), "exec", dont_inherit=True)
        return code


class Finder(MetaPathFinder):
    def __init__(self, loader: type[Loader]) -> None:
        self.loader = loader

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("oomph"):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = self.loader(fullname, spec.origin)
        return spec


def install(chosen: Sequence[Mutant]) -> None:
    """From here on, modules of oomph that are imported hold the changes, numbered as in the list."""
    if any(name.partition(".")[0] == "oomph" for name in sys.modules):
        raise SystemExit("oomph is imported already")
    by_path: dict[Path, dict[Mutant, int]] = {}
    for number, mutant in enumerate(chosen):
        by_path.setdefault(ROOT / mutant.path, {})[mutant] = number
    readers: dict[str, set[int]] = {}
    for path, mine in by_path.items():
        text = path.read_text()
        tree = ast.parse(text)
        for place in places(path.relative_to(ROOT), tree, text):
            if place.mutant in mine:
                for name in names_on_import(tree, place.node):
                    readers.setdefault(name, set()).add(mine[place.mutant])
    kind = type("Loader", (Loader,), {"chosen": by_path, "readers": readers})
    sys.path.insert(0, str(ROOT / "src"))
    sys.meta_path.insert(0, Finder(kind))
    for name, function in ((AS_IT_WAS, as_it_was), (COMPARED, compared), (JOINED, joined), (READS, reads)):
        setattr(builtins, name, function)


def import_all(names: Iterable[str] = ("oomph",)) -> None:
    """Every module of oomph, so that a process that is forked has them."""
    import importlib
    import pkgutil

    for name in names:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
