"""Plans against start-ups of SGLang 0.5.17 on one H200 with dummy weights (tests/truth/h200-sglang.jsonl), predicted
before they ran (h200-sglang-predicted.jsonl). Other processes held memory on the card and some took more of it while a
model loaded: the free memory that SGLang read is pinned, and the load's own reading where the others grew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oomph.engines.sglang.planner import plan_sglang
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.plan import Plan
from oomph.sources.build import build_model
from oomph.units import GIB

TRUTH = Path(__file__).parents[2] / "truth"
TOTAL = 150_109_880_320
ROWS: list[dict[str, Any]] = [json.loads(line) for line in (TRUTH / "h200-sglang.jsonl").read_text().splitlines()]
MODELS = json.loads((TRUTH / "h200-sglang-models.json").read_text())
SERVING = [row for row in ROWS if row["max_total_num_tokens"]]
FIRST = [row for row in ROWS if row.get("round", 1) == 1]  # other processes shared the card
SECOND = [row for row in ROWS if row.get("round", 1) == 2]  # alone on the card, with graphs and loads
PREDICTED = {
    row["id"]: row["predicted"]
    for row in map(json.loads, (TRUTH / "h200-sglang-predicted-2.jsonl").read_text().splitlines())
}


def planned(row: dict[str, Any], *, weights: bool, free: bool = True) -> Plan:
    given = {"free_before_load": row["free_before_load_bytes"]} if free else {}
    if weights:
        given["weights"] = row["load_usage_bytes"]
    device = Device("H200", TOTAL, (9, 0), driver_name="NVIDIA H200", sm_count=132)
    flags = {"load_format": "dummy", **row["flags"]}
    deployment = Deployment(Engine("sglang", row["sglang"]), row["model"], flags, (device,), given=given)
    return plan_sglang(build_model(row["model"], MODELS[row["model"]]), deployment)


@pytest.mark.parametrize("row", SERVING, ids=lambda row: row["id"])
def test_tokens_and_requests_from_what_was_read(row: dict[str, Any]) -> None:
    plan = planned(row, weights=True)
    assert plan.resolved["mem_fraction_static"] == row["mem_fraction_static"]
    assert plan.resolved["max_running_requests"] == row["max_running_requests"]
    assert plan.kv is not None
    assert plan.kv.logged_tokens == pytest.approx(row["max_total_num_tokens"], rel=0.006)


@pytest.mark.parametrize("row", [row for row in SERVING if not row["others_grew_bytes"]], ids=lambda row: row["id"])
def test_tokens_with_our_own_weights(row: dict[str, Any]) -> None:
    kv = planned(row, weights=False).kv
    assert kv is not None
    assert kv.logged_tokens == pytest.approx(row["max_total_num_tokens"], rel=0.002)


@pytest.mark.parametrize("row", [*FIRST, *SERVING], ids=lambda row: row["id"])
def test_weights_as_the_allocator_has_them(row: dict[str, Any]) -> None:
    planned_bytes = planned(row, weights=False).ranks[0].terms["weights"].bytes
    assert planned_bytes == pytest.approx(row["weights_reserved_bytes"], abs=0.35 * GIB)


def test_experts_that_hopper_repacks() -> None:
    """The copies of gpt-oss's MXFP4 experts leave 2.1 GiB in the allocator; alone on the card, to 30 MiB."""
    (row,) = [row for row in SECOND if row["model"] == "gpt-oss-20b"]
    term = planned(row, weights=False).ranks[0].terms["weights"]
    assert term.parts["experts repacked"] > 2 * GIB
    assert term.bytes == pytest.approx(row["weights_reserved_bytes"], abs=30 << 20)


@pytest.mark.parametrize("row", [row for row in SECOND if not row["error"]], ids=lambda row: row["id"])
def test_a_start_up_from_nothing_but_its_command(row: dict[str, Any]) -> None:
    """Nothing is pinned: the KV budget within 1 % of the card, and the pools with the table of requests."""
    plan = planned(row, weights=False, free=False)
    assert plan.kv is not None
    stages = {stage.name: stage for stage in plan.ranks[0].stages}
    assert plan.kv.logged_tokens == pytest.approx(row["max_total_num_tokens"], rel=0.004)
    assert stages["kv_alloc"].resident_bytes == pytest.approx(row["in_use"]["pools"], abs=0.002 * TOTAL)


def test_what_was_written_down_before_the_second_round() -> None:
    """As it was committed: tokens to 0.3 %, pools to 0.1 GiB, graphs within 0.75 GiB of what the card then had."""
    rows = [row for row in SECOND if not row["error"]]
    assert len(rows) == 7
    for row in rows:
        guess = PREDICTED[row["id"]]
        assert guess["tokens"] == pytest.approx(row["max_total_num_tokens"], rel=0.0031)
        assert guess["max_running"] == row["max_running_requests"]
        assert guess["stages"]["kv_alloc"] == pytest.approx(row["in_use"]["pools"], abs=0.11 * GIB)
        if "graphs" in row["in_use"]:
            assert guess["stages"]["cudagraph_capture"] == pytest.approx(row["in_use"]["graphs"], abs=0.75 * GIB)


def test_the_failure_has_its_words() -> None:
    (row,) = [row for row in FIRST if row["error"]]
    verdict = planned(row, weights=False).verdict
    assert verdict.stage == "kv_check"
    assert verdict.message.startswith("ValueError: Loaded weights leave no GPU memory")
    assert "above 0.110" in row["error"]
    assert "above 0.110" in verdict.message


def test_a_refusal_that_the_second_round_found() -> None:
    """It was predicted to start: SGLang refuses Triton's attention for Nemotron-H before it loads anything."""
    (row,) = [row for row in SECOND if row["error"]]
    device = Device("H200", TOTAL, (9, 0), driver_name="NVIDIA H200", sm_count=132)
    deployment = Deployment(Engine("sglang", row["sglang"]), row["model"], row["flags"], (device,))
    verdict = plan_sglang(build_model(row["model"], MODELS[row["model"]]), deployment).verdict
    assert not verdict.fits
    assert verdict.message[:60] in row["error"].replace("AssertionError('", "AssertionError: ")


def test_graphs_as_they_were_captured() -> None:
    """Those marked aside were judged once, after the constants were chosen from the others."""
    rows = [row for row in SECOND if not row["error"] and "graphs" in row["in_use"]]
    assert len(rows) == 6
    for row in rows:
        stages = {stage.name: stage for stage in planned(row, weights=False, free=False).ranks[0].stages}
        assert stages["cudagraph_capture"].peak_bytes == pytest.approx(row["in_use"]["graphs"], abs=0.004 * TOTAL)
        served = max(load["in_use_bytes"] for load in row["loads"] if not load["error"])
        assert served <= stages["runtime_request"].peak_high


def test_batches_without_a_graph_as_they_were_served() -> None:
    """512 requests, twice the largest graph: what the plan takes for all that may run, for so many of them."""
    for row in (row for row in SECOND if not row["error"]):
        wide = [load for load in row.get("loads", ()) if load["name"] == "wide" and not load["error"]]
        stages = {stage.name: stage for stage in planned(row, weights=False).ranks[0].stages}
        for load in wide:
            captured, served = stages["cudagraph_capture"].peak_bytes, stages["runtime_request"].peak_bytes
            share = load["requests"] / row["max_running_requests"]
            assert captured + share * (served - captured) == pytest.approx(load["in_use_bytes"], abs=1.3 * GIB)


def test_decoding_that_ran_out_of_memory_is_a_risk() -> None:
    """DeepSeek-V2-Lite with Triton's attention: 256 decodes ran, 512 did not."""
    (row,) = [row for row in SECOND if row["id"] == "s3_dsv2lite"]
    assert [load["requests"] for load in row["loads"] if load["error"]] == [512]
    verdict = planned(row, weights=False).verdict
    assert verdict.outcome == "at_risk" and "requests that decode at once" in verdict.risk
    assert 256 < int(verdict.risk.split()[0].replace(",", "")) <= 512
    bounded = planned({**row, "flags": {**row["flags"], "max_running_requests": 256}}, weights=False).verdict
    assert bounded.outcome == "fits"


def test_weights_in_host_memory() -> None:
    """--cpu-offload-gb moves whole parameters of the decoder layers: what they leave goes to the pools."""
    (row,) = [row for row in SECOND if row["id"] == "s3_qwen3-8b"]
    here = planned(row, weights=False)
    there = planned({**row, "flags": {**row["flags"], "cpu_offload_gb": 4}}, weights=False)
    moved = -there.ranks[0].terms["weights"].parts["kept in host memory"]
    assert 4 * GIB <= moved < 4.2 * GIB
    assert here.ranks[0].terms["weights"].bytes - there.ranks[0].terms["weights"].bytes == moved
    assert there.kv is not None and here.kv is not None
    assert there.kv.logged_tokens > here.kv.logged_tokens
