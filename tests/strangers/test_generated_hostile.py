"""A few of the generated hostile inputs (`python tests/strangers/hostile.py 2000` runs many)."""

from __future__ import annotations

import os

import hostile
import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the inputs run in forks")
def test_sixty_inputs_end_well() -> None:
    said: list[str] = []
    assert hostile.judge(60, 11, said.append) == 0, "\n".join(said)
    assert "60 inputs, 0 bad" in said[-1]


def test_what_is_bad_is_noticed() -> None:
    empty = 50 << 20
    for outcome, wrong in (
        (hostile.Outcome(0, "fits", 0.1, empty), 0),
        (hostile.Outcome(0, f"key {hostile.SECRET}", 0.1, empty), 1),
        (hostile.Outcome(0, "\x1b[2J", 0.1, empty), 1),
        (hostile.Outcome(70, "oomph: error: a bug in oomph: x", 0.1, empty), 2),
        (hostile.Outcome(0, "fits", 9.0, 900 << 20), 2),
    ):
        assert len(hostile.complaints(outcome, empty)) == wrong
