"""Whole plans that vLLM's own Python answered: tests/truth/oracle-*.jsonl.gz (tools/convert_oracle.py writes them)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from oomph import catalog
from oomph.answers.plan import plan
from oomph.catalog.pack import unpack
from oomph.ir.model import Model
from oomph.sources.build import build_model

TRUTH = Path(__file__).parent / "truth"
# what the recorded texts lack of the engine's own: addresses
_CUT = ("https://docs.vllm.ai/en/latest/configuration/conserving_memory/",)


def _lines(name: str) -> list[dict[str, Any]]:
    path = TRUTH / f"{name}.jsonl.gz"
    if not path.exists():
        return []
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


@cache
def rows() -> list[dict[str, Any]]:
    return _lines("oracle-plans")


@cache
def _own() -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in _lines("oracle-models")}


@cache
def model(name: str) -> Model:
    """Of the catalogue, or packed as the catalogue packs."""
    row = _own().get(name)
    if row is not None:
        quant = row.get("q") and unpack(row["q"])
        return build_model(name, unpack(row["c"]), hf_quant_config=quant, told=dict(row.get("told", {})))
    entry = catalog.find(name)
    assert entry is not None, name
    return build_model(entry.id, entry.config, hf_quant_config=entry.quant_config, told=dict(entry.told))


def words(name: str, flags: Mapping[str, Any], usage: str = "serve") -> list[str]:
    """The command a user would give."""
    if usage == "llm":
        return [f"LLM(model={name!r}, " + ", ".join(f"{k}={v!r}" for k, v in flags.items()) + ")"]
    out = ["vllm", "serve", name]
    for key, value in flags.items():
        flag = "--" + key.replace("_", "-")
        if isinstance(value, bool):
            out.append(flag if value else "--no-" + flag[2:])
        elif isinstance(value, list):
            out += [flag, *map(str, value)]
        else:
            out += [flag, json.dumps(value) if isinstance(value, dict) else str(value)]
    return out


def planned(row: Mapping[str, Any], name: str, loaded: Model | None = None) -> dict[str, Any]:
    """The plan's JSON for one row."""
    card, sm, total = row["gpu"]
    flags = row["flags"]
    sides = ("tensor", "pipeline", "data", "prefill_context")
    sizes = [f"{side}_parallel_size" for side in sides]  # a GPU for every rank: with fewer, vLLM does not start
    count = prod(flags.get(size, 1) for size in sizes)
    gpu = {"name": card, "count": count, "total_bytes": total, "compute_capability": f"{sm // 10}.{sm % 10}"}
    command = words(name, flags, row.get("usage", "serve"))
    pool = {"available_kv": row["kv_bytes"]}
    answer = plan(command, gpu=gpu, engine=f"vllm=={row['vllm']}", given=pool, model=loaded, advise=False)
    return answer.to_dict()


def figures(row: Mapping[str, Any], got: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """term -> (ours, theirs) for every term the row has."""
    out: dict[str, tuple[Any, Any]] = {}
    if "created" in row and got["ranks"]:
        tp = row["flags"].get("tensor_parallel_size", 1)
        ranks = [got["ranks"][i * tp] for i in range(len(row["created"]))]
        out["created_bytes"] = ([r["terms"]["weights"]["created_bytes"] for r in ranks], row["created"])
    out["fits"] = (got["verdict"]["fits"], "message" not in row)
    if "message" in row:
        ours = got["verdict"]["message"]
        out["message"] = (row["message"] if _same_text(ours, row["message"]) else ours, row["message"])
        return out
    for name, value in row["settings"].items():
        out[name] = (got["resolved"].get(name), value)
    kv = got["kv"] or {}
    out["kv.block_size"] = (kv.get("block_size"), row["settings"].get("block_size"))
    out["num_blocks"] = (kv.get("num_blocks"), row["blocks"])
    out["tokens"] = (kv.get("logged_tokens"), row["tokens"])
    out["concurrency"] = (round(kv.get("max_concurrency", 0), 2), round(row["concurrency"], 2))
    groups = [[g["layers"], g["block_size"], g["page_bytes"]] for g in kv.get("groups", [])]
    theirs = [g[:3] for g in row["groups"] for _ in range(g[3])]
    out["groups"] = (sorted(groups), sorted(theirs))
    return out


def _same_text(ours: str, theirs: str) -> bool:
    for cut in _CUT:
        ours = ours.replace(cut, "")
    return bool(ours) and (ours == theirs or theirs in ours or ours in theirs)
