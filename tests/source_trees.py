"""The syntax trees of the source, parsed once for all tests that walk them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "oomph"


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def walk(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, in the order of ast.walk."""
    return tuple(ast.walk(tree(path)))


@cache
def files() -> tuple[Path, ...]:
    return tuple(sorted(SRC.rglob("*.py")))
