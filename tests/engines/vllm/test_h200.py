"""Whole plans against start-ups measured on one H200 with vLLM 0.21.0 (tests/truth/h200.jsonl)."""

from __future__ import annotations

from functools import cache

import pytest
from h200_truth import FIELDS, measured, planned

from oomph.ir.plan import Plan

ROWS = measured()


@cache
def plans() -> dict[str, Plan]:
    return {row["id"]: planned(row) for row in ROWS}


def errors(term: str, *, of_card: bool = False) -> dict[str, float]:
    """Relative to the measured figure, or to the card."""
    out = {}
    for row in ROWS:
        ranks, measured = plans()[row["id"]].ranks, row[FIELDS[term]]
        if ranks and measured:
            whole = row["total_bytes"] if of_card else measured
            out[row["id"]] = abs(ranks[0].terms[term].bytes - measured) / whole
    return out


def worst(found: dict[str, float]) -> str:
    return ", ".join(f"{name} {e:.2%}" for name, e in sorted(found.items(), key=lambda x: -x[1])[:5])


def test_weights() -> None:
    found = errors("weights")
    assert len(found) > 60
    assert max(found.values()) <= 0.0015, worst(found)


def test_activation() -> None:
    found = errors("activation_peak")
    assert len(found) > 60
    assert sum(e <= 0.02 for e in found.values()) >= 0.9 * len(found), worst(found)
    assert max(found.values()) <= 0.10, worst(found)


def test_graph_estimate() -> None:
    found = errors("cudagraph")
    assert len(found) > 10
    assert max(found.values()) <= 0.25, worst(found)


def test_available_kv() -> None:
    found = errors("available_kv", of_card=True)
    assert len(found) > 60
    assert max(found.values()) <= 0.003, worst(found)


FAILED = {
    "f3_llama8b_15gib_weights_oom": "weights_load", "f4_llama8b_kvcheck": "kv_check", "f5_llama8b_nocache": "kv_check",
    "f6_llama8b_freemem": "startup_free_memory",
}  # fmt: skip


@pytest.mark.parametrize("name", [row["id"] for row in ROWS if row["error"] or row["available_kv_bytes"]])
def test_starts_or_not(name: str) -> None:
    """Rows with neither an error nor a KV figure have no recorded end."""
    assert plans()[name].verdict.stage == FAILED.get(name), plans()[name].verdict.message


@pytest.mark.parametrize("row", [row for row in ROWS if row["error"]], ids=lambda row: row["id"])
def test_message(row: dict[str, str]) -> None:
    """The recorded text is the exception's repr, cut. A failed allocation also tells which tensor it was."""
    text = row["error"].split("(", 1)[1][1:]
    told = plans()[row["id"]].verdict.message
    if text.startswith("CUDA out of memory"):
        text = text.split(" of which")[0]
    assert text[:150] in told
