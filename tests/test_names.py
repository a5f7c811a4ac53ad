"""Names: a value is a noun. Participles and single letters as names may only become fewer (docs/structure.md)."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from source_trees import SRC, files, tree

PARTICIPLES = frozenset(("made", "found", "given", "asked", "said", "told", "kept", "held"))
INDICES = frozenset("ijkn_")  # a position, a number of things, nothing
# folder or module -> the most participles and single letters that it may bind; none where it is not listed
MOST: dict[str, tuple[int, int]] = {
    "answers": (1, 0),
    "catalog": (2, 2),  # keys of the stored lines
    "facts": (0, 5),  # columns of the table of cards
    "ir": (1, 0),  # these, answers, report and simulate: names of the JSON and of the Python API
    "report": (5, 2),  # x and y of a point
    "simulate": (2, 0),
    "sources": (2, 0),  # `told`, a key of the stored lines
}


def bound(root: ast.AST) -> Iterator[str]:
    """Names that statements and parameters bind; a comprehension of one line may use what it likes."""
    for node in ast.iter_child_nodes(root):
        short = isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda)
        if (short and node.lineno == node.end_lineno) or _type_variable(node):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name
        yield from bound(node)


def _type_variable(node: ast.AST) -> bool:
    """T = TypeVar("T"): a letter is what everybody calls it."""
    value = node.value if isinstance(node, ast.Assign) else None
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "TypeVar"


def counted() -> dict[str, tuple[int, int]]:
    participles: Counter[str] = Counter()
    letters: Counter[str] = Counter()
    for path in files():
        room = path.relative_to(SRC).parts[0].removesuffix(".py")
        for name in bound(tree(path)):
            participles[room] += name in PARTICIPLES
            letters[room] += len(name) == 1 and name not in INDICES
    return {room: (participles[room], letters[room]) for room in participles}


if __name__ == "__main__":
    for room, numbers in sorted(counted().items()):
        if any(numbers):
            print(f'    "{room}": {numbers},')


def test_names_only_become_better() -> None:
    for room, now in counted().items():
        most = MOST.get(room, (0, 0))
        assert now[0] <= most[0] and now[1] <= most[1], f"{room}: {now} participles and letters, at most {most}"
