"""The rows that a line's words admit are all those whose literal is in the line: no row is hidden."""

from __future__ import annotations

from hypothesis import given, strategies as st

from oomph.logs import candidates
from oomph.logs.candidates import Candidates
from oomph.logs.clean import clean
from oomph.logs.parse import ALL
from oomph.logs.reader import RawLine

ROWS = Candidates(ALL)
WRAPPINGS = (
    "{}", "xyz{}abc", "Z9{}9Z", "> {}", "vllm-1  | {}", "2026-05-14T12:00:00.123456789Z stdout F {}",
    "May 14 12:00:00 node ollama[81]: {}", "[2026-05-14 12:00:00 TP0] {}", "[rank3]: {}",
    "(EngineCore_DP0 pid=7) ERROR 05-14 12:01:22 [core.py:710] {}", "│ {} │", "9.99.999.999 E {}",
    "\x1b[0;36m{}\x1b[0m", '{{"log":"{}","stream":"stderr"}}',
)  # fmt: skip


def test_every_literal_passes_in_every_wrapping() -> None:
    for row in ALL:
        for wrapping in WRAPPINGS:
            for text in (wrapping.format(row.needle), clean(RawLine(1, wrapping.format(row.needle))).text):
                assert row.needle not in text or row in ROWS.of(text), (row, text)


@given(st.lists(st.one_of(st.sampled_from([row.needle for row in ALL]), st.text(max_size=12)), max_size=8), st.data())
def test_the_rows_of_a_line_are_those_whose_literal_it_has(parts: list[str], data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(("", " ", "7", "x"))).join(parts)
    assert list(ROWS.of(text)) == [row for row in ALL if row.needle in text]


def test_words_are_remembered_in_bounded_memory() -> None:
    fresh = Candidates(ALL)
    for number in range(candidates._MOST + 500):
        text = "".join(chr(97 + int(digit)) for digit in str(number))
        assert all(row.needle in text for row in fresh.of(text))
    assert len(fresh._dull) + len(fresh._telling) <= candidates._MOST
    assert next(fresh.of("x" * 100_000 + "Traceback")).kind == "traceback"
    assert not any(len(word) > candidates._LONGEST for word in fresh._telling)


def test_what_one_log_teaches_the_next_does_not_remember() -> None:
    first, second = ROWS.fresh(), ROWS.fresh()
    assert list(first.of("Traceback of nonsense")) == [row for row in ALL if row.needle in "Traceback of nonsense"]
    assert first._dull and first._telling and not second._dull and not second._telling
