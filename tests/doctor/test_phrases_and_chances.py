"""Bounds of the doctor that no log shows: how many words make a phrase, how sure a stage is that nobody has counted."""

from __future__ import annotations

from oomph.doctor.reading.prose import probability
from oomph.doctor.reading.retold import WORDS, _sentences


def test_a_literal_of_three_words_is_a_phrase() -> None:
    lengths = {len(row.needle.split()) for row in _sentences()}
    assert min(lengths) == WORDS


def test_a_basis_that_was_right_once_is_right_in_two_of_three() -> None:
    assert (probability("status"), probability("answer"), probability("snapshot")) == (0.67, 0.67, 0.67)
