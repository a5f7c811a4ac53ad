"""The kind of an observation is compared with names that exist: mypy checks the tables, not these (ir/log_kinds.py)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import oomph
from oomph.ir.advice import KINDS as KINDS_OF_CHANGES
from oomph.ir.log_kinds import LogKind

SOURCE = Path(oomph.__file__).parent
KINDS = {name for part in get_args(LogKind) for name in get_args(part)}
CHANGES = set(KINDS_OF_CHANGES)  # a change has a kind too


def compared(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The names that anything called `kind` or `kinds` is compared with, and their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.BinOp):
            sides = [node.left, *(node.comparators if isinstance(node, ast.Compare) else [node.right])]
            if any(getattr(side, "attr", getattr(side, "id", "")) in ("kind", "kinds", "completed") for side in sides):
                constants = (inner for side in sides for inner in ast.walk(side) if isinstance(inner, ast.Constant))
                yield from ((node.lineno, inner.value) for inner in constants if isinstance(inner.value, str))


def observing() -> Iterator[Path]:
    for folder in ("logs", "doctor", "engines", "facts", "machine", "web"):
        for path in (SOURCE / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if "import Observation" in text or "doctor.case import" in text or path.parent.name == "logs":
                yield path


def test_every_name_is_a_kind() -> None:
    names = [(path, *place) for path in observing() for place in compared(ast.parse(path.read_text(encoding="utf-8")))]
    wrong = [f"{path.relative_to(SOURCE)}:{line}: {name}" for path, line, name in names if name not in KINDS | CHANGES]
    assert not wrong
    assert len({name for _, _, name in names} & KINDS) > 90


def test_a_misspelt_name_is_noticed() -> None:
    lines = 'observation.kind == "torch_om"', 'kind in ("args", "x")', '"y" in case.completed', 'kinds & {"z"}'
    assert sorted(compared(ast.parse("\n".join(lines)))) == [
        (1, "torch_om"), (2, "args"), (2, "x"), (3, "y"), (4, "z"),
    ]  # fmt: skip
