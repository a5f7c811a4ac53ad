"""Whole plans through the public JSON against vLLM's own answers: created weights, settings, KV cache, refusals.

A guard against regressions, not a measure of accuracy: answers that oomph got wrong when the set was made were left
out (tools/convert_oracle.py prints them). tools/accuracy_oracle.py over all answers is the measure.
"""

from __future__ import annotations

import pytest

import plan_truth

VERSIONS = sorted({row["vllm"] for row in plan_truth.rows()}, key=lambda v: [int(n) for n in v.split(".")])


@pytest.mark.parametrize("version", VERSIONS)
def test_plans(version: str) -> None:
    wrong = []
    for row in plan_truth.rows():
        if row["vllm"] == version:
            got = plan_truth.planned(row, row["model"], plan_truth.model(row["model"]))
            for term, (ours, theirs) in plan_truth.figures(row, got).items():
                if ours != theirs:
                    wrong.append(f"{row['id']} {term}: {ours} against {theirs}")
    assert not wrong, "\n".join(wrong)


def test_there_are_many() -> None:
    assert len(plan_truth.rows()) > 1000
    assert {"0.21.0", "0.32.0"} <= set(VERSIONS)
