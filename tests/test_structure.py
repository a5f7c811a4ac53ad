"""docs/structure.md names what is there, and nothing that is gone."""

from __future__ import annotations

import re
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
