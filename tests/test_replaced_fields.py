"""msgspec's replace() takes any keyword, and no type checker looks at it: a field that was renamed is found here."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCES = sorted((Path(__file__).parent.parent / "src" / "oomph").rglob("*.py"))


def test_every_replaced_field_exists() -> None:
    trees = {path: ast.parse(path.read_text()) for path in SOURCES}
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    statements = [statement for node in classes for statement in node.body if isinstance(statement, ast.AnnAssign)]
    fields = {statement.target.id for statement in statements if isinstance(statement.target, ast.Name)}
    unknown = [
        f"{path.name}:{node.lineno}: {keyword.arg}"
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "replace"
        for keyword in node.keywords
        if keyword.arg and keyword.arg not in fields
    ]
    assert not unknown, unknown
