"""Whole plans against start-ups of vLLM 0.24.0 to 0.26.0 on one H200 that then served heavy loads
(tests/truth/h200-served.jsonl, by tools/convert_served.py). Some were traced to find the laws; the others were
predicted first, in four rounds, and h200-served-predicted*.jsonl have what was written down before they ran."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from oomph.engines.vllm.planner import plan_vllm
from oomph.engines.vllm.serving.safe_utilization import RESERVE, safe_utilization
from oomph.facts.vllm.running import as_drafter
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.plan import Plan
from oomph.ir.timeline import Stage
from oomph.sources.build import build_model
from oomph.units import GIB

TRUTH = Path(__file__).parents[2] / "truth"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in (TRUTH / "h200-served.jsonl").read_text().splitlines()]


def predictions(name: str) -> dict[str, Any]:
    rows = [json.loads(line) for line in (TRUTH / name).read_text().splitlines()]
    return {row["id"]: row["predicted"] for row in rows}


PREDICTED = predictions("h200-served-predicted.jsonl")
PREDICTED_LATER = predictions("h200-served-predicted-2.jsonl")
PREDICTED_LAST = predictions("h200-served-predicted-3.jsonl")
PREDICTED_FOURTH = predictions("h200-served-predicted-4.jsonl")
MODELS = json.loads((TRUTH / "h200-served-models.json").read_text())
CARD = 0.004  # of the card: what "right" means for memory in use
TOTAL = ROWS[0]["total_bytes"]
# Its images were smaller than the encoder's limit, for which the plan is.
SMALL_IMAGES = "q3vl4_img_eager"
# rows whose start-up was stopped by the clock before it was ready, and those whose load was not the heavy one
READY = [i for i, row in enumerate(ROWS) if row["ready_bytes"]]
HEAVY = [
    i for i in READY if not ROWS[i].get("light_load") and not ROWS[i].get("died") and ROWS[i]["id"] != SMALL_IMAGES
]
IDS = [row["id"] for row in ROWS]


@cache
def planned(index: int, utilization: float | None = None) -> Plan:
    row = ROWS[index]
    flags = {"load_format": "dummy", **row["flags"]}
    if utilization is not None:
        flags["gpu_memory_utilization"] = utilization
    drafter = flags.get("speculative_config", {}).get("model")
    draft = build_model(drafter, _as_built(MODELS[drafter], flags["speculative_config"])) if drafter else None
    others = row.get("held_by_others", 0)
    device = Device("H200", row["total_bytes"], (9, 0), sm_count=132, used_bytes=others)
    deployment = Deployment(
        Engine("vllm", row["vllm"]), row["model"], flags, (device,), usage="llm",
        environment=row["environment"], compile_cache=row["compile_cache"],
    )  # fmt: skip
    return plan_vllm(build_model(row["model"], MODELS[row["model"]]), deployment, draft)


def _as_built(config: dict[str, Any], speculation: dict[str, Any]) -> dict[str, Any]:
    if speculation["method"] != "eagle3":
        return config
    return {**config, "architectures": [as_drafter(name, "eagle3") for name in config["architectures"]]}


def stage(index: int, name: str) -> Stage:
    return next(s for s in planned(index).ranks[0].stages if s.name == name)


def served_bytes(row: dict[str, Any]) -> int:
    """After every load but prompt log-probabilities, which the plan names but does not count as ordinary."""
    after = [x["in_use_bytes"] for x in row["loads"] if x["name"] != "prompt_logprobs"]
    return int(max([*after, row["ready_bytes"]]))


def share(hits: list[bool]) -> float:
    return sum(hits) / len(hits)


NEAR = 6 << 20
FURTHER_OFF = {
    # 48 MiB measured: the drafter shares its embedding with the target in this release, which the plan does not know
    "draft": 60 << 20,
}


@pytest.mark.parametrize("index", range(len(ROWS)), ids=IDS)
def test_the_runner_and_the_weights(index: int) -> None:
    row = ROWS[index]
    assert planned(index).resolved["model_runner"] == row["runner"]
    allowed = FURTHER_OFF.get(row["id"], NEAR)
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
    assert len(READY) >= 43
    hits = [abs(stage(i, "sampler_warmup").peak_bytes - ROWS[i]["ready_bytes"]) <= CARD * TOTAL for i in READY]
    assert share(hits) >= 0.95


def test_memory_after_the_heavy_load() -> None:
    assert len(HEAVY) >= 38
    hits = [abs(stage(i, "runtime_request").peak_bytes - served_bytes(ROWS[i])) <= CARD * TOTAL for i in HEAVY]
    assert share(hits) >= 0.8


def test_intervals_hold_what_was_measured() -> None:
    inside = []
    for i in READY:
        warm = stage(i, "sampler_warmup")
        inside.append(warm.peak_low <= ROWS[i]["ready_bytes"] <= warm.peak_high)
    for i in HEAVY:
        served = stage(i, "runtime_request")
        inside.append(served.peak_low <= served_bytes(ROWS[i]) <= served.peak_high)
    assert 0.85 <= share(inside) <= 1.0


def test_graphs() -> None:
    """The profiler's estimate (V1), and what capture took in the end (V2, which estimates nothing in this release)."""
    terms = [planned(i).ranks[0].terms for i in range(len(ROWS))]
    estimates = [
        abs(t["cudagraph"].bytes / row["cudagraph_bytes"] - 1) <= 0.25
        for t, row in zip(terms, ROWS, strict=True)
        if row["cudagraph_bytes"]
    ]
    assert len(estimates) >= 7
    assert share(estimates) >= 0.8


def test_what_was_written_down_before() -> None:
    """The figures of the predictions themselves, as they were committed: they do not move with the formulas."""
    rows = [row for row in ROWS if row["id"] in PREDICTED]
    assert len(rows) == 19
    warm = [abs(PREDICTED[r["id"]]["sampler_warmup"][0] - r["ready_bytes"]) <= CARD * r["total_bytes"] for r in rows]
    served = [abs(PREDICTED[r["id"]]["runtime_request"][0] - served_bytes(r)) <= CARD * r["total_bytes"] for r in rows]
    assert (sum(warm), sum(served)) == (18, 14)


def test_what_was_written_down_before_the_second_round() -> None:
    rows = [ROWS[i] for i in HEAVY if ROWS[i]["id"] in PREDICTED_LATER]
    guesses = [PREDICTED_LATER[row["id"]] for row in rows]
    others = [row.get("held_by_others", 0) for row in rows]
    warm = [
        abs(guess["sampler_warmup"][0] + held - row["ready_bytes"]) <= CARD * TOTAL
        for guess, row, held in zip(guesses, rows, others, strict=True)
    ]
    served = [
        abs(guess["runtime_request"][0] + held - served_bytes(row)) <= CARD * TOTAL
        for guess, row, held in zip(guesses, rows, others, strict=True)
    ]
    assert (len(rows), sum(warm), sum(served)) == (11, 11, 8)


def test_what_was_written_down_before_the_third_round() -> None:
    """Seventeen start-ups: drafts, LoRA, images, graphs by the profiler's own lines. Half were kept from the fitting
    (`aside`); with what the other half taught they came out as 6 of 7 activations, 6 of 7 after warm-up, 5 of 6 after
    the load, though their first errors had been seen by then. Missed at first: EAGLE-3 (its weights and pass),
    Pixtral's mask, and loads whose batches grow."""
    rows = [row for row in ROWS if row["id"] in PREDICTED_LAST]
    guesses = [PREDICTED_LAST[row["id"]] for row in rows]
    pairs = list(zip(guesses, rows, strict=True))
    activation = [abs(guess["activation_peak"][0] / row["activation_peak_bytes"] - 1) <= 0.03 for guess, row in pairs]
    graphs = [
        abs(guess["cudagraph"][0] / row["cudagraph_bytes"] - 1) <= 0.25
        for guess, row in pairs
        if row["cudagraph_bytes"]
    ]
    warm = [abs(guess["sampler_warmup"][0] - row["ready_bytes"]) <= CARD * TOTAL for guess, row in pairs]
    served = [
        abs(guess["runtime_request"][0] - served_bytes(row)) <= CARD * TOTAL
        for guess, row in pairs
        if not row.get("light_load")
    ]
    assert (sum(activation), len(activation)) == (12, 17)
    assert (sum(graphs), len(graphs)) == (6, 6)
    assert (sum(warm), len(warm)) == (16, 17)
    assert (sum(served), len(served)) == (10, 15)


def test_what_was_written_down_before_the_fourth_round() -> None:
    """Twenty-eight start-ups of 0.24.0, 0.25.0 and 0.26.0, with the tensors of every pass played through the allocator.
    Missed: the estimate of Gemma 2's and Nemotron 3's graphs (26 and 28 % off), and the loads of a model that drafts
    for itself and of Gemma 3's images. Three were stopped by the clock before the whole load."""
    rows = [row for row in ROWS if row["id"] in PREDICTED_FOURTH]
    pairs = [(PREDICTED_FOURTH[row["id"]], row) for row in rows]
    activation = [abs(guess["activation_peak"][0] / row["activation_peak_bytes"] - 1) <= 0.03 for guess, row in pairs]
    graphs = [
        abs(guess["cudagraph"][0] / row["cudagraph_bytes"] - 1) <= 0.25
        for guess, row in pairs
        if row["cudagraph_bytes"]
    ]
    ready = [(guess["sampler_warmup"], row["ready_bytes"]) for guess, row in pairs if row["ready_bytes"]]
    loaded = [
        (guess["runtime_request"], served_bytes(row))
        for guess, row in pairs
        if row["ready_bytes"] and not row.get("light_load")
    ]
    warm, served = ([abs(guess[0] - seen) <= CARD * TOTAL for guess, seen in some] for some in (ready, loaded))
    inside = [guess[1] <= seen <= guess[2] for guess, seen in ready + loaded]
    assert (sum(activation), len(activation)) == (28, 28)
    assert (sum(graphs), len(graphs)) == (6, 8)
    assert (sum(warm), len(warm)) == (27, 27)
    assert (sum(served), len(served)) == (22, 24)
    assert (sum(inside), len(inside)) == (50, 51)


def test_the_profiler_estimates_graphs_as_it_says() -> None:
    """First capture and every further graph, by mode: what the lines of the profiler add up to is the estimate."""
    rows = [row for row in ROWS if row.get("estimates")]
    assert len(rows) == 14
    for row in rows:
        first = max(mode[0] for mode in row["estimates"].values())
        further = sum((count - 1) * each for _, count, each in row["estimates"].values())
        assert (first + further) * (1 << 20) == pytest.approx(row["cudagraph_bytes"], rel=0.03)


def test_every_pick_of_fit_survived_and_is_still_called_safe() -> None:
    picks = [i for i in HEAVY if ROWS[i]["picked_by_fit"] and not ROWS[i]["id"].startswith("up")]
    assert len(picks) == 15
    for i in picks:
        assert len(ROWS[i]["loads"]) >= 3, "it was stopped by an error"
        assert planned(i).verdict.outcome == "fits"


def test_what_died_above_a_pick_is_called_a_risk() -> None:
    """Nemotron-Nano-9B-v2 was picked at 0.98 and survived; at 0.99 it started, and penalties killed it."""
    (index,) = [i for i, row in enumerate(ROWS) if row.get("died")]
    assert ROWS[index]["flags"]["gpu_memory_utilization"] > safe_utilization(planned(index)).value


def test_two_servers_on_one_card() -> None:
    """The second saw what the first held; together they took what `oomph pack` had said, to 0.5 GiB."""
    first, second = (next(row for row in ROWS if row["id"] == name) for name in ("pack_qwen3-4b", "pack_qwen3-8b"))
    assert second["held_by_others"] == pytest.approx(served_bytes(first), abs=0.1 * GIB)
    assert served_bytes(second) == pytest.approx(126.0 * GIB, abs=0.6 * GIB)


def test_sleep_and_offloading_take_host_memory() -> None:
    """Level 1 moves the weights to pinned memory, in pieces rounded up to powers of two; level 2 drops them."""
    by_id = {row["id"]: row for row in ROWS}
    first, second = by_id["s_sleep"]["sleep"]
    assert 1.0 < first["host_gain_bytes"] / by_id["s_sleep"]["weights_bytes"] < 1.15
    assert second["host_gain_bytes"] < 0.1 * GIB
    assert first["in_use_after"] == second["in_use_after"] < GIB
    assert by_id["s_offload"]["host_shared_bytes"] == pytest.approx(16 * GIB, rel=0.01)


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
