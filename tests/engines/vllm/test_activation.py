"""The activation peak and graph estimate against profiling passes traced on one H200 (tests/truth/activation.jsonl)."""

from __future__ import annotations

from functools import cache

from activation_truth import FIELDS, planned, rows

from oomph.facts.vllm.activation import TRACED
from oomph.ir.plan import Plan

ROWS = rows()


@cache
def plans() -> dict[str, Plan]:
    return {row["id"]: planned(row) for row in ROWS}


def errors(term: str) -> dict[str, float]:
    found = {}
    for row in ROWS:
        if row[FIELDS[term]]:
            found[row["id"]] = plans()[row["id"]].ranks[0].terms[term].bytes / row[FIELDS[term]] - 1
    return found


def within(found: dict[str, float], share: float) -> float:
    return sum(abs(e) <= share for e in found.values()) / len(found)


def test_every_pass_is_planned() -> None:
    assert [name for name, plan in plans().items() if not plan.ranks] == []
    assert len(ROWS) >= 150


def test_weights() -> None:
    found = errors("weights")
    assert within(found, 0.002) == 1, sorted(found.items(), key=lambda x: -abs(x[1]))[:5]


def test_activation_peak() -> None:
    found = errors("activation_peak")
    worst = sorted(found.items(), key=lambda x: -abs(x[1]))[:5]
    assert within(found, 0.02) >= 0.95, worst
    assert within(found, 0.10) == 1, worst


def test_the_interval_holds_the_measurement() -> None:
    outside = []
    for row in ROWS:
        term = plans()[row["id"]].ranks[0].terms["activation_peak"]
        if not term.low <= row["activation_peak_bytes"] <= term.high:
            outside.append(row["id"])
    assert len(outside) <= 0.03 * len(ROWS), outside


def test_graph_estimate() -> None:
    """One 2 MiB step of the driver, times the graphs, is what the estimate cannot know."""
    found = errors("cudagraph")
    assert within(found, 0.30) == 1, found
    assert within(found, 0.22) >= 0.8, found


def test_the_architectures_that_were_traced_are_listed() -> None:
    from activation_truth import model

    assert {model(row["model"]).architecture for row in ROWS} == TRACED
