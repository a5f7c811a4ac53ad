"""A value does not change after it was built: what a plan, an explanation or a search hands on stays as it was."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator

import msgspec

import oomph

FOLDERS = ("ir", "engines", "doctor", "advice", "search")
# What the player of a load fills in while it builds its tables (forms.py and program.py of engines/vllm/weights/load),
# and the batch that SGLang's scheduler steps.
SCRATCH = frozenset(("Batch", "Module", "ModuleForm", "Step", "Built", "Part", "Program"))


def values() -> Iterator[type]:
    folders = [f"{path}/{name}" for path in oomph.__path__ for name in FOLDERS]
    for folder, name in zip(folders, FOLDERS, strict=True):
        for module in pkgutil.walk_packages([folder], f"oomph.{name}."):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and value.__module__ == module.name:
                    yield value


def is_frozen(value: type) -> bool:
    if issubclass(value, msgspec.Struct):
        return value.__struct_config__.frozen
    if dataclasses.is_dataclass(value):
        return bool(value.__dataclass_params__.frozen)  # type: ignore[attr-defined]
    return True


def test_values_are_frozen() -> None:
    assert {value.__qualname__ for value in values() if not is_frozen(value)} == SCRATCH
