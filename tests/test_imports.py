"""Dependency arrows point up the list of docs/structure.md only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SRC = Path(__file__).parent.parent / "src" / "oomph"

# A module may import from its own line and the lines above it.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("units", "errors"),
    ("ir",),
    ("facts",),
    ("catalog",),
    ("sources",),
    ("commands",),
    ("logs",),
    ("engines",),
    ("inspection", "plan", "levers", "compare", "doctor", "search", "simulate", "diff", "emit", "launch"),
    ("report",),
    ("cli", "web"),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# Modules whose import costs more than the command that does not need them.
HEAVY = ("rich", "huggingface_hub", "yaml", "pynvml", "numpy", "starlette", "uvicorn")


def files() -> Iterator[Path]:
    yield from (p for p in sorted(SRC.rglob("*.py")) if p != SRC / "__init__.py")


def layer(module: str) -> str:
    return module.split(".")[1] if module.startswith("oomph.") else ""


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "oomph":
            yield from (f"oomph.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_arrows_point_up() -> None:
    wrong = []
    for path in files():
        here = path.relative_to(SRC).parts[0].removesuffix(".py")
        assert here in LEVEL, f"{here} has no place in the list of layers"
        for module in imported(ast.parse(path.read_text())):
            there = layer(module)
            if there and LEVEL[there] > LEVEL[here]:
                wrong.append(f"{path.relative_to(SRC)} imports {module}")
    assert not wrong


def test_heavy_imports_are_late() -> None:
    wrong = []
    for path in files():
        if path.is_relative_to(SRC / "web"):
            continue  # the page's server is itself imported late
        body = [node for node in ast.parse(path.read_text()).body if isinstance(node, (ast.Import, ast.ImportFrom))]
        heavy = [m for m in imported(ast.Module(list(body), type_ignores=[])) if m.split(".")[0] in HEAVY]
        wrong += [f"{path.relative_to(SRC)} imports {module} at its top" for module in heavy]
    assert not wrong
