"""Posted starts on unified memory, AMD and Intel cards: never a confident wrong outcome."""

from __future__ import annotations

import pytest

from machine_truth import grade, kv_inside, planned, rows

PLANNED = [row for row in rows() if row["command"]]


@pytest.mark.parametrize("row", PLANNED, ids=[row["id"] for row in PLANNED])
def test_no_outcome_is_confident_and_wrong(row: dict[str, object]) -> None:
    assert grade(row, planned(row)) != "wrong"


def test_kv_memory_lies_inside_its_interval() -> None:
    inside = [found for row in PLANNED if (found := kv_inside(row, planned(row))) is not None]
    assert len(inside) >= 27
    assert sum(inside) >= 0.8 * len(inside)


def test_rows_that_are_not_planned_say_why() -> None:
    assert all(row["note"] for row in rows() if not row["command"])
