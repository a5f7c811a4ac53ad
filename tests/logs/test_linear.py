"""No pattern takes more than linear time: each on long lines of its own alphabet that it nearly matches."""

from __future__ import annotations

import importlib
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from oomph.facts.loglines import compiled
from oomph.logs.clean import clean
from oomph.logs.parse import ALL, LONG_TEXT, UNCUT, observe
from oomph.logs.reader import LONGEST, read_text

# how the standard library reads a pattern
PLACE = ("re._parser", "re._constants") if sys.version_info >= (3, 11) else ("sre_parse", "sre_constants")
parser: Any = importlib.import_module(PLACE[0])
kinds: Any = importlib.import_module(PLACE[1])

# What is quadratic takes two seconds and more for 16 KiB; what is linear 50 ms at most, also on a busy machine.
SECONDS = 0.5
CATEGORIES = {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_NOT_WORD": "-"}
PATTERNS = sorted({(pattern, row.kind in UNCUT) for row in ALL for pattern in (row.pattern, *row.more)})


def example(nodes: Any, repeats: int) -> str:
    """A text that the pattern is about: one character of each class, each part as often as may be, up to `repeats`."""
    text = ""
    for kind, value in nodes:
        if kind is kinds.LITERAL:
            text += chr(value)
        elif kind is kinds.IN:
            text += member(value)
        elif kind in (kinds.ANY, kinds.NOT_LITERAL):
            text += "a"
        elif kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT):
            least, most, inside = value
            text += example(inside, repeats) * max(least, min(int(most), repeats))
        elif kind is kinds.SUBPATTERN:
            text += example(value[3], repeats)
        elif kind is kinds.BRANCH:
            text += example(value[1][0], repeats)
    return text


def member(members: Any) -> str:
    kind, value = members[0]
    if kind is kinds.NEGATE:
        return "a"
    if kind is kinds.CATEGORY:
        return CATEGORIES.get(str(value), "a")
    return chr(value if kind is kinds.LITERAL else value[0])


def hostile(pattern: str, size: int) -> Iterator[str]:
    """The beginning of a match, over and over, and each again behind the other's end."""
    tree = parser.parse(pattern)
    for repeats in (1, 40):
        whole = example(tree, repeats)
        for share in (1, 2, 3, 4):
            piece = whole[: max(1, len(whole) * share // 4)]
            yield (piece * (size // len(piece) + 1))[:size]
    yield ((whole[:-1] + "\x01") * (size // len(whole) + 1))[:size]


@pytest.mark.parametrize("part", range(8))
def test_no_pattern_is_more_than_linear(part: int) -> None:
    for pattern, uncut in PATTERNS[part::8]:
        for text in hostile(pattern, LONGEST if uncut else LONG_TEXT):
            begin = time.process_time()
            compiled(pattern).search(text)
            assert time.process_time() - begin < SECONDS * (LONGEST // LONG_TEXT if uncut else 1), (pattern, text[:200])


def test_a_pattern_that_is_more_than_linear_takes_much_longer_on_such_a_text() -> None:
    seconds = []
    for size in (4096, 16384):
        text = next(hostile("a+:", size))
        begin = time.process_time()
        re.search(r"[a-z]+:", text)
        seconds.append(time.process_time() - begin)
    assert seconds[1] > 6 * seconds[0]  # sixteen times as long; four times if it were linear


@pytest.mark.parametrize("piece", ["Error: ", "memory ", 'File "a.py", line 1, in a ', "{'a': 1, ", "1 GiB ", "--a b "])
def test_a_line_of_a_million_characters_is_read_in_no_time(piece: str) -> None:
    begin = time.process_time()
    observe([clean(line) for line in read_text(piece * (1_000_000 // len(piece))).lines])
    assert time.process_time() - begin < 6
