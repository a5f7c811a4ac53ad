"""convert_served.py OUT_DIR CONFIGS_DIR RESULTS.jsonl...: start-ups that were then loaded with requests -> our format.

Writes OUT_DIR/h200-served.jsonl (one start-up a line: what was asked, the bytes of every stage, memory in use after
each load and the allocator's peak inside it) and OUT_DIR/h200-served-models.json (of each configuration only the facts
that change what is built).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from convert_h200 import facts

# The peak was reset between the forward pass and the sampler while these were profiled: their activation is not known.
_RESET = frozenset({"l8_v1_eager", "nemo3_14_v1_eager"})


def in_use(snapshot: dict[str, int]) -> int:
    return snapshot["total"] - snapshot["free"]


def converted(record: dict[str, Any]) -> dict[str, Any]:
    stages, case = record["stages"], record["case"]
    profiled = stages["determine_available_memory"]
    loads = [
        {
            "name": x["name"], "requests": x["n"], "tokens": x["len"], "in_use_bytes": in_use(x["after"]),
            "peak_bytes": x["after"]["alloc_peak"] - x["before"]["alloc"],
        }
        for x in record["loads"]
        if not x.get("error")
    ]  # fmt: skip
    speculative = case["flags"].get("speculative_config")
    if isinstance(speculative, dict) and "model" in speculative:
        speculative["model"] = Path(speculative["model"]).name
    return {
        "id": record["id"], "model": Path(case["model"]).name, "vllm": record["vllm"], "flags": case["flags"],
        "environment": case["env"], "picked_by_fit": bool(case.get("pick")),
        "compile_cache": "warm" if record["id"].startswith("up_") else "cold",
        "runner": "v2" if stages["load_model"].get("v2") else "v1",
        "total_bytes": record["ready"]["total"], "weights_bytes": stages["load_model"]["model_memory_usage"],
        "activation_peak_bytes": None if record["id"] in _RESET else profiled["peak_activation"],
        "cudagraph_bytes": profiled["cudagraph_estimate"],
        "captured_bytes": stages.get("capture_model", {}).get("result", 0),
        "available_kv_bytes": profiled["available_kv"], "num_blocks": record["kv"]["num_blocks"],
        "kv_alloc_bytes": in_use(stages["initialize_from_config"]["after"]), "ready_bytes": in_use(record["ready"]),
        "loads": loads, "seconds": record["wall_s"],
    }  # fmt: skip


def main(out: Path, configs: Path, results: list[Path]) -> None:
    records = [json.loads(line) for path in results for line in path.read_text().splitlines()]
    rows = [converted(record) for record in records if record.get("ok")]
    names = {row["model"] for row in rows}
    names |= {str(row["flags"]["speculative_config"]["model"]) for row in rows if "speculative_config" in row["flags"]}
    models = {name: facts(name, json.loads((configs / name / "config.json").read_text())) for name in sorted(names)}
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    (out / "h200-served.jsonl").write_text(text)
    lines = ",\n".join(f'"{name}": {json.dumps(config, separators=(",", ":"))}' for name, config in models.items())
    (out / "h200-served-models.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [Path(path) for path in sys.argv[3:]])
