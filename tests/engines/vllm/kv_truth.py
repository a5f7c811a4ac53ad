"""Models and answers of tests/truth/kv-*.jsonl.gz and flags-*.jsonl.gz (settings mixed at random): what vLLM's own code
decided (tools/convert_kv.py writes them)."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from oomph.engines.vllm.kv.cache import kv
from oomph.engines.vllm.kv.check import KvPlan
from oomph.engines.vllm.resolve.steps import Resolved, resolve
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import (
    Attention,
    Block,
    Experts,
    Layer,
    Linear,
    Mixer,
    Modality,
    Model,
    Quantization,
    Scheme,
    State,
    Tower,
)

TRUTH = Path(__file__).parents[2] / "truth"
DOCS = "https://docs.vllm.ai/en/latest/configuration/conserving_memory/"


def _lines(name: str) -> list[dict[str, Any]]:
    if not (TRUTH / f"{name}.jsonl.gz").exists():
        return []
    with gzip.open(TRUTH / f"{name}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def make(row: dict[str, Any]) -> Model:
    mixers: list[Mixer] = [
        msgspec.convert({"head_dim_v": 0, **told}, Attention) if kind == "a" else msgspec.convert(told, State)
        for kind, told in row["mixers"]
    ]
    modules = [msgspec.convert(told, Experts if kind == "e" else Linear) for kind, told in row.get("modules", ())]
    block = Block(tuple(modules))
    prefix = (row.get("prefixes") or ["model.layers"])[0]

    def layers(runs: list[list[Any]]) -> tuple[Layer, ...]:
        flat = [indices for indices, count in runs for _ in range(count)]
        return tuple(
            Layer(i, f"{prefix}.{i}", tuple(mixers[m] for m in indices), block) for i, indices in enumerate(flat)
        )

    q = row.get("quantization")
    scheme = (
        Scheme(q["method"], 4, "int", "group", group_size=q["group_size"], desc_act=True)
        if q and q["desc_act"]
        else None
    )
    return Model(
        row["id"],
        row["architecture"],
        row["dtype"],
        1,
        1,
        row.get("max_position", 0),
        layers(row["layers"]),
        Block(),
        (),
        drafts=layers(row.get("drafts", [])),
        towers=tuple(Tower(t, t, "", ()) for t in row.get("towers", ())),
        modalities=tuple(Modality(n, t) for n, t in row.get("modalities", {}).items()),
        quantization=Quantization(q["method"], scheme, q["kv_cache"]) if q else None,
        model_type=row.get("model_type", ""),
        num_heads=row.get("heads", 0),
        num_kv_heads=row.get("kv_heads", 0),
        pooling=row.get("pooling", False),
        params=tuple(row.get("params", {}).items()),
    )


@cache
def models() -> dict[str, Model]:
    return {row["id"]: make(row) for row in (*_lines("kv-models"), *_lines("flags-models"))}


@cache
def rows() -> list[dict[str, Any]]:
    return [*_lines("kv-answers"), *_lines("flags-answers")]


def deployment(row: dict[str, Any]) -> Deployment:
    name, sm, total = row["gpu"]
    gpu = Device(name, total, (sm // 10, sm % 10), driver_name=name)
    return Deployment(Engine("vllm", row["vllm"]), "", row["flags"], (gpu,), usage=row.get("usage", "serve"))


def planned(row: dict[str, Any]) -> tuple[Resolved, KvPlan | None]:
    r = resolve(models()[row["model"]], deployment(row), models().get(row.get("draft", "")))
    return r, kv(r, row["kv_bytes"]) if r.refusal is None else None
