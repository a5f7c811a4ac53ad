"""Start-ups of SGLang that strangers posted: with the readings of their logs, and from the command alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from posted_starts import NOT_WITHOUT_READINGS, ROWS, figures, planned, readings

from oomph.answers.plan import parse, run
from oomph.ir.plan import Plan
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB

KNOWN = [row for row in ROWS if not row.get("outside")]
STARTED = [row for row in KNOWN if "tokens" in row]
PINNED = [row for row in STARTED if readings(row)]
ALONE = [row for row in STARTED if row["id"] not in NOT_WITHOUT_READINGS]


def test_there_are_enough_posts() -> None:
    assert len(PINNED) >= 18 and len(ALONE) >= 18
    assert len({row["command"].split()[0] for row in KNOWN}) >= 15


@pytest.mark.parametrize("row", PINNED, ids=lambda row: row["id"])
def test_tokens_from_the_readings_of_the_log(row: dict[str, Any]) -> None:
    for term, ours, posted in figures(row, planned(row, pinned=True)):
        near = 1 if term == "slots" else 0
        assert ours == pytest.approx(posted, rel=0.01, abs=near), term


@pytest.mark.parametrize("row", ALONE, ids=lambda row: row["id"])
def test_tokens_from_the_command_alone(row: dict[str, Any]) -> None:
    """A GB10's load is read off the whole machine, file caches included; a card of 16 GB was inferred."""
    loose = 0.045 if row["gpu"] in ("DGX Spark", "RTX 4080") else 0.012
    for term, ours, posted in figures(row, planned(row, pinned=False)):
        assert ours == pytest.approx(posted, rel=loose, abs=1 if term in ("slots", "requests") else 0), term


@pytest.mark.parametrize("row", [row for row in KNOWN if "stage" in row], ids=lambda row: row["id"])
def test_a_posted_failure_has_its_stage_and_words(row: dict[str, Any]) -> None:
    verdict = planned(row, pinned=True).verdict
    assert (verdict.fits, verdict.stage) == (False, row["stage"])
    assert row["message"] in verdict.message
    if "least" in row:
        assert float(verdict.message.partition("available/pre = ")[2].partition(")")[0]) == pytest.approx(
            row["least"], abs=0.0006
        )


@pytest.mark.parametrize("row", [row for row in KNOWN if "weights" in row], ids=lambda row: row["id"])
def test_the_load_as_the_driver_counts_it(row: dict[str, Any]) -> None:
    """To 0.03 GiB where the weights stay as they are and the driver's figure is the engine's alone."""
    changed = ("FP8", "DeepSeek", "397B", "E4B", "ep 4")  # repacked, partly in host memory, tables on the host
    if row["gpu"] == "DGX Spark" or any(word in row["command"] for word in changed):
        pytest.skip("not the weights as they are")
    ours = planned(row, pinned=False).ranks[0].terms["weights"].bytes / GIB
    assert ours == pytest.approx(row["weights"], abs=0.035)


def test_a_release_that_is_too_old_is_said_to_be() -> None:
    (row,) = [row for row in ROWS if row.get("outside")]
    plan = planned(row, pinned=False)
    assert any("0.5.2" in note and "0.5.7" in note for note in plan.warnings)


def alike(command: str, release: str, free: float, weights: float) -> Plan:
    words = f"python -m sglang.launch_server --model-path {command}".split()
    pinned = {"free_before_load": round(free * GIB), "weights": round(weights * GIB)}
    return run(replace(parse(words, f"sglang=={release}"), gpus=parse_gpus("H100"), given=pinned))


@settings(max_examples=40, deadline=None)
@given(st.floats(18, 78), st.floats(0, 4), st.sampled_from(["0.5.7", "0.5.11", "0.5.17", "0.5.23"]))
def test_more_free_memory_is_never_worse(free: float, more: float, release: str) -> None:
    small = alike("Qwen/Qwen3-8B", release, free, 15.3)
    large = alike("Qwen/Qwen3-8B", release, free + more, 15.3)
    assert small.kv is not None and large.kv is not None
    assert large.kv.logged_tokens >= small.kv.logged_tokens
