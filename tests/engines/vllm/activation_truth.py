"""Profiling passes of vLLM 0.21.0 and 0.26.0 on one H200, models cut to a few layers (tests/truth/activation.jsonl, by
tools/convert_activation.py), and our plan of each."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any

from h200_truth import TRUTH

from oomph.engines.vllm.planner import plan_vllm
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import Model
from oomph.ir.plan import Plan
from oomph.sources.build import build_model

FIELDS = {"weights": "weights_bytes", "activation_peak": "activation_peak_bytes", "cudagraph": "cudagraph_bytes"}
TOTAL = 150_109_880_320
# vLLM takes GPTQ's and this FP8 checkpoint's quantised layers from the weight files: from a configuration alone, as it
# was measured, it builds plain layers.
PLAIN = ("GPTQ", "FP8-Static-PerTensor", "LibertAIDAI")


def rows() -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (TRUTH / "activation.jsonl").read_text().splitlines()]
    return [row for row in found if not any(word in row["model"] for word in PLAIN)]


@cache
def _configs() -> dict[str, Any]:
    configs: dict[str, Any] = json.loads(gzip.decompress((TRUTH / "activation-models.json.gz").read_bytes()))
    return configs


@cache
def model(name: str) -> Model:
    config, *quant = _configs()[name]
    return build_model(name, config, hf_quant_config=quant[0] if quant else None)


def planned(row: dict[str, Any]) -> Plan:
    card = Device("H200", TOTAL, (9, 0), driver_name="NVIDIA H200", sm_count=132)
    flags = {"load_format": "dummy", **row["flags"]}
    asked = Deployment(Engine("vllm", row["vllm"]), row["model"], flags, (card,), usage="llm", compile_cache="cold")
    return plan_vllm(model(row["model"]), asked)
