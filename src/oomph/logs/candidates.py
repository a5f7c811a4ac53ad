"""Which rows could match a line: told by its words, before any pattern is tried.

A row's literal (`needle`) is in every line that the row takes, so the longest run of letters of the literal is inside
of one of the line's own runs of letters. A log has few words, whatever its figures and ids are: of each word is
remembered which rows it admits, and most words admit none. This follows from the rows alone: a new row needs nothing
here.
"""

import re
from collections.abc import Iterable, Iterator
from copy import copy

from oomph.facts.loglines import LogRow

_WORD = re.compile(r"[A-Za-z]+")
_MOST = 50_000  # words remembered
_LONGEST = 40  # letters of a word that is


class _Part:
    """The longest run of letters of a literal. Where another character is beside it in the literal, the word in the
    line begins or ends there too."""

    def __init__(self, run: re.Match[str], row: int) -> None:
        self.text, self.row = run[0], row
        self._begins, self._ends = run.start() > 0, run.end() < len(run.string)

    def is_in(self, word: str) -> bool:
        if self._begins and self._ends:
            return word == self.text
        if self._begins:
            return word.startswith(self.text)
        return word.endswith(self.text) if self._ends else self.text in word


class Candidates:
    """The rows of a table whose literal is in a line, in the order of the table."""

    def __init__(self, rows: Iterable[LogRow]) -> None:
        self._rows = tuple(rows)
        self._wordless: list[int] = []  # rows whose literal has no letter: looked for in every line
        self._parts: dict[str, list[_Part]] = {}  # by their first letters
        self._dull: set[str] = set()  # words that admit no row
        self._telling: dict[str, tuple[int, ...]] = {}  # words that do -> the rows
        for number, row in enumerate(self._rows):
            words = list(_WORD.finditer(row.needle))
            if words:
                part = _Part(max(words, key=lambda word: len(word[0])), number)
                self._parts.setdefault(part.text[:3], []).append(part)
            else:
                self._wordless.append(number)
        self._lengths = sorted({len(start) for start in self._parts})

    def fresh(self) -> "Candidates":
        """The same rows with no word remembered: what one log teaches takes no room from the next."""
        other = copy(self)
        other._dull, other._telling = set(), {}
        return other

    def of(self, text: str) -> Iterator[LogRow]:
        numbers = set(self._wordless)
        for word in set(_WORD.findall(text)) - self._dull:
            numbers.update(self._telling.get(word) or self._learn(word))
        return (row for row in map(self._rows.__getitem__, sorted(numbers)) if row.needle in text)

    def _learn(self, word: str) -> tuple[int, ...]:
        starts = {word[at : at + length] for at in range(len(word)) for length in self._lengths}
        parts = (part for start in starts & self._parts.keys() for part in self._parts[start])
        rows = tuple(part.row for part in parts if part.is_in(word))
        if len(word) <= _LONGEST and len(self._dull) + len(self._telling) < _MOST:
            if rows:
                self._telling[word] = rows
            else:
                self._dull.add(word)
        return rows
