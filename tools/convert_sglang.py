"""convert_sglang.py OUT ANSWERS...: answers of SGLang's own Python (settings and pools) into tests/truth, in our form.

An answer is one line of JSON: id, sglang (release), model, gpu {name, sm, total_mib}, flags, pre_gib, weights_gib and
what SGLang resolved, or `error` (while sizing pools) or `oracle_error` (before).
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

SETTINGS = {
    "mem_fraction_static": "mem_fraction_static",
    "chunked_prefill_size": "chunked_prefill_size",
    "cuda_graph_max_bs": "cuda_graph_max_bs",
    "page_size": "page_size",
    "context_len": "context_length",
    "prefill_graph": "prefill_graph",
    "disable_radix_cache": "disable_radix_cache",
}
DRAFTS = {"draft_tokens": "speculative_num_draft_tokens", "draft_layers": "draft_layers"}
POOLS = {
    "max_total_num_tokens": "tokens",
    "swa_tokens": "window_tokens",
    "max_running_requests": "requests",
    "max_mamba_cache_size": "state_slots",
    "mamba_bytes_per_req": "state_bytes",
}


def converted(answer: dict[str, Any]) -> dict[str, Any]:
    row = {key: answer[key] for key in ("id", "sglang", "gpu", "flags", "before", "weights")}
    row["model"] = answer["model"].replace("--", "/", 1)
    if "oracle_error" in answer:
        return row | {"refusal": answer["oracle_error"]}
    row["settings"] = {ours: answer[theirs] for theirs, ours in SETTINGS.items()}
    if answer.get("spec"):
        row["settings"] |= {ours: answer.get(theirs) or 0 for theirs, ours in DRAFTS.items()}
    row["settings"]["kernels"] = answer["kernels"]
    if "error" in answer:
        return row | {"error": answer["error"]}
    row["pools"] = {ours: answer[theirs] for theirs, ours in POOLS.items() if answer.get(theirs) is not None}
    return row


def main(out: Path, files: list[Path]) -> None:
    rows = [converted(json.loads(line)) for file in files for line in file.read_text().splitlines()]
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in sorted(rows, key=lambda r: str(r["id"])))
    out.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(rows)} answers, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
