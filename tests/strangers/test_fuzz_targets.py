"""Every fuzz target of `make fuzz` still runs: its seeds go through it once, without the fuzzer."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "fuzz"
TARGETS = sorted(path.stem for path in FOLDER.glob("fuzz_*.py"))


def test_the_makefile_names_them_all() -> None:
    line = next(
        line for line in (FOLDER.parents[1] / "Makefile").read_text().splitlines() if line.startswith("READERS")
    )
    assert sorted(f"fuzz_{name}" for name in line.partition(":=")[2].split()) == TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_takes_its_seeds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fuzzer: Any = ModuleType("atheris")
    fuzzer.instrument_imports = lambda **_: nullcontext()
    fuzzer.Mutate = lambda data, size: data[:size]
    monkeypatch.setitem(sys.modules, "atheris", fuzzer)
    monkeypatch.delitem(sys.modules, "common", raising=False)
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    target: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(target)
    one = sys.modules["common"].check(target.one)
    seeds = target.seeds() if hasattr(target, "seeds") else target.SEEDS
    assert seeds
    for seed in seeds[:12]:
        one(seed)
