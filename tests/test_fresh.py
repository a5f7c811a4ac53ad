"""Fresh deployments stay as right as they were: every row that is not listed as open agrees with vLLM."""

from __future__ import annotations

import pytest

import fresh_truth
from plan_truth import planned


@pytest.mark.parametrize("name", fresh_truth.sets())
def test_fresh_deployments(name: str) -> None:
    different = []
    for row in fresh_truth.lines(f"{name}-plans"):
        wrong = fresh_truth.wrong_terms(row, planned(row, row["model"], fresh_truth.model(name, row["model"])))
        if wrong != row.get("open", []):
            different.append(f"{row['vllm']} {row['id']}: {wrong}, listed as open: {row.get('open', [])}")
    assert not different, "\n".join(different[:20])


def test_there_are_rows() -> None:
    assert sum(len(fresh_truth.lines(f"{name}-plans")) for name in fresh_truth.sets()) > 60
