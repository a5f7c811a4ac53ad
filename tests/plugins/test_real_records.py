"""Records that the plugin wrote inside of vLLM 0.32.0 on an H200, beside a neighbour that held most of the card."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import oomph

FILE = Path(__file__).parents[1] / "truth" / "plugin-records-0.32.0.jsonl.gz"
RECORDS = {row["id"]: row["record"] for row in map(json.loads, gzip.decompress(FILE.read_bytes()).splitlines())}
STAGES = {"d_free": "startup_free_memory", "d_profile": "profile_run"}
HELD_BY_THE_NEIGHBOUR = {"d_free": 117889302528, "d_profile": 127766888448}


def explained(name: str, model: str) -> dict[str, Any]:
    text = json.dumps(RECORDS[name], indent=1).replace("/models/Qwen3-8B", model)
    return dict(oomph.explain(text).to_dict())


@pytest.mark.parametrize("name", RECORDS)
def test_the_plan_made_at_the_start_names_the_stage_in_which_it_died(name: str) -> None:
    record = RECORDS[name]
    (card,) = record["gpus"]
    assert abs(card["used_bytes"] - HELD_BY_THE_NEIGHBOUR[name]) < 64 << 20
    gpu = f"H200 {card['used_bytes'] / 2**20}MiB used"
    command = " ".join(record["command"]).replace("/models/Qwen3-8B", "Qwen/Qwen3-8B")
    plan = oomph.plan(command, gpu=gpu, engine="vllm==0.32.0")
    assert plan.verdict.outcome == "fails" and plan.verdict.stage == record["death"]["stage"] == STAGES[name]


@pytest.mark.parametrize("name", RECORDS)
def test_its_remedies_are_planned_beside_the_neighbour(name: str) -> None:
    answer = explained(name, "Qwen/Qwen3-8B")
    assert answer["stage"] == STAGES[name] and answer["cause"]["id"] == "D01"
    planned = [remedy for remedy in answer["remedies"] if remedy["verified"] and remedy["kind"] == "flag"]
    assert planned and "--gpu-memory-utilization 0.9" not in [remedy["change"] for remedy in planned]
    (card,) = RECORDS[name]["gpus"]
    gpu = f"H200 {card['used_bytes'] / 2**20}MiB used"
    assert oomph.plan(planned[0]["command"], gpu=gpu, engine="vllm==0.32.0").verdict.outcome == "fits"
