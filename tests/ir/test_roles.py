"""The parts of a model are called the same everywhere."""

from __future__ import annotations

import ast
from typing import get_args

from oomph.ir.model import Role
from oomph.ir.roles import ROLE_WORDS, role_words
from source_trees import SRC, files, walk


def test_every_role_has_its_words() -> None:
    assert ROLE_WORDS.keys() == set(get_args(Role))
    assert role_words("kept_in_host") == "kept in host"


def test_the_words_stand_in_one_table() -> None:
    tables = [
        str(path.relative_to(SRC))
        for path in files()
        for node in walk(path)
        if isinstance(node, ast.Dict)
        and sum(isinstance(key, ast.Constant) and key.value in ("linear_attn", "lm_head", "embed") for key in node.keys)
        > 1
        and all(isinstance(value, ast.Constant) and isinstance(value.value, str) for value in node.values)
    ]
    assert tables == ["ir/roles.py"]
