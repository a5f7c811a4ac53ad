"""Fresh deployments that vLLM's own Python answered before oomph saw them (tools/convert_fresh.py writes them).

Rows of stage load_lora_model are read from vLLM's source: the lab does not run that step.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from oomph.catalog.pack import unpack
from oomph.ir.model import Model
from oomph.sources.build import build_model
from plan_truth import figures

TRUTH = Path(__file__).parent / "truth"
_WITHIN = 0.001  # of created weights


def sets() -> list[str]:
    """What there is: the walk over the registry, and each round of random deployments."""
    return sorted(path.name.removesuffix("-plans.jsonl.gz") for path in TRUTH.glob("fresh*-plans.jsonl.gz"))


def lines(stem: str) -> list[dict[str, Any]]:
    with gzip.open(TRUTH / f"{stem}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def build(packed: Mapping[str, Any]) -> Model:
    quant = packed.get("q") and unpack(packed["q"])
    return build_model(packed["id"], unpack(packed["c"]), hf_quant_config=quant, told=dict(packed.get("told", {})))


@cache
def models(name: str) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in lines(f"{name}-models")}


@cache
def model(name: str, which: str) -> Model:
    return build(models(name)[which])


def terms(row: Mapping[str, Any]) -> list[str]:
    """What can be compared of a row."""
    if "message" in row and row["stage"] != "kv_cache_config":
        return ["refusal"]
    return [*(["weights"] if "created" in row else []), "kv check" if "message" in row else "kv"]


def wrong_terms(row: Mapping[str, Any], plan: Mapping[str, Any]) -> list[str]:
    """Which of weights, kv, kv check and refusal are not vLLM's."""
    if "message" in row and row["stage"] != "kv_cache_config":
        refused = not plan["verdict"]["fits"] and plan["verdict"]["stage"] == "other"
        return [] if refused else ["refusal"]
    figure = figures(row, plan)
    wrong = []
    if "created_bytes" in figure:
        ours, theirs = figure["created_bytes"]
        if any(abs(a - b) > _WITHIN * b for a, b in zip(ours, theirs, strict=True)):
            wrong.append("weights")
    if "message" in row:
        return wrong if figure["message"][0] == figure["message"][1] else [*wrong, "kv check"]
    if any(figure[name][0] != figure[name][1] for name in ("num_blocks", "tokens")):
        wrong.append("kv")
    return wrong
