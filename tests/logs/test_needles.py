"""A literal is searched before its pattern: one that only some of the words of a pattern have hides the others."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, find, settings, strategies as st
from hypothesis.errors import NoSuchExample

from oomph.facts.loglines import LogRow
from oomph.logs.parse import ALL

# the literal is wider than the pattern on purpose: a second row of the same kind has the other spelling
PAIRS = {"util_given", "version_beside", "v0_results"}
# no word of the pattern has the literal: it stands elsewhere in the line, and both must be there
SETTINGS = settings(
    max_examples=10, database=None, derandomize=True, suppress_health_check=list(HealthCheck), deadline=None
)


def _hidden(row: LogRow) -> str:
    """A text that the pattern finds and the literal hides; "" = there is none."""
    try:
        return find(st.from_regex(row.pattern), lambda text: row.needle not in text, settings=SETTINGS)
    except NoSuchExample:
        return ""


@pytest.mark.parametrize("kind", sorted({row.kind for row in ALL} - PAIRS))
def test_a_literal_is_in_every_word_of_its_pattern_or_in_none(kind: str) -> None:
    for row in (row for row in ALL if row.kind == kind):
        if row.needle in row.pattern.replace("\\", ""):
            assert _hidden(row) == "", row
