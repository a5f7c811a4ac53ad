"""convert_h200.py OUT_DIR TRUTH_DIR [RESULTS_DIR CONFIGS_DIR]: measured start-ups -> our test format.

Writes OUT_DIR/h200.jsonl (one start-up a line: what was asked and the bytes of every stage) and
OUT_DIR/h200-models.json (of each model's configuration only the facts that change what is built).
"""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

from oomph.errors import OomphError
from oomph.ir.model import Model
from oomph.sources.build import build_model

_STAGES = ("after_profile", "after_kv_alloc", "before_warmup", "after_warmup", "ready", "served")
_SNAPSHOT = {
    "free": "free_bytes",
    "alloc": "allocated_bytes",
    "alloc_peak": "allocated_peak",
    "reserved": "reserved_bytes",
}


def facts(name: str, config: dict[str, Any]) -> dict[str, Any]:
    """The configuration without every key whose absence changes nothing."""
    want = _built(name, config)
    config = deepcopy(config)
    for owner in (config, *(v for v in config.values() if isinstance(v, dict))):
        for key in list(owner):
            value = owner.pop(key)
            if _built(name, config) != want:
                owner[key] = value
    return config


def _built(name: str, config: dict[str, Any]) -> Model | None:
    try:
        return build_model(name, config)
    except OomphError:
        return None


def snapshot(stage: dict[str, Any] | None) -> dict[str, int] | None:
    return {ours: stage[theirs] for theirs, ours in _SNAPSHOT.items()} if stage else None


def kept(rows: Path) -> list[dict[str, Any]]:
    out = []
    for line in rows.read_text().splitlines():
        r = json.loads(line)
        kv, resolved = r["kv"] or {}, r["resolved"] or {}
        out.append(
            {
                "id": r["id"], "model": r["model"], "flags": r["flags"], "compile_cache": r["compile_cache"],
                "held_by_others": round((r["ballast_gib"] or 0) * 2**30), "total_bytes": r["total"],
                "free_bytes": r["free_at_snapshot"], "requested_bytes": r["requested"], "weights_bytes": r["weights"],
                "activation_peak_bytes": r["activation_peak"], "non_torch_bytes": r["non_torch"],
                "cudagraph_bytes": r["cudagraph_estimate"], "available_kv_bytes": r["available_kv"],
                "num_blocks": kv.get("num_blocks"), "block_size": resolved.get("block_size"),
                "cudagraph_capture_sizes": len(resolved.get("capture") or ()),
                "stages": {name: snapshot(r[name]) for name in _STAGES if r.get(name)},
                "error": (r["error"] or "").split(". See doc")[0][:400] or None,
            }
        )  # fmt: skip
    return out


def _cache(case: dict[str, Any]) -> str:
    if case["flags"].get("enforce_eager"):
        return "none"
    return "warm" if "warm" in case["id"] else "cold"


def later(results: Path) -> list[dict[str, Any]]:
    out = []
    for path in sorted(results.glob("*.json")):
        r = json.loads(path.read_text())
        stages = r["stages"]
        load, profile = stages.get("load_model", {}), stages.get("determine_available_memory", {})
        if "model_memory_usage" not in load:
            continue
        cfg, case = r.get("cfg") or {}, r["case"]
        after = {
            "before_load": load["before"], "after_load": load["after"], "after_profile": profile.get("after"),
            "after_kv_alloc": stages.get("initialize_from_config", {}).get("after"),
            "after_warmup": stages.get("compile_or_warm_up_model", {}).get("after"),
            "ready": r.get("ready"), "served": r.get("served"),
        }  # fmt: skip
        out.append(
            {
                "id": case["id"], "model": Path(case["model"]).name, "flags": case["flags"],
                "compile_cache": _cache(case),
                "held_by_others": 0, "total_bytes": stages["init_device"]["init_total"],
                "free_bytes": stages["init_device"]["init_free"], "requested_bytes": stages["init_device"]["requested"],
                "weights_bytes": load["model_memory_usage"], "activation_peak_bytes": profile.get("peak_activation"),
                "non_torch_bytes": profile.get("non_torch"), "cudagraph_bytes": profile.get("cudagraph_estimate"),
                "available_kv_bytes": profile.get("available_kv"), "num_blocks": (r.get("kv") or {}).get("num_blocks"),
                "block_size": cfg.get("block_size"), "cudagraph_capture_sizes": len(cfg.get("capture") or ()),
                "stages": {name: snapshot(s) for name, s in after.items() if s},
                "error": (r.get("error") or "")[:200] or None,
            }
        )  # fmt: skip
    return out


def main() -> None:
    out, truth = Path(sys.argv[1]), Path(sys.argv[2])
    rows = kept(truth / "h200-vllm-0.21.0.jsonl")
    folders = {r["model"]: truth / "configs" / r["model"] for r in rows}
    if len(sys.argv) > 3:
        more = later(Path(sys.argv[3]))
        folders |= {r["model"]: Path(sys.argv[4]) / r["model"] for r in more}
        rows += more
    models = {
        name: facts(name, json.loads((folder / "config.json").read_text())) for name, folder in sorted(folders.items())
    }
    (out / "h200.jsonl").write_text("".join(json.dumps(r, separators=(",", ":")) + "\n" for r in rows))
    (out / "h200-models.json").write_text(
        "{\n"
        + ",\n".join(f"{json.dumps(n)}: {json.dumps(c, separators=(',', ':'))}" for n, c in models.items())
        + "\n}\n"
    )


if __name__ == "__main__":
    main()
