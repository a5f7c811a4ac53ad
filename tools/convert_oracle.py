"""convert_oracle.py OUT_DIR MODELS_DIR ANSWERS.jsonl[:N]...: engine answers about whole plans -> our test format.

OUT_DIR/oracle-plans.jsonl.gz: one row per question; rows that differ in their KV bytes alone are kept once (the KV
truth has them all). OUT_DIR/oracle-models.jsonl.gz: the models that the catalogue lacks, packed as it packs. With :N
only every Nth row of 0.21.0 and 0.32.0 is taken, and all of the other releases. A row about which oomph is wrong is
printed and left out.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]

from build_catalog import entry  # noqa: E402

import plan_truth  # noqa: E402
from oomph import catalog  # noqa: E402
from oomph.errors import OomphError  # noqa: E402

SETTINGS = ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size", "kv_cache_dtype", "quantization",
            "enable_prefix_caching", "cudagraph_mode", "model_runner", "dtype")  # fmt: skip


def plan_row(row: dict[str, Any], model: str) -> dict[str, Any]:
    gpu = row["gpu"]
    # cases that were refused before their KV cache keep a word there: any size will do
    kv_bytes = row["kv_bytes"] if isinstance(row["kv_bytes"], int) else 1 << 40
    told: dict[str, Any] = {"id": row["id"].split("/", 1)[1] if "/" in row["id"] else row["id"], "model": model,
                            "vllm": row["vllm"], "gpu": [gpu["name"], gpu["sm"], gpu["total"]], "flags": row["flags"],
                            "kv_bytes": kv_bytes}  # fmt: skip
    if row.get("usage"):
        told["usage"] = row["usage"]
    weights = row.get("weights")
    if weights and not row.get("suspect"):
        told["created"] = weights.get("stages") or [weights["bytes"]]
    if row.get("error"):
        return told | {"message": row["error"]["text"]}
    told["settings"] = {name: row["resolved"][name] for name in SETTINGS if name in row["resolved"]}
    told["blocks"], told["tokens"] = row["num_blocks"], row["tokens"]
    told["concurrency"] = round(row["concurrency"], 6)
    told["groups"] = [g[1:] for g in row["groups"]]
    return told


def folder_of(row: dict[str, Any], answers: Path, models: Path) -> Path:
    return (models if row["src"] == "zoo" else answers.parent / row["src"]) / Path(row["model"]).name


class Converter:
    def __init__(self, models: Path) -> None:
        self.models = models
        self.own: dict[str, dict[str, Any] | None] = {}
        self.rows: dict[str, dict[str, Any]] = {}

    def model(self, row: dict[str, Any], answers: Path) -> str:
        """The catalogue's id, or the name of a packed model; "" where there is none."""
        folder = folder_of(row, answers, self.models)
        name = folder.name.replace("--", "/")
        if row["src"] == "zoo":
            if name not in catalog.ids():
                return ""
            if not self._other_facts(name, folder):
                return name
        if name not in self.own:
            try:
                _, line, _ = entry(folder)
                self.own[name] = {"id": name, **msgspec.to_builtins(line)}
                plan_truth._own()[name] = self.own[name] or {}
            except (OomphError, OSError) as refused:
                print(f"{name}: left out: {refused}")
                self.own[name] = None
        return name if self.own[name] else ""

    def _other_facts(self, name: str, folder: Path) -> bool:
        """The engine was asked about a config.json that is not the published one: its answers need those facts."""
        known = catalog.find(name)
        rope = (self._rope(known.config), self._rope(json.loads((folder / "config.json").read_text()))) if known else ()
        return len(set(rope)) > 1

    @staticmethod
    def _rope(config: dict[str, Any]) -> str:
        text = config.get("text_config") or config
        return json.dumps(text.get("rope_scaling"), sort_keys=True)

    def add(self, row: dict[str, Any], answers: Path) -> None:
        key = json.dumps([row["model"], row["vllm"], row["gpu"], row["flags"], row.get("usage"), row["ok"]])
        if key in self.rows or "target_model_config" in key:
            return
        name = self.model(row, answers)
        if not name:
            return
        told = plan_row(row, name)
        try:
            got = plan_truth.planned(told, name, plan_truth.model(name))
        except OomphError as refused:
            print(f"{row['vllm']} {row['id']}: {refused}")
            return
        wrong = [f"{t}: {a} against {b}"[:200] for t, (a, b) in plan_truth.figures(told, got).items() if a != b]
        if wrong:
            print(f"{row['vllm']} {row['id']}: {wrong[0]}")
        else:
            self.rows[key] = told


def main() -> None:
    out, converter = Path(sys.argv[1]), Converter(Path(sys.argv[2]))
    for word in sys.argv[3:]:
        name, _, every = word.partition(":")
        answers = Path(name)
        taken = [json.loads(line) for line in answers.read_text().splitlines()]
        main_rows = [r for r in taken if r["vllm"] in ("0.21.0", "0.32.0")]
        for row in main_rows[:: int(every or 1)] + [r for r in taken if r["vllm"] not in ("0.21.0", "0.32.0")]:
            converter.add(row, answers)
    used = {row["model"] for row in converter.rows.values()}
    own = [m for m in converter.own.values() if m is not None and m["id"] in used]
    for stem, rows in (("oracle-models", own), ("oracle-plans", list(converter.rows.values()))):
        text = "".join(json.dumps(r, separators=(",", ":")) + "\n" for r in rows)
        # no time stamp inside, so that the same truth gives the same file
        raw = gzip.compress(text.encode(), 9, mtime=0)
        (out / f"{stem}.jsonl.gz").write_bytes(raw)
        print(f"{stem}: {len(rows)} rows, {len(raw):,} bytes")


if __name__ == "__main__":
    main()
