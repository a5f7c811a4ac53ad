"""Intervals hold 85 to 99 % of the true values of their term: honest, and not simply wide."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import accuracy_intervals

ENOUGH = 30


def test_every_term_with_enough_true_values_is_calibrated() -> None:
    sets = accuracy_intervals.collect()
    judged = {
        term: sum(item.is_inside for item in items) / len(items)
        for (group, term), items in sets.items()
        if group == accuracy_intervals.ALL and len(items) >= ENOUGH
    }
    assert {"activation_peak", "available_kv", "captured graphs", "non_torch"} <= set(judged)
    assert not {term: share for term, share in judged.items() if not 0.85 <= share <= 0.99}
