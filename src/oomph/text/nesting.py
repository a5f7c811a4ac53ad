"""How deep a stranger's text nests, found before a parser sees it.

Parsers of nested texts call themselves. Python's own stop at the interpreter's limit; libyaml's composer does not, and
60 KB of brackets end the process. So JSON passes `bounded` and YAML `bounded_yaml` first; neither of them recurses.
"""

import re
from itertools import accumulate
from typing import Any, TypeVar

from oomph.text.late import late_pattern

DEEPEST = 64  # levels; the deepest config.json among 172 real models has 8
MOST_VALUES = 100_000  # of a YAML file, after aliases are written out: a few lines of aliases can stand for gigabytes

LONGEST_COMMAND = 128 << 10  # characters: Linux takes no longer argument (MAX_ARG_STRLEN)

Text = TypeVar("Text", str, bytes)
# a quote that is never closed reaches to the end, so that nothing is tried twice
_STRING = late_pattern(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_STEP = {"[": 1, "{": 1, "]": -1, "}": -1}
_BRACKETS = late_pattern(r"[\[\]{}]")


class TooDeep(RecursionError):
    """Where a parser would have raised RecursionError, or died."""

    def __init__(self, most: int = DEEPEST) -> None:
        super().__init__(f"it is nested more than {most} levels deep")


class TooMany(ValueError):
    """More values than any real file has."""


def shell_words(text: str) -> list[str]:
    """shlex.split, whose time grows with the square of a word's length: 1.6 MB take it half a minute."""
    import shlex

    if len(text) > LONGEST_COMMAND:
        raise ValueError(f"it has {len(text):,} characters, and {LONGEST_COMMAND:,} are read")
    return shlex.split(text)


def bounded(text: Text, most: int = DEEPEST) -> Text:
    """The same JSON, if it does not nest deeper."""
    if isinstance(text, bytes):
        if text.count(b"[") + text.count(b"{") <= most:
            return text
        plain = text.decode("latin-1")  # brackets and quotes are the same bytes in UTF-8
    else:
        plain = text
    if plain.count("[") + plain.count("{") <= most:
        return text
    steps = (_STEP[bracket] for bracket in _BRACKETS.findall(_STRING.sub("", plain)))
    if max(accumulate(steps), default=0) > most:
        raise TooDeep(most)
    return text


def bounded_yaml(text: str, loader: Any, most: int = DEEPEST) -> None:
    """Refuse YAML that nests deeper or stands for more values than any file needs, also through its aliases.

    The events of a parser come one by one: what an anchor holds is known when it is closed, so that an alias counts for
    all of it, and one inside its own anchor is a value that contains itself."""
    import yaml

    open_values: list[_Value] = [_Value()]
    anchors: dict[str, _Value] = {}
    for event in yaml.parse(text, Loader=loader):
        here = open_values[-1]
        if isinstance(event, yaml.CollectionStartEvent):
            inner = _Value()
            if event.anchor:
                anchors[event.anchor] = inner
            open_values.append(inner)
        elif isinstance(event, yaml.CollectionEndEvent):
            inner = open_values.pop()
            inner.is_open = False
            open_values[-1].add(inner.size, inner.height + 1)
        elif isinstance(event, yaml.ScalarEvent):
            if event.anchor:
                anchors[event.anchor] = _Value(is_open=False)
            here.add(1, 0)
        elif isinstance(event, yaml.AliasEvent):
            target = anchors.get(str(event.anchor))
            if target is not None and target.is_open:
                raise TooMany("a value contains itself")
            here.add(target.size if target else 1, target.height + 1 if target else 0)
        elif isinstance(event, yaml.DocumentStartEvent):
            anchors.clear()
        if len(open_values) + open_values[-1].height > most + 1:
            raise TooDeep(most)
        if open_values[-1].size > MOST_VALUES:
            raise TooMany(f"it holds more than {MOST_VALUES} values")


class _Value:
    """A list or mapping while it is read: how many values it stands for, and how many levels are below it."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.size, self.height, self.is_open = 1, 0, is_open

    def add(self, size: int, height: int) -> None:
        self.size += size
        self.height = max(self.height, height)
