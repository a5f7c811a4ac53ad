"""Whole plans against start-ups of vLLM 0.26.0 on one H200 that then served heavy loads (tests/truth/h200-served.jsonl,
by tools/convert_served.py). The first half was traced to find the laws; the second was predicted first, and
h200-served-predicted.jsonl has what was written down before it ran."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from oomph.engines.vllm.planner import plan_vllm
from oomph.engines.vllm.safe_utilization import RESERVE, safe_utilization
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.plan import Plan
from oomph.ir.timeline import Stage
from oomph.sources.build import build_model
from oomph.units import GIB

TRUTH = Path(__file__).parents[2] / "truth"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in (TRUTH / "h200-served.jsonl").read_text().splitlines()]
PREDICTED = {
    row["id"]: row["predicted"]
    for row in (json.loads(line) for line in (TRUTH / "h200-served-predicted.jsonl").read_text().splitlines())
}
MODELS = json.loads((TRUTH / "h200-served-models.json").read_text())
CARD = 0.004  # of the card: what "right" means for memory in use
# Its images were smaller than the encoder's limit, for which the plan is.
SMALL_IMAGES = "q3vl4_img_eager"
IDS = [row["id"] for row in ROWS]


@cache
def planned(index: int, utilization: float | None = None) -> Plan:
    row = ROWS[index]
    flags = {"load_format": "dummy", **row["flags"]}
    if utilization is not None:
        flags["gpu_memory_utilization"] = utilization
    drafter = flags.get("speculative_config", {}).get("model")
    draft = build_model(drafter, MODELS[drafter]) if drafter else None
    device = Device("H200", row["total_bytes"], (9, 0), sm_count=132)
    deployment = Deployment(
        Engine("vllm", row["vllm"]), row["model"], flags, (device,), usage="llm",
        environment=row["environment"], compile_cache=row["compile_cache"],
    )  # fmt: skip
    return plan_vllm(build_model(row["model"], MODELS[row["model"]]), deployment, draft)


def stage(index: int, name: str) -> Stage:
    return next(s for s in planned(index).ranks[0].stages if s.name == name)


def served_bytes(row: dict[str, Any]) -> int:
    """After every load but prompt log-probabilities, which the plan names but does not count as ordinary."""
    after = [x["in_use_bytes"] for x in row["loads"] if x["name"] != "prompt_logprobs"]
    return int(max([*after, row["ready_bytes"]]))


def share(hits: list[bool]) -> float:
    return sum(hits) / len(hits)


@pytest.mark.parametrize("index", range(len(ROWS)), ids=IDS)
def test_the_runner_and_the_weights(index: int) -> None:
    row = ROWS[index]
    assert planned(index).resolved["model_runner"] == row["runner"]
    # the drafter shares its embedding with the target in this release, which the plan does not know
    allowed = 60 << 20 if row["id"] == "draft" else 6 << 20
    assert abs(planned(index).ranks[0].terms["weights"].bytes - row["weights_bytes"]) <= allowed


def test_activation_within_three_percent() -> None:
    hits = [
        abs(planned(i).ranks[0].terms["activation_peak"].bytes / row["activation_peak_bytes"] - 1) <= 0.03
        for i, row in enumerate(ROWS)
        if row["activation_peak_bytes"]
    ]
    assert len(hits) >= 25
    assert share(hits) >= 0.85


def test_kv_memory_within_a_few_thousandths_of_the_card() -> None:
    hits = [
        abs(planned(i).ranks[0].terms["available_kv"].bytes - row["available_kv_bytes"]) <= 0.003 * row["total_bytes"]
        for i, row in enumerate(ROWS)
        if row["activation_peak_bytes"]
    ]
    assert all(hits)


def test_memory_after_warm_up() -> None:
    errors = [stage(i, "sampler_warmup").peak_bytes - row["ready_bytes"] for i, row in enumerate(ROWS)]
    assert share([abs(e) <= CARD * row["total_bytes"] for e, row in zip(errors, ROWS, strict=True)]) >= 0.9


def test_memory_after_the_heavy_load() -> None:
    rows = [(i, row) for i, row in enumerate(ROWS) if row["id"] != SMALL_IMAGES]
    errors = [stage(i, "runtime_request").peak_bytes - served_bytes(row) for i, row in rows]
    assert share([abs(e) <= CARD * row["total_bytes"] for e, (_, row) in zip(errors, rows, strict=True)]) >= 0.8


def test_intervals_hold_what_was_measured() -> None:
    inside = []
    for i, row in enumerate(ROWS):
        warm, served = stage(i, "sampler_warmup"), stage(i, "runtime_request")
        inside.append(warm.peak_low <= row["ready_bytes"] <= warm.peak_high)
        if row["id"] != SMALL_IMAGES:
            inside.append(served.peak_low <= served_bytes(row) <= served.peak_high)
    assert 0.85 <= share(inside) <= 1.0


def test_what_was_written_down_before() -> None:
    """The figures of the predictions themselves, as they were committed: they do not move with the formulas."""
    rows = [row for row in ROWS if row["id"] in PREDICTED]
    assert len(rows) == 19
    warm = [abs(PREDICTED[r["id"]]["sampler_warmup"][0] - r["ready_bytes"]) <= CARD * r["total_bytes"] for r in rows]
    served = [abs(PREDICTED[r["id"]]["runtime_request"][0] - served_bytes(r)) <= CARD * r["total_bytes"] for r in rows]
    assert (sum(warm), sum(served)) == (18, 14)


def test_every_pick_of_fit_survived_and_is_still_called_safe() -> None:
    picks = [i for i, row in enumerate(ROWS) if row["picked_by_fit"] and row["compile_cache"] == "cold"]
    assert len(picks) == 7
    for i in picks:
        assert len(ROWS[i]["loads"]) >= 3, "it was stopped by an error"
        assert planned(i).verdict.outcome == "fits"


def test_safe_utilization_leaves_its_reserve() -> None:
    for i, row in enumerate(ROWS):
        safe = safe_utilization(planned(i))
        assert safe.reason
        at_safe = planned(i, safe.value)
        assert at_safe.verdict.outcome == "fits", row["id"]
        high = max(s.needed_high for s in at_safe.ranks[0].stages if s.name == "runtime_request")
        assert high <= row["total_bytes"] * (1 - RESERVE) + 0.011 * row["total_bytes"]


def test_prompt_log_probabilities_take_what_was_traced() -> None:
    """Ten bytes for every prompt token and word of the vocabulary in the V1 runner; 1,024 tokens at a time in V2."""
    by_id = {row["id"]: row for row in ROWS}
    peak = {name: next(x for x in by_id[name]["loads"] if x["name"] == "prompt_logprobs")["peak_bytes"]
            for name in ("l8_v1_eager", "l8_v2_eager")}  # fmt: skip
    assert peak["l8_v1_eager"] == pytest.approx(4096 * 128256 * 10, rel=0.01)
    assert peak["l8_v2_eager"] == pytest.approx(2 * 1024 * 128256 * 2, abs=0.05 * GIB)
