"""A literal is searched before its pattern: one that only some of the words of a pattern have hides the others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, find, settings, strategies as st
from hypothesis.errors import NoSuchExample

from oomph.facts.loglines import LogRow
from oomph.logs.parse import ALL

try:
    import re._constants as constants
    import re._parser as parser
except ImportError:  # Python 3.10
    import sre_constants as constants
    import sre_parse as parser

# the literal is wider than the pattern on purpose: a second row of the same kind has the other spelling
PAIRS = {"util_given", "version_beside", "v0_results"}
# no word of the pattern has the literal: it stands elsewhere in the line, and both must be there
SETTINGS = settings(
    max_examples=10, database=None, derandomize=True, suppress_health_check=list(HealthCheck), deadline=None
)


def _spelled(tree: Any) -> Iterator[str]:
    """The characters that every match has one after the other; "\\0" where it may have others between them."""
    for kind, argument in tree:
        if kind is constants.LITERAL:
            yield chr(argument)
        elif kind is constants.SUBPATTERN and not argument[1]:  # no flags of its own
            yield from _spelled(argument[-1])
        elif kind is not constants.AT:
            yield "\0"


def is_certain(row: LogRow) -> bool:
    """Every match has the literal: the pattern spells it out. Of the others texts are drawn, which takes its time."""
    tree = parser.parse(row.pattern)
    return not tree.state.flags & re.IGNORECASE and row.needle in "".join(_spelled(tree))


def _hidden(row: LogRow) -> str:
    """A text that the pattern finds and the literal hides; "" = there is none."""
    try:
        return find(st.from_regex(row.pattern), lambda text: row.needle not in text, settings=SETTINGS)
    except NoSuchExample:
        return ""


@pytest.mark.parametrize("kind", sorted({row.kind for row in ALL} - PAIRS))
def test_a_literal_is_in_every_word_of_its_pattern_or_in_none(kind: str) -> None:
    for row in (row for row in ALL if row.kind == kind):
        if row.needle in row.pattern.replace("\\", "") and not is_certain(row):
            assert _hidden(row) == "", row


@pytest.mark.parametrize(
    ("pattern", "certain"),
    [
        (r"a (?P<n>\d+) GiB of", True), (r"a (b)? GiB of", True), (r"a (?:x GiB of|y)", False),
        (r"(?i)a GiB of", False), (r"x( GiB) of", True), (r"x( GiB)* of", False), (r"(?i: GiB of)", False),
        (r" GiB\s of", False), (r" GiB.?of", False),
    ],
)  # fmt: skip
def test_what_is_certain(pattern: str, certain: bool) -> None:
    assert is_certain(LogRow("args", " GiB of", pattern)) is certain
