"""convert_newest.py OUT_DIR CONFIGS_DIR RESULTS_DIR [ROWS.jsonl]: starts of the newest release -> our format.

Writes OUT_DIR/h200-newest.jsonl (one start a line: what was asked, the bytes of every stage, of every load and of
sleeping) and OUT_DIR/h200-newest-models.json (of each configuration the facts that change what is built). RESULTS_DIR
has one JSON file a start; ROWS.jsonl has starts that were measured before, already as one line each. Starts and models
that OUT_DIR has already stay as they are.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from convert_h200 import facts

# Caches in folders of their own make every start a first one.
_CACHES = ("VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR")


def in_use(snapshot: dict[str, int]) -> int:
    return snapshot["total"] - snapshot["free"]


def converted(record: dict[str, Any]) -> dict[str, Any]:
    stages, case = record["stages"], record["case"]
    profile, profiled = record["profile"], stages["determine_available_memory"]
    loaded, drafter = stages["load_model"], case["flags"].get("speculative_config", {})
    if "model" in drafter:
        drafter["model"] = Path(drafter["model"]).name
    row = {
        "id": case["id"], "model": Path(case["model"]).name, "vllm": record["vllm"], "flags": case["flags"],
        "environment": {name: value for name, value in case["env"].items() if name not in _CACHES},
        "kept": case["kept"], "picked_by_fit": bool(case.get("pick")), "runner": _runner(record),
        "held_by_others": _held(record, case), "total_bytes": loaded["after"]["total"],
        "weights_bytes": loaded["model_memory_usage"], "load_reserved_bytes": loaded["after"]["reserved_peak"],
        "activation_peak_bytes": profile["torch_peak_increase"], "consumed_bytes": profile["total_consumed"],
        "headroom_bytes": profile["transient_peak_headroom"], "cudagraph_bytes": profiled["cudagraph_estimate"],
        "available_kv_bytes": profiled["available_kv"], "num_blocks": record["kv"]["num_blocks"],
        "kv_alloc_bytes": in_use(stages["initialize_from_config"]["after"]),
        "captured_bytes": _captured(stages), "captures": [_summary(capture) for capture in record.get("captures", ())],
        "ready_bytes": in_use(record["ready"]), "loads": [_load(load) for load in record.get("loads", ())],
        "sleep": [_sleep(x) for x in record.get("sleep", ())], "seconds": record["wall_s"],
    }  # fmt: skip
    return row | ({"untuned": True} if case.get("untuned") else {})


def _runner(record: dict[str, Any]) -> str:
    return "v2" if record.get("v2_model_runner") else "v1"


def _held(record: dict[str, Any], case: dict[str, Any]) -> int:
    """What a neighbour held: free memory at the first snapshot is less by it."""
    return (
        0
        if case.get("leave_gib") is None
        else record["stages"]["load_model"]["before"]["total"] - round(case["leave_gib"] * 2**30)
    )


def _captured(stages: dict[str, Any]) -> int:
    return next((x["result"] for x in stages.get("runner.capture_model", ()) if not x.get("profile_only")), 0)


def _summary(capture: dict[str, Any]) -> dict[str, Any]:
    """Graphs of a mode, and by how much free memory fell in the passes that warm them up and in the captures."""
    out: dict[str, Any] = {"profiling": capture["profiling"], "manager": capture["manager"]}
    for mode, *_ in capture["rows"]:
        rows = [row for row in capture["rows"] if row[0] == mode]
        warm, real = (
            [row for row in rows if (row[4] == "NONE" and bool(row[3])) == is_warm] for is_warm in (True, False)
        )
        out[mode.lower()] = {
            "graphs": len(real), "warm_up_bytes": sum(row[5] for row in warm), "bytes": sum(row[5] for row in real),
            "reserved_bytes": sum(row[6] for row in rows),
        }  # fmt: skip
    return out


def _load(load: dict[str, Any]) -> dict[str, Any]:
    row = {
        "name": load["name"], "requests": load["n"], "tokens": load["len"], "in_use_bytes": in_use(load["after"]),
        "peak_bytes": load["after"]["alloc_peak"] - load["before"]["alloc"], "kv_usage": load.get("usage") or 0.0,
    }  # fmt: skip
    return (
        row
        | ({"error": load["error"][:200]} if load.get("error") else {})
        | ({"stopped": True} if load.get("stopped") else {})
    )


def _sleep(x: dict[str, Any]) -> dict[str, Any]:
    def host(name: str) -> int:
        return int(x[name]["host"].get("VmRSS", 0))

    awake = x.get("awake")
    return {
        "level": x["level"], "in_use_before": in_use(x["before"]), "in_use_asleep": in_use(x["asleep"]),
        "in_use_awake": in_use(awake) if awake else 0, "least_free_waking": x.get("least_free") or 0,
        "rss_before": host("before"), "rss_asleep": host("asleep"),
        "pinned_asleep": int(x["asleep"]["host"].get("pinned_allocated") or 0),
        "pinned_before": int(x["before"]["host"].get("pinned_allocated") or 0),
        "tags": (x.get("cumem_asleep") or {}).get("tags", {}),
    }  # fmt: skip


def earlier(row: dict[str, Any]) -> dict[str, Any]:
    """A start that was measured before: no captures one by one, a light load."""
    profile, total = row["profile"], row["total"]
    loads = [
        {"name": "fill" if row["requests"] > 4 else "light", "requests": row["requests"], "tokens": row["prompt_len"],
         "in_use_bytes": total - row["served_free"], "peak_bytes": 0, "kv_usage": 0.0}
    ]  # fmt: skip
    return {
        "id": row["id"], "model": row["model"], "vllm": row["vllm"], "flags": row["flags"], "environment": {},
        "kept": False, "picked_by_fit": row["id"].startswith("p_"), "runner": "v2" if row["v2"] else "v1",
        "held_by_others": 0, "total_bytes": total, "weights_bytes": row["weights"],
        "load_reserved_bytes": row.get("load_reserved_peak", 0),
        "activation_peak_bytes": profile["torch_peak_increase"], "consumed_bytes": profile["total_consumed"],
        "headroom_bytes": profile["transient_peak_headroom"], "cudagraph_bytes": row["cudagraph_estimate"],
        "available_kv_bytes": row["available_kv"], "num_blocks": row["num_blocks"], "kv_alloc_bytes": 0,
        "captured_bytes": 0, "captures": [], "ready_bytes": total - row["ready_free"], "loads": loads, "sleep": [],
        "seconds": 0.0,
    }  # fmt: skip


def main(out: Path, configs: Path, results: Path, rows_before: Path | None = None) -> None:
    before = rows_before.read_text().splitlines() if rows_before else []
    kept, kept_models = out / "h200-newest.jsonl", out / "h200-newest-models.json"
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    rows += [earlier(json.loads(line)) for line in before]
    for path in sorted(results.rglob("*.json")):
        record = json.loads(path.read_text())
        if record.get("ready") and record.get("profile"):
            rows.append(converted(record))
    known = json.loads(kept_models.read_text()) if kept_models.exists() else {}
    names = {row["model"] for row in rows}
    names |= {
        row["flags"]["speculative_config"]["model"]
        for row in rows
        if "model" in row["flags"].get("speculative_config", {})
    }
    models = {name: known.get(name) or _config(configs, name) for name in sorted(names)}
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    kept.write_text(text)
    lines = ",\n".join(f'"{name}": {json.dumps(config, separators=(",", ":"))}' for name, config in models.items())
    kept_models.write_text("{\n" + lines + "\n}\n")


def _config(folder: Path, name: str) -> dict[str, Any]:
    config = json.loads((folder / name / "config.json").read_text())
    beside = folder / name / "hf_quant_config.json"
    known = facts(name, config)
    if beside.exists():
        known["hf_quant_config"] = json.loads(beside.read_text())
    return known


if __name__ == "__main__":
    main(*(Path(path) for path in sys.argv[1:]))
