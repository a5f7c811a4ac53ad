"""Which rows could match a line: told by its words, before any pattern is tried.

A row's literal (`needle`) is in every line that the row takes, so the longest run of letters of the literal is inside
of one of the line's own runs of letters. A log has few words, whatever its figures and ids are: of each word is
remembered which rows it admits, and most words admit none. This follows from the rows alone: a new row needs nothing
here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from oomph.facts.loglines import LogRow

_WORD = re.compile(r"[A-Za-z]+")
_MOST = 50_000  # words remembered
_LONGEST = 40  # letters of a word that is


class Candidates:
    """The rows of a table whose literal is in a line, in the order of the table."""

    def __init__(self, rows: Iterable[LogRow]) -> None:
        self._rows = tuple(rows)
        self._wordless: list[int] = []  # rows whose literal has no letter: looked for in every line
        self._parts: dict[str, list[tuple[str, int]]] = {}  # first letters of a part -> the part, its row
        self._dull: set[str] = set()  # words that admit no row
        self._telling: dict[str, tuple[int, ...]] = {}  # words that do -> the rows
        for number, row in enumerate(self._rows):
            words = _WORD.findall(row.needle)
            if words:
                part = max(words, key=len)
                self._parts.setdefault(part[:3], []).append((part, number))
            else:
                self._wordless.append(number)
        self._lengths = sorted({len(start) for start in self._parts})

    def of(self, text: str) -> Iterator[LogRow]:
        numbers = set(self._wordless)
        for word in set(_WORD.findall(text)) - self._dull:
            numbers.update(self._telling.get(word) or self._learn(word))
        return (row for row in map(self._rows.__getitem__, sorted(numbers)) if row.needle in text)

    def _learn(self, word: str) -> tuple[int, ...]:
        starts = {word[at : at + length] for at in range(len(word)) for length in self._lengths}
        parts = (pair for start in starts & self._parts.keys() for pair in self._parts[start])
        rows = tuple(number for part, number in parts if part in word)
        if len(word) <= _LONGEST and len(self._dull) + len(self._telling) < _MOST:
            if rows:
                self._telling[word] = rows
            else:
                self._dull.add(word)
        return rows
