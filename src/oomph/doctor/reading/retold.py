"""An engine's own sentence as people retell it: in lower case, without its exception ("the error no available memory
for the cache blocks"). Looked for only where no line of the text says what ended the run, in people's own words."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from oomph.doctor.reading.failure import UNSAID, find_failure
from oomph.doctor.reading.meanings import FAILURES, TROUBLES
from oomph.facts.loglines import LogRow, compiled
from oomph.facts.titles import LOOSE
from oomph.ir.observation import Observation
from oomph.logs.clean import Line
from oomph.logs.documents import MOST_LINES, clauses, is_prose
from oomph.logs.parse import ALL

WORDS: Final = 3  # of a literal, at least: a shorter one is an ordinary phrase


@cache
def _sentences() -> tuple[LogRow, ...]:
    """Rows of failures whose literal is a phrase."""
    return tuple(
        row
        for row in ALL
        if (row.kind in FAILURES or row.kind in TROUBLES) and row.needle.strip().count(" ") + 1 >= WORDS
    )


def with_retold(lines: Sequence[Line], observations: Sequence[Observation]) -> Sequence[Observation]:
    """The observations, and those of sentences that are retold."""
    failure = find_failure(observations)
    if failure is not None and failure.kind not in UNSAID:
        return observations
    extra = list(_retold(lines))
    return sorted((*observations, *extra), key=lambda observation: observation.line) if extra else observations


def _retold(lines: Sequence[Line]) -> Iterator[Observation]:
    for line in lines[:MOST_LINES]:
        lowered = line.text[:1000].lower()
        candidates = [row for row in _sentences() if row.needle.lower() in lowered]
        for row in candidates if candidates and is_prose(line) and not _TAKEN_BACK.search(lowered) else ():
            if re.search(compiled(row.pattern).pattern, lowered, re.IGNORECASE):
                yield Observation(line.number, row.kind, {}, line.rank, line.process, line.text[:600].strip())
                break
        else:
            yield from _named(line, lowered)


def _named(line: Line, lowered: str) -> Iterator[Observation]:
    """An error that a sentence names, as a title does, and as weak."""
    if line.text.startswith("# ") or not is_prose(line):
        return
    parts = [clause for sentence in _FULL_STOP.split(_ASIDE.sub("", lowered)) for clause in clauses(sentence)]
    facts = " , ".join(clause for clause in parts if not _DOUBTED.search(clause))
    kind = next((kind for kind, words in LOOSE if compiled(words).search(facts) or _states(words, parts)), None)
    if kind is not None:
        yield Observation(line.number, kind, {"title": ""}, line.rank, line.process, line.text[:600].strip())


def _states(words: str, parts: Sequence[str]) -> bool:
    """A clause has it, and beside it nothing that doubts: "the architecture is not supported" has a no of its own."""
    matches = ((clause, compiled(words).search(clause)) for clause in parts)
    return any(m and not _DOUBTED.search(f"{clause[: m.start()]} {clause[m.end() :]}") for clause, m in matches)


_FULL_STOP: Final = re.compile(r"(?<=[.!])\s+|(?<=[。！])")
_ASIDE: Final = re.compile(r" ?\([^()]{1,40}\)")  # "the driver (535) is too old"
# a clause that asks, doubts or takes something back
_DOUBTED: Final = re.compile(
    r"\b(?:no longer|not|never|no|without|avoid\w{0,3}|prevent\w{0,3}|fix(?:es|ed)|solved?|resolved?|instead of|may|"
    r"might|could|would|should|if|until|unless|why|how|whether|used to|previously|sometimes)\b|n['’]t\b|\?\s*$"
)
_TAKEN_BACK: Final = re.compile(
    r"\b(?:no longer|never|fix(?:es|ed)|solved|resolved|if|might|may|avoid|prevent|instead of)\b"
)
