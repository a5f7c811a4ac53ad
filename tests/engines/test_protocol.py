"""Every folder under engines/ fills the protocol, and knowing all of them costs nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from oomph.engines.protocol import EngineProtocol
from oomph.engines.registry import NAMES, all_engines, engine_named, name_of
from oomph.errors import CommandError

SOURCE = Path(__file__).parents[2] / "src" / "oomph"
FOLDER = SOURCE / "engines"


def test_every_folder_is_registered() -> None:
    folders = {path.name for path in FOLDER.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_engine_fills_the_protocol(name: str) -> None:
    one = engine_named(name)
    assert EngineProtocol in type(one).__mro__ and one.name == name
    assert one.title and one.programs and one.log_rows()
    assert one.newest() == "" or one.nearest(one.newest())[0] == one.newest()


def test_no_two_engines_share_a_name() -> None:
    for words in ("programs", "modules", "images", "frame_paths"):
        everything = [word for one in all_engines() for word in getattr(one, words)]
        assert len(everything) == len(set(everything)), words
    spellings = [word for one in all_engines() for word in (one.name, *one.aliases)]
    assert len(spellings) == len(set(spellings))


def test_spellings() -> None:
    assert name_of("llama.cpp") == "llamacpp" and name_of("vLLM") == "vllm" and name_of("nothing") == ""
    with pytest.raises(CommandError):
        engine_named("nothing")


def test_naming_all_engines_imports_none_of_their_parts() -> None:
    code = "import sys; from oomph.engines.registry import all_engines; all_engines(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    below = [m for m in loaded if m.startswith(("oomph.engines.", "oomph.facts.", "oomph.commands", "oomph.plan"))]
    allowed = {"oomph.engines.protocol", "oomph.engines.registry"}
    allowed |= {f"oomph.engines.{name}{end}" for name in NAMES for end in ("", ".engine")}
    assert not set(below) - allowed


def compared_names(tree: ast.AST) -> list[int]:
    """The lines that compare something with the name of an engine, or choose by it."""
    lines = []
    for node in ast.walk(tree):
        texts: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            texts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            texts = [node.value]
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict):
            texts = [key for key in node.value.keys if key is not None]  # {"vllm": ...}[name]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            table = node.func.value
            texts = [key for key in table.keys if key is not None] if isinstance(table, ast.Dict) else []
        parts = [part for text in texts for part in getattr(text, "elts", [text])]
        if any(isinstance(part, ast.Constant) and part.value in NAMES for part in parts):
            lines.append(node.lineno if not isinstance(node, ast.MatchValue) else node.value.lineno)
    return lines


def test_nothing_outside_an_engines_folders_compares_its_name() -> None:
    own = {folder / name for folder in (FOLDER, SOURCE / "facts") for name in NAMES}
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        if own.isdisjoint(path.parents):
            wrong += [f"{path.relative_to(SOURCE)}:{line}" for line in compared_names(ast.parse(path.read_text()))]
    assert not wrong


def test_the_search_for_compared_names_finds_them() -> None:
    code = """
if engine == "vllm" or name not in ("ollama", "x") or {"sglang": 1}.get(name) or {"trtllm": 1}[name]:
    pass
ready = "vllm" + name
"""
    assert compared_names(ast.parse(code)) == [2, 2, 2, 2]
