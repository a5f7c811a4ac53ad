"""Starts of vLLM 0.32.0 on one H200 (tests/truth/h200-newest.jsonl, tools/convert_newest.py), and our plan of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from oomph.engines.vllm.planner import plan_vllm
from oomph.facts.vllm.running import as_drafter
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import Model
from oomph.ir.plan import Plan
from oomph.ir.timeline import Stage
from oomph.sources.build import build_model

TRUTH = Path(__file__).parents[2] / "truth"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in (TRUTH / "h200-newest.jsonl").read_text().splitlines()]
MODELS: dict[str, Any] = json.loads((TRUTH / "h200-newest-models.json").read_text())
# The measured starts had it off: DeepGEMM compiles for minutes.
ENVIRONMENT = {"VLLM_USE_DEEP_GEMM": "0"}


class Term(NamedTuple):
    """A measured figure beside its plan."""

    row: str
    name: str
    value: int
    planned: int
    low: int
    high: int

    @property
    def is_inside(self) -> bool:
        return self.low <= self.value <= self.high

    @property
    def off(self) -> int:
        return abs(self.planned - self.value)


@cache
def model(name: str, is_eagle: bool = False) -> Model:
    config = dict(MODELS[name])
    quantisation = config.pop("hf_quant_config", None)
    if is_eagle:
        config["architectures"] = [as_drafter(architecture, "eagle3") for architecture in config["architectures"]]
    return build_model(name, config, hf_quant_config=quantisation)


@cache
def planned(index: int) -> Plan:
    row = ROWS[index]
    flags = {"load_format": "dummy", **row["flags"]}
    speculation = flags.get("speculative_config", {})
    draft = model(speculation["model"], speculation["method"] == "eagle3") if "model" in speculation else None
    device = Device("H200", row["total_bytes"], (9, 0), sm_count=132, used_bytes=row["held_by_others"])
    deployment = Deployment(
        Engine("vllm", row["vllm"]), row["model"], flags, (device,), usage="llm",
        environment=ENVIRONMENT | row["environment"], compile_cache=row.get("compile_cache", "cold"),
    )  # fmt: skip
    return plan_vllm(model(row["model"]), deployment, draft)


def is_compiled(row: dict[str, Any]) -> bool:
    return not row["flags"].get("enforce_eager")


def ready_stage(plan: Plan) -> Stage:
    """The last one before requests are served."""
    return plan.ranks[0].stages[-2]


def full_load_bytes(row: dict[str, Any]) -> int | None:
    """After every load but prompt log-probabilities; None where the load was a light one."""
    names, flags = {load["name"] for load in row["loads"]}, row["flags"]
    # a request of the mixed load was 512 tokens and was answered in eight steps: no more than so many ran at once
    at_once = 8 * flags.get("max_num_batched_tokens", 8192) // 512
    if not names & {"fill", "logprobs"} or at_once < flags["max_num_seqs"] // 2:
        return None
    after = [load["in_use_bytes"] for load in row["loads"] if load["name"] != "prompt_logprobs"]
    return int(max([*after, row["ready_bytes"]]))


def terms(index: int) -> Iterator[Term]:
    """Every figure of a start that a plan has too."""
    row, plan = ROWS[index], planned(index)
    ours = plan.ranks[0].terms
    ready, served = ready_stage(plan), plan.ranks[0].stages[-1]
    for name, field in (
        ("weights", "weights_bytes"), ("activation_peak", "activation_peak_bytes"), ("cudagraph", "cudagraph_bytes"),
        ("available_kv", "available_kv_bytes"),
    ):  # fmt: skip
        if row[field]:
            term = ours[name]
            yield Term(row["id"], name, row[field], term.bytes, term.low, term.high)
    if row["flags"].get("enable_sleep_mode"):
        term = ours["load_peak"]
        yield Term(row["id"], "load_peak", row["load_reserved_bytes"], term.bytes, term.low, term.high)
    yield Term(row["id"], "ready", row["ready_bytes"], ready.peak_bytes, ready.peak_low, ready.peak_high)
    full = full_load_bytes(row)
    if full is not None:
        yield Term(row["id"], "full_load", full, served.peak_bytes, served.peak_low, served.peak_high)
