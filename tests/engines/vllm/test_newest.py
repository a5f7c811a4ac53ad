"""Whole plans against starts of vLLM 0.32.0 and 0.29.0 on one H200 (tests/truth/h200-newest.jsonl).

Twenty-nine starts were predicted first (h200-newest-predicted.jsonl, as it was committed before they ran;
h200-newest-predicted-2.jsonl was written while they ran, before any figure was seen). Seventeen were kept aside, by the
hash of their names: the formulas were corrected on the other twelve and on six that had been measured before, and then
judged once on the seventeen. Of 28 further ones (h200-newest-predicted-4.jsonl) six were started, three of them kept;
no formula was changed for them. Of 44 more (h200-newest-predicted-5.jsonl) 25 were started, side by side, each on a
card of its own: what its processes hold is read from NVML, and what is free is what a neighbour of a given size leaves,
or what a card of a given size has. What is asserted here holds for all of them since.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from newest_truth import ROWS, TRUTH, Term, is_compiled, planned, terms

from oomph.units import MIB

CARD = ROWS[0]["total_bytes"]
EVERY = [term for index in range(len(ROWS)) for term in terms(index)]


def of(name: str) -> list[Term]:
    return [term for term in EVERY if term.name == name]


def share(hits: list[bool]) -> float:
    return sum(hits) / len(hits)


NEAR: dict[str, Callable[[Term], bool]] = {
    "weights": lambda term: term.off <= 0.001 * term.value,
    "activation_peak": lambda term: term.off <= 0.03 * term.value,
    "cudagraph": lambda term: term.off <= max(0.15 * term.value, 60 * MIB),
    "available_kv": lambda term: term.off <= 0.0015 * CARD,
    "ready": lambda term: term.off <= 0.004 * CARD,
    "full_load": lambda term: term.off <= 0.004 * CARD,
    "load_peak": lambda term: term.off <= 0.03 * term.value,
}


@pytest.mark.parametrize(
    ("name", "count", "least"),
    [
        ("weights", 66, 0.96), ("activation_peak", 66, 0.89), ("cudagraph", 36, 0.85), ("available_kv", 66, 0.93),
        ("ready", 66, 1.0), ("full_load", 30, 0.85), ("load_peak", 16, 1.0),
    ],
)  # fmt: skip
def test_near(name: str, count: int, least: float) -> None:
    found = of(name)
    assert len(found) >= count
    assert share([NEAR[name](term) for term in found]) >= least


def test_intervals_hold_most_and_not_everything_by_width() -> None:
    """Exact terms apart, nine in ten lie inside; the intervals are a few tenths of a per cent of the card wide."""
    judged = [term for term in EVERY if term.name not in ("weights", "load_peak")]
    assert 0.85 <= share([term.is_inside for term in judged]) <= 0.99
    widths = sorted(term.high - term.low for term in of("available_kv"))
    assert widths[len(widths) // 2] <= 0.002 * CARD


def test_the_runner() -> None:
    for index, row in enumerate(ROWS):
        assert planned(index).resolved["model_runner"] == row["runner"], row["id"]


def test_what_sleeping_leaves() -> None:
    slept = [(index, row) for index, row in enumerate(ROWS) if row["sleep"]]
    assert len(slept) >= 8
    for index, row in slept:
        asleep = planned(index).asleep
        assert asleep is not None
        for level in row["sleep"]:
            own = level["in_use_asleep"] - row["held_by_others"]
            assert asleep.left.bytes == pytest.approx(own, rel=0.031), row["id"]
            woken = level["in_use_awake"] - level["in_use_asleep"]
            assert asleep.wakes_bytes == pytest.approx(woken, rel=0.015), row["id"]


def test_level_one_takes_host_memory_in_powers_of_two_and_keeps_it() -> None:
    """device_allocator/cumem.py: every block is copied to pinned memory, which PyTorch rounds up and does not give
    back; level 2 takes none."""
    for row in (row for row in ROWS if row["sleep"]):
        first, second = row["sleep"]
        weights = first["tags"].get("weights", {"bytes": row["weights_bytes"]})["bytes"]
        assert 1.0 <= (first["pinned_asleep"] - first["pinned_before"]) / weights < 2.0, row["id"]
        assert second["pinned_asleep"] == second["pinned_before"]


def test_picks_of_fit_survived() -> None:
    picks = [(index, row) for index, row in enumerate(ROWS) if row["picked_by_fit"]]
    assert len(picks) == 14
    for index, row in picks:
        assert not any("error" in load or "stopped" in load for load in row["loads"])
        assert planned(index).verdict.outcome == "fits"
    # full: a window's layers and rounding leave a tenth of Gemma 3's and gpt-oss's pools
    filled = [max(load["kv_usage"] for load in row["loads"]) for _, row in picks if row["id"].startswith("f_")]
    assert len(filled) == 9 and min(filled) > 0.87 and sum(usage > 0.99 for usage in filled) == 7


def written_down(name: str) -> dict[str, dict[str, list[int]]]:
    rows: list[dict[str, Any]] = [json.loads(line) for line in (TRUTH / name).read_text().splitlines()]
    return {row["id"]: row["predicted"] for row in rows if "predicted" in row}


def test_what_was_written_down_before() -> None:
    """The figures of the predictions, as they were committed: they do not move with the formulas."""
    before = written_down("h200-newest-predicted.jsonl")
    pairs = [
        term._replace(planned=guess[0], low=guess[1], high=guess[2])
        for term in EVERY
        if (guess := before.get(term.row, {}).get(term.name))
    ]
    hits = {name: [near(term) for term in pairs if term.name == name] for name, near in NEAR.items()}
    assert {name: (sum(found), len(found)) for name, found in hits.items()} == {
        "weights": (27, 29), "activation_peak": (22, 29), "cudagraph": (11, 18), "available_kv": (26, 29),
        "ready": (28, 29), "full_load": (14, 16), "load_peak": (7, 8),
    }  # fmt: skip


def test_the_estimate_is_what_its_captures_add_up_to() -> None:
    """gpu/cudagraph_utils.py: what free memory fell by, less the samples, plus the first and the second for every
    further full graph. A capture frees the cache first, so that the second sample is negative."""
    rows = [row for row in ROWS if is_compiled(row) and row["captures"] and row["runner"] == "v2"]
    assert len(rows) >= 15
    for row in rows:
        assert row["cudagraph_bytes"] >= row["captured_bytes"], row["id"]


def test_the_second_period_as_it_was_written_down() -> None:
    """Six of 28 starts were run. One of them found a compile cache that a killed start had left: it is planned with it
    and cannot be held against figures for an empty one."""
    before = written_down("h200-newest-predicted-4.jsonl")
    started = {row["id"]: row for row in ROWS if row["id"] in before and "compile_cache" not in row}
    assert {row["vllm"] for row in started.values()} == {"0.29.0", "0.32.0"}
    pairs = [
        term._replace(planned=guess[0], low=guess[1], high=guess[2])
        for term in EVERY
        if term.row in started and (guess := before[term.row].get(term.name))
    ]
    assert all(NEAR[term.name](term) for term in pairs)
    judged = [term.is_inside for term in pairs if term.name not in ("weights", "load_peak")]
    assert (sum(judged), len(judged)) == (19, 20)


def test_the_kept_half() -> None:
    """By the hash of their names, twenty starts of which thirteen are compiled. When they were judged, 79 of 84 figures
    lay inside; what EAGLE-3 hands on between the layers was read afterwards, with its row seen."""
    third = written_down("h200-newest-predicted-5.jsonl")
    rows = [row for row in ROWS if row["kept"] and row["id"] not in third]
    kept = {row["id"] for row in rows}
    assert len(kept) == 20
    assert sum(is_compiled(row) for row in rows) == 13
    found = [term for term in EVERY if term.row in kept]
    near = {name: [hit(term) for term in found if term.name == name] for name, hit in NEAR.items()}
    assert {name: (sum(hits), len(hits)) for name, hits in near.items()} == {
        "weights": (20, 20), "activation_peak": (19, 20), "cudagraph": (13, 13), "available_kv": (19, 20),
        "ready": (20, 20), "full_load": (9, 11), "load_peak": (6, 6),
    }  # fmt: skip
    assert all(term.off <= 0.003 * CARD for term in found if term.name == "available_kv")
    for name in ("activation_peak", "cudagraph", "available_kv", "ready", "full_load", "load_peak"):
        assert share([term.is_inside for term in found if term.name == name]) >= 0.85, name


def test_the_third_period_as_it_was_written_down() -> None:
    """Twenty-five starts, twelve compiled and five with images, at first sight. What it taught: a tied head is built
    before it is tied, and a pool of sleep mode keeps it (three loads); docs/measured.md tells the rest."""
    before = written_down("h200-newest-predicted-5.jsonl")
    started = {row["id"] for row in ROWS} & before.keys()
    assert len(started) == 25
    pairs = [
        term._replace(planned=guess[0], low=guess[1], high=guess[2])
        for term in EVERY
        if term.row in started and (guess := before[term.row].get(term.name))
    ]
    hits = {name: [near(term) for term in pairs if term.name == name] for name, near in NEAR.items()}
    assert {name: (sum(found), len(found)) for name, found in hits.items()} == {
        "weights": (23, 25), "activation_peak": (20, 25), "cudagraph": (10, 12), "available_kv": (22, 25),
        "ready": (25, 25), "full_load": (8, 9), "load_peak": (4, 6),
    }  # fmt: skip
    judged = [term for term in pairs if term.name not in ("weights", "load_peak")]
    assert share([term.is_inside for term in judged]) >= 0.8


def test_a_block_of_splits_is_taken_twice_where_states_are_handed_on() -> None:
    """The estimate of EAGLE-3's graphs has its largest block of splits once more; MTP's, which hands none on, not."""
    rows = {row["id"]: index for index, row in enumerate(ROWS)}
    again = "warm-up counted once more"
    eagle, own = (planned(rows[name]).ranks[0].terms["cudagraph"] for name in ("c_llama8_eagle3", "c_q36_27b_fp8_mtp"))
    assert eagle.parts[again] == (2 * 256 + 12) * MIB
    assert own.parts[again] < 2 * 144 * MIB
