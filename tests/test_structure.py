"""docs/structure.md names what is there, and nothing that is gone."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "oomph"


def test_every_package_and_top_level_module_is_in_the_structure() -> None:
    text = (ROOT / "docs" / "structure.md").read_text()
    packages = [f"`{p.name}/" for p in SOURCE.iterdir() if (p / "__init__.py").exists()]
    modules = [f"`{p.name}`" for p in SOURCE.glob("*.py") if not p.name.startswith("__")]
    assert [name for name in packages + modules if name not in text] == []


def test_the_structure_names_no_file_that_is_gone() -> None:
    text = (ROOT / "docs" / "structure.md").read_text()
    files = {p.name for folder in ("src", "tests", "tools") for p in (ROOT / folder).rglob("*.py")}
    named = set(re.findall(r"`(?:[\w/]+/)?(\w+\.py)`", text))
    assert named - files == set()


def test_the_structure_quotes_the_identity_of_the_planner() -> None:
    """What is left for the KV cache: the lines of the function that the planner calls."""
    source = (SOURCE / "engines" / "vllm" / "kv" / "budget.py").read_text().splitlines()
    lines = [line.strip() for line in source if re.match(r" +(available KV cache memory =|- \w+ +\()", line)]
    text = (ROOT / "docs" / "structure.md").read_text()
    assert len(lines) == 6
    assert all(line in text for line in lines)


def test_every_test_file_has_a_name_of_its_own() -> None:
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, number in names.items() if number > 1] == []  # pytest imports them by their names alone
