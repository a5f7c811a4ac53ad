"""Whole plans through the public JSON against vLLM's own answers: created weights, settings, KV cache, refusals.

A guard against regressions, not a measure of accuracy: answers that oomph got wrong when the set was made were left
out (tools/convert_oracle.py prints them). tools/accuracy_oracle.py over all answers is the measure.
"""

from __future__ import annotations

import pytest

import plan_truth

PARTS = 6  # the rows of one model stand after each other


@pytest.mark.parametrize("part", range(PARTS))
def test_plans(part: int) -> None:
    wrong = []
    rows = plan_truth.rows()
    for row in rows[len(rows) * part // PARTS : len(rows) * (part + 1) // PARTS]:
        got = plan_truth.planned(row, row["model"], plan_truth.model(row["model"]))
        for term, (ours, theirs) in plan_truth.figures(row, got).items():
            if ours != theirs:
                wrong.append(f"{row['vllm']} {row['id']} {term}: {ours} against {theirs}")
    assert not wrong, "\n".join(wrong)


def test_there_are_many() -> None:
    assert len(plan_truth.rows()) > 1000
    assert {"0.21.0", "0.32.0"} <= {row["vllm"] for row in plan_truth.rows()}
