"""The house rules that a reader relies on: engines see no version, no sentence decides, no import goes in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from source_trees import SRC, files, walk

ENGINES = sorted((SRC / "engines").glob("**/*.py"))
# The doors: they take the release that a user names, or find which one printed a log, and give the rest its facts.
DOORS = {"protocol.py", "engine.py", "release.py"}


def nodes(path: Path, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    return (node for node in walk(path) if isinstance(node, kinds))


def where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(SRC)}:{getattr(node, 'lineno', 0)}"


def test_no_engine_takes_a_version() -> None:
    wrong = [
        where(path, node)
        for path in ENGINES
        if path.name not in DOORS
        for node in nodes(path, ast.arg, ast.AnnAssign)
        if (node.arg if isinstance(node, ast.arg) else ast.unparse(node.target)) == "version"  # type: ignore[attr-defined]
    ]
    assert wrong == []


def test_no_engine_compares_releases() -> None:
    """`pick(TABLE, version)`, `in_range`, `parse`: only facts and doors order releases."""
    banned = {"in_range", "pick", "select", "parse_release"}
    wrong = [
        where(path, node)
        for path in ENGINES
        if path.name not in DOORS
        for node in nodes(path, ast.ImportFrom)
        if banned & {alias.name for alias in node.names}  # type: ignore[attr-defined]
    ]
    assert wrong == []


def test_no_sentence_decides() -> None:
    """`"not" in term.why`, `why != "..."`: a better sentence must not change a plan."""
    wrong = [
        where(path, node)
        for path in files()
        for node in nodes(path, ast.Compare)
        if any(
            isinstance(side, ast.Attribute) and side.attr == "why"
            for side in (node.left, *node.comparators)  # type: ignore[attr-defined]
        )
    ]
    assert wrong == []


def test_no_engine_tests_a_reason() -> None:
    wrong = [
        where(path, node)
        for path in ENGINES
        for node in nodes(path, ast.Compare)
        if any(isinstance(side, ast.Name) and side.id == "why" for side in (node.left, *node.comparators))  # type: ignore[attr-defined]
    ]
    assert wrong == []


def test_flags_are_typed_behind_resolve() -> None:
    """What a plan runs once the settings are there reads `settings.flags`, never the words of the command line."""
    known = modules()
    graph = {name: imports(path, known) for name, path in known.items()}
    package = "oomph.engines.vllm."
    reads = (f"{package}resolve", f"{package}graphs.modes")
    steps = {name for name in _reach(f"{package}planner", graph) if name.startswith(package)}
    wrong = [
        where(known[name], node)
        for name in sorted(steps)
        if not name.startswith(reads)
        for node in nodes(known[name], ast.Call, ast.Subscript)
        if ast.unparse(node.func if isinstance(node, ast.Call) else node.value).endswith(("flags.get", "flags"))  # type: ignore[attr-defined]
    ]
    assert {f"{package}terms", f"{package}weights.loaded", f"{package}profile.encoder"} <= steps
    assert wrong == []


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(SRC.parent).with_suffix("").parts).removesuffix(".__init__"): path for path in files()
    }


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules that a file imports when it is loaded or when a function of it runs; not those of annotations."""
    typing = {
        id(inner)
        for node in walk(path)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in walk(path):
        if id(node) in typing:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & known.keys() or {node.module}
    return found & known.keys()


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module: what remains when leaves are taken off both ends."""
    left = {name: set(to) & graph.keys() - {name} for name, to in graph.items()}
    while True:
        imported = set().union(*left.values()) if left else set()
        ends = {name for name, to in left.items() if not to or name not in imported}
        if not ends:
            break
        left = {name: to - ends for name, to in left.items() if name not in ends}
    found: list[list[str]] = []
    rest = set(left)
    while rest:
        start = min(rest)
        forward, back = _reach(start, left), _reach(start, _turned(left))
        circle = (forward & back) | {start}
        if len(circle) > 1:
            found.append(sorted(circle))
        rest -= circle
    return found


def _reach(start: str, graph: dict[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    todo = [start]
    while todo:
        for name in graph.get(todo.pop(), set()) - reached:
            reached.add(name)
            todo.append(name)
    return reached


def _turned(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    turned: dict[str, set[str]] = {name: set() for name in graph}
    for name, to in graph.items():
        for target in to:
            turned[target].add(name)
    return turned


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}}, [["a", "b"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"e"}, "e": {"d", "a"}}, [["a", "b", "c"], ["d", "e"]]),
    ],
)
def test_circles_are_found(graph: dict[str, set[str]], expected: list[list[str]]) -> None:
    assert circles(graph) == expected


def test_nothing_imports_in_a_circle() -> None:
    known = modules()
    assert circles({name: imports(path, known) for name, path in known.items()}) == []


def test_replace_names_fields_that_exist() -> None:
    """A type checker does not look into msgspec's `replace`: a field that was renamed would be missed until it runs."""
    fields = {
        line.target.id
        for path in files()
        for owner in nodes(path, ast.ClassDef)
        for line in owner.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    }
    wrong = [
        f"{path.name}:{call.lineno}: {keyword.arg}"
        for path in files()
        for call in nodes(path, ast.Call)
        if ast.unparse(call.func) in ("replace", "structs.replace")
        for keyword in call.keywords
        if keyword.arg is not None and keyword.arg not in fields
    ]
    assert wrong == []


# One file per family, rule, table or command: a folder may have as many as there are.
ONE_EACH = ("sources/arch", "facts/", "/rules", "cli/commands", "report/screens")
MOST_MODULES = 22


def test_a_folder_can_be_read_at_a_glance() -> None:
    """No folder has more than about twenty modules beside its `__init__.py`, and the top level 25 entries."""
    folders = {path.parent for path in files()}
    sizes = {str(folder.relative_to(SRC)): len(list(folder.glob("*.py"))) - 1 for folder in folders}
    assert {name: size for name, size in sizes.items() if size > MOST_MODULES and not _one_each(name)} == {}
    entries = [path for path in SRC.iterdir() if path.name not in ("__main__.py", "py.typed", "__pycache__")]
    assert len(entries) <= 25


def _one_each(folder: str) -> bool:
    return any(name in folder for name in ONE_EACH)


def test_no_module_is_named_by_a_prefix_that_should_be_a_folder() -> None:
    """Three modules of a folder that begin with the same word, or a package and a module beside it that does."""
    wrong = []
    for folder in sorted({path.parent for path in files()}):
        if _one_each(str(folder.relative_to(SRC))):
            continue
        words = [path.stem.split("_")[0] for path in folder.glob("*.py") if not path.stem.startswith("_")]
        wrong += [f"{folder.relative_to(SRC)}: {word}_*" for word in set(words) if words.count(word) > 2]
    assert wrong == []


MOST_POSITIONAL = 6


def test_no_constructor_has_a_row_of_bare_values() -> None:
    """Beyond six, a reader counts columns: the fields are named."""
    wrong = [
        where(path, call)
        for path in files()
        for call in nodes(path, ast.Call)
        if ast.unparse(call.func).rpartition(".")[2].lstrip("_")[:1].isupper()  # type: ignore[attr-defined]
        and sum(not isinstance(value, ast.Starred) for value in call.args) > MOST_POSITIONAL  # type: ignore[attr-defined]
    ]
    assert wrong == []


def test_nothing_is_remembered_by_its_id() -> None:
    """A key is a value. An id may be another object's once the first is gone, and it hides what two results share."""
    unhashable = {"commands/manifests/yaml_text.py"}  # which of a document's own lists and dictionaries are the same
    wrong = [
        where(path, node)
        for path in files()
        if str(path.relative_to(SRC)) not in unhashable
        for node in nodes(path, ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "id"  # type: ignore[attr-defined]
    ]
    assert wrong == []


def test_no_two_test_files_have_one_name() -> None:
    """pytest imports them by their names: the second ends the collection of both."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []
