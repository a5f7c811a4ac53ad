"""Every regular expression of oomph, and lines that are crafted to make it slow."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import oomph
from oomph.facts.loglines import LogRow, compiled
from oomph.text.late import _LatePattern
from source_trees import walk

try:
    import re._constants as constants
    import re._parser as parser
except ImportError:  # Python 3.10
    import sre_constants as constants
    import sre_parse as parser

SRC = Path(oomph.__file__).parent
ANYWHERE = frozenset(("search", "sub", "subn", "findall", "finditer", "split"))
UNITS = (
    "1", "1.", "1,", "1 ", "a", "a ", "A", "a/", "a_", "a-", "a=", "a:", "a,", '"', "'", "`", " ", "\t", "(", "[", "]",
    "{", "<", ">", "|", "#", "\\", "/", "-", "=", ":", ",", ".", "*", "$", "${a}", "é", "(a", "[a", "'a", "1.1 GiB ",
    "a|", " a=", "\n", "a\n", "\\\n", " \n", "a \\\n ", "-\n", "# a\n", "\n\n",
)  # fmt: skip


class Place(msgspec.Struct, frozen=True):
    where: str
    pattern: re.Pattern[str]
    anywhere: bool  # it is looked for at every position of a line, not only at its beginning

    def slowest(self, lines: list[str]) -> tuple[float, str]:
        """CPU seconds of the slowest of these lines, and that line."""
        worst = (0.0, "")
        for line in lines:
            begin = time.thread_time()
            if self.anywhere:
                for number, _ in enumerate(self.pattern.finditer(line)):
                    if number > 10_000:
                        break
            else:
                self.pattern.match(line)
                self.pattern.fullmatch(line)
            worst = max(worst, (time.thread_time() - begin, line))
        return worst


def modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages([str(SRC)], "oomph."):
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


@cache
def places() -> list[Place]:
    """All compiled patterns of modules and of the rows in them, and those written where they are used."""
    seen: dict[tuple[str, int], Place] = {}
    calls: dict[str, set[str]] = {}
    for path in SRC.rglob("*.py"):
        for name, method in re.findall(r"\b([A-Z]\w*)\.(\w+)\(", path.read_text()):
            calls.setdefault(name, set()).add(method)
    tables: dict[int, tuple[re.Pattern[str], ...]] = {}  # a table is a value of every module that imports it
    for module in modules():
        source = Path(module.__file__).read_text()
        for name, value in vars(module).items():
            if id(value) not in tables:
                tables[id(value)] = tuple(_patterns(value, 0))
            for pattern in tables[id(value)]:
                uses = calls.get(name) or set(re.findall(rf"\b{re.escape(name)}\.(\w+)\(", source))
                anchored = bool(uses) and uses <= {"match", "fullmatch"}
                key = (pattern.pattern, pattern.flags)
                if key not in seen or not anchored:
                    seen[key] = Place(f"{module.__name__}.{name}", pattern, not anchored)
        written = _written_in_place(Path(module.__file__)) if "re." in source else ()
        for pattern, anywhere in written:
            seen.setdefault((pattern.pattern, pattern.flags), Place(module.__name__, pattern, anywhere))
    return list(seen.values())


def _patterns(value: Any, depth: int) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value
    elif isinstance(value, _LatePattern):
        yield re.compile(value.pattern, value._asked_flags)
    elif isinstance(value, LogRow):
        yield from map(compiled, (value.pattern, *value.more))
    elif depth < 5 and isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _patterns(item, depth + 1)
    elif depth < 5 and isinstance(value, dict):
        for item in (*value.keys(), *value.values()):
            yield from _patterns(item, depth + 1)
    elif depth < 5 and isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _patterns(getattr(value, name, None), depth + 1)


def _written_in_place(path: Path) -> Iterator[tuple[re.Pattern[str], bool]]:
    for node in walk(path):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            flags = 0
            for given in (*node.args[1:], *(k.value for k in node.keywords if k.arg == "flags")):
                if isinstance(given, ast.Attribute) and given.attr.isupper():
                    flags |= getattr(re, given.attr)
            if node.func.attr in ANYWHERE | {"match", "fullmatch"}:
                yield re.compile(node.args[0].value, flags), node.func.attr in ANYWHERE


def beginnings(pattern: re.Pattern[str]) -> list[str]:
    """Texts that match the pattern up to each of its repetitions: what a line has to start with to reach it."""
    out = [""]
    text = ""

    def walk(tree: Any) -> None:
        nonlocal text
        for kind, argument in tree:
            if len(text) > 400:
                return
            if kind in (constants.MAX_REPEAT, constants.MIN_REPEAT) or str(kind) == "POSSESSIVE_REPEAT":
                low, _, inner = argument
                out.append(text)
                for _ in range(min(max(low, 1), 3)):
                    walk(inner)
            elif kind is constants.SUBPATTERN:
                walk(argument[-1])
            elif kind is constants.BRANCH:
                walk(argument[1][0])
            elif kind is constants.LITERAL:
                text += chr(argument)
            elif kind is constants.IN:
                text += _member(argument)
            elif kind in (constants.ANY, constants.NOT_LITERAL):
                text += "x"

    walk(parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE))
    out.append(text)
    unique = list(dict.fromkeys(out))
    return [*unique[:4], *unique[4:][-2:]]


def _member(items: Any) -> str:
    for kind, argument in items:
        if kind is constants.LITERAL:
            return chr(argument)
        if kind is constants.RANGE:
            return chr(argument[0])
        if kind is constants.CATEGORY:
            name = str(argument)
            return "1" if name.endswith("_DIGIT") else " " if name.endswith("_SPACE") else "a"
        if kind is constants.NEGATE:
            return "x"
    return "x"


def crafted(pattern: re.Pattern[str], size: int) -> list[str]:
    """Lines of that size: each unit repeated, behind each beginning; and each beginning repeated."""
    heads = beginnings(pattern)
    lines = [(head + unit * (size // len(unit)))[:size] for head in heads for unit in UNITS]
    lines += [(head * (size // len(head) + 1))[:size] for head in heads if head]
    tails = {head[-4:] for head in heads if head} | {head[-2:] for head in heads if head}
    lines += [(head + tail * size)[:size] for head in ("", heads[-1]) for tail in tails]
    return list(dict.fromkeys(lines))
