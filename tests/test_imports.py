"""Dependency arrows point up the list of docs/structure.md only."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import source_trees
from oomph.engines.registry import NAMES
from source_trees import SRC, tree, walk

# Files of an engine that fill in for one of the packages below, with its types.
PARTS = ("engines.*.arm", "engines.*.cards", "engines.*.emit", "engines.*.failed", "engines.*.offer", "engines.*.rules",
         "engines.*.timing", "engines.*.simulation", "engines.*.scheduler", "engines.*.inferred",
         "engines.*.log", "engines.*.case_levers")  # fmt: skip
# A module may import from its own line and the lines above it. The longest name that fits counts; * is one folder.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("units", "errors", "text"),
    ("ir",),
    ("facts",),
    ("catalog",),
    ("sources",),
    # the registry imports engines by name, when they are asked for
    ("engines.values", "engines.protocol", "engines.registry"),
    ("commands",),
    ("logs",),
    ("engines.common",),
    ("engines", "engines.common.checkpoint"),  # which asks llama.cpp what a GGUF file is by its name
    ("advice", "answers.host"),
    (
        "answers",
        "api",
        "doctor",
        "search",
        "simulate",
        "emit",
        "machine",
        "pack",
        *PARTS,
    ),
    ("report", "site", "engines.*.screen"),
    ("agents", "cli", "web", "__main__"),
    ("engines.*.engine",),  # says where each part of an engine is, in whatever layer; only the registry imports it
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# Modules whose import costs more than the command that does not need them.
HEAVY = (
    "rich",
    "huggingface_hub",
    "yaml",
    "pynvml",
    "numpy",
    "starlette",
    "uvicorn",
    "urllib3",
    "regex",
    "anyio",
    "mcp",
    "pydantic",
)


def files() -> Iterator[Path]:
    yield from (p for p in source_trees.files() if p != SRC / "__init__.py")


def name(path: Path) -> str:
    return "oomph." + ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


def level(module: str) -> int | None:
    """The line of a module in the list; None where it is not oomph's."""
    parts = module.split(".")[1:]
    if module.split(".")[0] != "oomph" or not parts:
        return None
    for length in range(len(parts), 0, -1):
        for candidate in (parts[:length], [parts[0], "*", *parts[2:length]]):
            if ".".join(candidate) in LEVEL:
                return LEVEL[".".join(candidate)]
    raise AssertionError(f"{module} has no place in the list of layers")


def runtime(root: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those below `if TYPE_CHECKING`, which import nothing."""
    for node in ast.iter_child_nodes(root):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield node
            yield from runtime(node)


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == "oomph":
            yield from (f"oomph.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_arrows_point_up() -> None:
    wrong = []
    for path in files():
        here = level(name(path))
        protocol = path == SRC / "engines" / "protocol.py"  # names the types of its callers in annotations
        for module in imported(runtime(tree(path)) if protocol else walk(path)):
            there = level(module)
            if here is not None and there is not None and there > here:
                wrong.append(f"{path.relative_to(SRC)} imports {module}")
    assert not wrong


def own_imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """What is imported of oomph itself: modules, and names of packages, which may be modules."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("oomph."))
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "oomph":
            if SRC.parent.joinpath(*node.module.split("."), "__init__.py").exists():
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            else:
                yield node.module


def is_there(name: str) -> bool:
    path = SRC.parent.joinpath(*name.split("."))
    package = path.parent / "__init__.py"
    return (
        path.with_suffix(".py").exists()
        or (path / "__init__.py").exists()
        or (package.exists() and path.name in package.read_text())
    )


def test_every_import_names_a_module_that_is_there() -> None:
    """Also inside of functions: a module that was moved is missed here, not when somebody calls them."""
    root = SRC.parents[1]
    others = (path for folder in ("tests", "tools") for path in (root / folder).rglob("*.py"))
    wrong = [
        f"{path.relative_to(root)} imports {name}"
        for path in (*source_trees.files(), *others)
        for name in own_imports(walk(path))
        if not is_there(name)
    ]
    assert not wrong


def test_heavy_imports_are_late() -> None:
    wrong = []
    for path in files():
        if path.is_relative_to(SRC / "web") or path == SRC / "agents" / "server.py":
            continue  # the servers are themselves imported late
        body = [node for node in tree(path).body if isinstance(node, (ast.Import, ast.ImportFrom))]
        heavy = [m for m in imported(body) if m.split(".")[0] in HEAVY]
        wrong += [f"{path.relative_to(SRC)} imports {module} at its top" for module in heavy]
    assert not wrong


def test_no_engine_stands_on_another() -> None:
    """What two engines share is in engines/common. Ollama runs llama.cpp, and says so."""
    runs = {"ollama": "llamacpp"}
    wrong = [
        f"{path.relative_to(SRC)} imports {module}"
        for engine in NAMES
        for path in (SRC / "engines" / engine).rglob("*.py")
        for module in imported(walk(path))
        for other in NAMES
        if module.startswith(f"oomph.engines.{other}") and other not in (engine, runs.get(engine))
    ]
    assert not wrong


def compared_names(nodes: Iterable[ast.AST]) -> list[int]:
    """The lines that compare something with the name of an engine, choose by it, or fall back on it. A rule of the
    doctor says by `engines=` whose logs it reads."""
    lines = []
    for node in nodes:
        texts: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            texts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            texts = [node.value]
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict):
            texts = [key for key in node.value.keys if key is not None]  # {"vllm": ...}[name]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            table = node.func.value
            texts = [key for key in table.keys if key is not None] if isinstance(table, ast.Dict) else node.args
        elif isinstance(node, ast.Call) and ast.unparse(node.func) != "LogRow":  # whose second word is a needle
            texts = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg != "engines")]
        elif isinstance(node, ast.BoolOp | ast.IfExp):
            texts = list(node.values) if isinstance(node, ast.BoolOp) else [node.body, node.orelse]
        lists = not isinstance(node, ast.BoolOp | ast.IfExp)  # ["vllm", "serve"] are words of a command
        parts = [part for text in texts for part in (getattr(text, "elts", [text]) if lists else [text])]
        if any(isinstance(part, ast.Constant) and part.value in NAMES for part in parts):
            lines.append(node.lineno if not isinstance(node, ast.MatchValue) else node.value.lineno)
    return lines


def test_nothing_outside_an_engines_folders_compares_its_name() -> None:
    own = {folder / name for folder in (SRC / "engines", SRC / "facts") for name in NAMES}
    headers = SRC / "logs" / "clean.py"  # tells lines apart by what each engine prints before them
    wrong = []
    for path in source_trees.files():
        if own.isdisjoint(path.parents) and path != headers:
            wrong += [f"{path.relative_to(SRC)}:{line}" for line in compared_names(walk(path))]
    assert not wrong


def test_the_search_for_compared_names_finds_them() -> None:
    code = """
if engine == "vllm" or name not in ("ollama", "x") or {"sglang": 1}.get(name) or {"trtllm": 1}[name]:
    pass
ready = "vllm" + name
made = Engine("vllm", version) or engine_named(name=name or "sglang")
name = "ollama" if local else name
name.startswith("trtllm") or table.get("vllm")
rule = Rule("D01", engines=("vllm", "sglang"))
row = LogRow("command", "vllm", pattern)
"""
    assert sorted(compared_names(ast.walk(ast.parse(code)))) == [2, 2, 2, 2, 5, 5, 6, 7, 7]
