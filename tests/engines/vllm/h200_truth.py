"""Start-ups of vLLM 0.21.0 on one H200 (tests/truth/h200.jsonl, by tools/convert_h200.py), and our plan of each."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from oomph.engines.common.ranks import Rank
from oomph.engines.vllm.planner import plan_vllm
from oomph.engines.vllm.run import Run
from oomph.engines.vllm.weights.load.player import Point
from oomph.engines.vllm.weights.loaded import WeightsPlan, first_failing_allocation, weights_terms
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import Model
from oomph.ir.plan import Plan
from oomph.sources.build import build_model

TRUTH = Path(__file__).parents[2] / "truth"
VERSION = "0.21.0"
# Measured with a checkpoint that quantised linear_attn.in_proj_ba too, which the configuration kept here does not.
OTHER_CONFIG = "c_Qwen3.6-27B-W4_eager_b8192"
# The process that held memory beside the engine has a context of its own: free memory fell by this much more.
HOLDER = 548_995_072
FIELDS = {
    "weights": "weights_bytes", "activation_peak": "activation_peak_bytes", "non_torch": "non_torch_bytes",
    "cudagraph": "cudagraph_bytes", "available_kv": "available_kv_bytes",
}  # fmt: skip


def rows(truth: Path = TRUTH) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (truth / "h200.jsonl").read_text().splitlines()]


@cache
def _configs(truth: Path) -> dict[str, Any]:
    configs: dict[str, Any] = json.loads((truth / "h200-models.json").read_text())
    return configs


@cache
def _model(truth: Path, name: str, overrides: str) -> Model:
    return build_model(name, _merge(_configs(truth)[name], json.loads(overrides)))


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        nested = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if nested else value
    return merged


class Case:
    """One row with everything the weights depend on. The measurements were made with dummy weights."""

    def __init__(self, row: dict[str, Any], truth: Path = TRUTH, **more: Any) -> None:
        flags = {"load_format": "dummy", **row["flags"], **more}
        overrides = json.dumps(flags.pop("hf_overrides", {}), sort_keys=True)
        self.row = row
        self.model: Model = _model(truth, row["model"], overrides)
        self.device = Device("H200", row["total_bytes"], (9, 0), sm_count=132)
        self.deployment = Deployment(Engine("vllm", VERSION), row["model"], flags, (self.device,), usage="llm")
        self.run, self.rank = Run(self.model, self.deployment), Rank(0, 0, 0, self.device)

    def plan(self) -> WeightsPlan:
        return weights_terms(self.run, self.rank)

    def failing(self, limit: int) -> Point | None:
        return first_failing_allocation(self.run, self.rank, limit)


def measured() -> list[dict[str, Any]]:
    return [row for row in rows() if row["id"] != OTHER_CONFIG]


def planned(row: dict[str, Any]) -> Plan:
    case = Case(row)
    held = row["held_by_others"] and row["held_by_others"] + HOLDER
    card = Device("H200", row["total_bytes"], (9, 0), driver_name="NVIDIA H200", sm_count=132, used_bytes=held)
    warm = "warm" if row["compile_cache"] == "warm" else "cold"
    flags = case.deployment.flags
    asked = Deployment(Engine("vllm", VERSION), row["model"], flags, (card,), usage="llm", compile_cache=warm)
    return plan_vllm(case.model, asked)
