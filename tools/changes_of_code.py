"""The changes that tools/mutants.py makes: every place of a file where one could be, and the changed expression."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

COMPARISONS: dict[type[ast.cmpop], tuple[str, str, type[ast.cmpop]]] = {
    ast.Eq: ("==", "!=", ast.NotEq),
    ast.NotEq: ("!=", "==", ast.Eq),
    ast.Lt: ("<", "<=", ast.LtE),
    ast.LtE: ("<=", "<", ast.Lt),
    ast.Gt: (">", ">=", ast.GtE),
    ast.GtE: (">=", ">", ast.Gt),
    ast.In: ("in", "not in", ast.NotIn),
    ast.NotIn: ("not in", "in", ast.In),
    ast.Is: ("is", "is not", ast.IsNot),
    ast.IsNot: ("is not", "is", ast.Is),
}
BOUNDS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)  # changing one shows only where both sides are equal


class Mutant(NamedTuple):
    path: Path  # below the root
    begin: int  # bytes of the file
    end: int
    line: int
    before: str
    after: str
    text: str  # the whole line

    def __str__(self) -> str:
        return f"{self.path}:{self.line}  {self.before} -> {self.after}"


class Place(NamedTuple):
    """One change of one node."""

    mutant: Mutant
    node: ast.expr
    changed: ast.expr  # of the same operands


class Text:
    """Where a node's position is in a file."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.lines = text.splitlines()
        self.data = text.encode()
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line.encode()))

    def between(self, first: ast.expr, second: ast.expr, word: str) -> tuple[int, int] | None:
        """The place of an operator between two operands; None where a comment or a string hides it."""
        begin = self.starts[(first.end_lineno or 1) - 1] + (first.end_col_offset or 0)
        end = self.starts[second.lineno - 1] + second.col_offset
        at = self.data[begin:end].find(word.encode())
        return (begin + at, begin + at + len(word)) if at >= 0 and b"#" not in self.data[begin:end] else None

    def of(self, node: ast.expr) -> tuple[int, int]:
        begin = self.starts[node.lineno - 1] + node.col_offset
        return begin, self.starts[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)

    def mutant(self, place: tuple[int, int], before: str, after: str) -> Mutant:
        line = self.data[: place[0]].count(b"\n")
        return Mutant(self.path, *place, line + 1, before, after, self.lines[line].strip())


def places(path: Path, tree: ast.AST, text: str) -> Iterator[Place]:
    """Every change of one file, with the node of `tree` that it changes."""
    source = Text(path, text)
    for node in _running(tree):
        if isinstance(node, ast.expr):
            for place, before, after, changed in _changes(node, source):
                if place is not None:
                    yield Place(source.mutant(place, before, after), node, changed)


def mutants(path: Path) -> Iterator[Mutant]:
    text = (ROOT / path).read_text()
    return (place.mutant for place in places(path, ast.parse(text), text))


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


def _changes(node: ast.expr, text: Text) -> Iterator[tuple[tuple[int, int] | None, str, str, ast.expr]]:
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield text.of(node), str(node.value), str(not node.value), ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        changed = node.value + 1 if isinstance(node.value, int) else round(node.value * 1.5 + 0.01, 6)
        begin, end = text.of(node)
        yield (begin, end), text.data[begin:end].decode(), str(changed), ast.Constant(changed)
    elif isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for at, operator in enumerate(node.ops):
            before, after, other = COMPARISONS[type(operator)]
            operators = [*node.ops[:at], other(), *node.ops[at + 1 :]]
            place = text.between(operands[at], operands[at + 1], before)
            yield place, before, after, ast.Compare(node.left, operators, node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield _other_word(node, text)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        signs = ("+", "-", ast.Sub()) if isinstance(node.op, ast.Add) else ("-", "+", ast.Add())
        place = text.between(node.left, node.right, signs[0])
        yield place, signs[0], signs[1], ast.BinOp(node.left, signs[2], node.right)


def _other_word(node: ast.BoolOp, text: Text) -> tuple[tuple[int, int] | None, str, str, ast.expr]:
    """The first `and` of several as `or`, or the other way round: `and` binds closer."""
    first, second, *rest = node.values
    if isinstance(node.op, ast.And):
        behind = ast.BoolOp(ast.And(), [second, *rest]) if rest else second
        return text.between(first, second, "and"), "and", "or", ast.BoolOp(ast.Or(), [first, behind])
    ahead = ast.BoolOp(ast.And(), [first, second])
    return text.between(first, second, "or"), "or", "and", ast.BoolOp(ast.Or(), [ahead, *rest]) if rest else ahead
