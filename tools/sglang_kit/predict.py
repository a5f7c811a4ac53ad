"""predict.py CASES.jsonl MODELS RELEASE OUT.jsonl: what oomph plans for every case of serve.py, before it is started.

Prints the SHA-256 of OUT: a later reader sees that the figures were not changed after the measurement.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import oomph


def predicted(case: dict[str, Any], models: Path, release: str) -> dict[str, Any]:
    words = [word.replace("MODELS/", f"{models}/") for word in case["args"]]
    environment = [f"{name}={value}" for name, value in case.get("env", {}).items()]
    command = [
        *environment,
        "python",
        "-m",
        "sglang.launch_server",
        "--model-path",
        str(models / case["model"]),
        *words,
    ]
    plan = oomph.plan(command, gpu="H200", engine=f"sglang=={release}").to_dict()
    verdict, kv = plan["verdict"], plan["kv"] or {}
    rank = plan["ranks"][0] if plan["ranks"] else {"terms": {}, "stages": []}
    terms = {name: [term["low"], term["bytes"], term["high"]] for name, term in rank["terms"].items()}
    return {
        "id": case["id"],
        "model": case["model"],
        "sglang": release,
        "args": case["args"],
        "picked_by_fit": bool(case.get("pick")),
        "predicted": {
            "outcome": verdict["outcome"],
            "stage": verdict["stage"],
            "message": verdict["message"],
            "margin": verdict["margin_bytes"],
            "tokens": kv.get("logged_tokens"),
            "groups": [[group["kind"], group["layers"]] for group in kv.get("groups", ())],
            "max_running": plan["resolved"].get("max_running_requests"),
            "terms": terms,
            "stages": {stage["name"]: [stage["resident_bytes"], stage["peak_bytes"]] for stage in rank["stages"]},
        },
    }


def main() -> None:
    cases, models, release, out = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    rows = [predicted(json.loads(line), models, release) for line in cases.read_text().splitlines() if line.strip()]
    out.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    print(len(rows), "predictions, sha256", hashlib.sha256(out.read_bytes()).hexdigest())


if __name__ == "__main__":
    main()
