"""accuracy_oracle.py TRUTH_DIR MODELS_DIR [NAME...]: whole plans through the public JSON against vLLM's own answers.

Each case goes the way of a user: a command line, a GPU, the KV bytes given; the plan's JSON is compared with what
vLLM's Python decided. MODELS_DIR holds model folders with tensor lists; stand-in checkpoints are made in a temporary
folder (headers only, no data).
"""

from __future__ import annotations

import gzip
import json
import struct
import sys
import tempfile
from collections import Counter, defaultdict
from math import prod
from pathlib import Path
from typing import Any

from oomph.errors import OomphError
from oomph.facts.dtypes import nbytes
from oomph.plan import plan
from oomph.report.plan_json import plan_json

KINDS = {"full": "full", "sliding": "sliding_window", "chunked": "chunked_local", "mla": "mla", "mamba": "mamba"}


def checkpoint(source: Path, into: Path) -> Path:
    """config files, and a sparse safetensors file with the real header where there is a tensor list."""
    if not (source / "tensors.json.gz").exists():
        return source
    if into.exists():
        return into
    into.mkdir(parents=True)
    for name in ("config.json", "hf_quant_config.json"):
        if (source / name).exists():
            (into / name).write_bytes((source / name).read_bytes())
    header: dict[str, Any] = {}
    at = 0
    with gzip.open(source / "tensors.json.gz") as file:
        for name, shape, dtype in json.load(file):
            size = nbytes(dtype, prod(shape))
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
            at += size
    text = json.dumps(header).encode()
    with open(into / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.truncate(8 + len(text) + at)
    return into


def words(model: Path, flags: dict[str, Any]) -> list[str]:
    if flags.get("usage") == "llm":
        given = {k: v for k, v in flags.items() if k != "usage"}
        return [f"LLM(model={str(model)!r}, " + ", ".join(f"{k}={v!r}" for k, v in given.items()) + ")"]
    out = ["vllm", "serve", str(model)]
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            out.append(flag)
        elif value is False:
            out.append("--no-" + flag[2:])
        else:
            out += [flag, json.dumps(value) if isinstance(value, dict) else str(value)]
    return out


def compare(row: dict[str, Any], got: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """term -> (ours, theirs) for every term the row has."""
    out: dict[str, tuple[Any, Any]] = {}
    weights = row.get("weights")
    if weights and not row.get("suspect") and got["ranks"]:
        tp = row["flags"].get("tensor_parallel_size", 1)
        stages = weights.get("stages") or [weights["bytes"]]
        ours = [got["ranks"][i * tp]["terms"]["weights"]["created_bytes"] for i in range(len(stages))]
        out["created_bytes"] = (ours, stages)
    error = row.get("error")
    if error:
        out["message"] = (got["verdict"]["message"], error["text"])
        return out
    resolved = row["resolved"]
    for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size", "kv_cache_dtype",
                 "quantization", "enable_prefix_caching", "cudagraph_mode", "model_runner", "dtype"):  # fmt: skip
        if name in resolved:
            out[name] = (got["resolved"].get(name), resolved[name])
    kv = got["kv"] or {}
    out["fits"] = (got["verdict"]["fits"], row["ok"])
    out["kv.block_size"] = (kv.get("block_size"), resolved.get("block_size"))
    out["num_blocks"] = (kv.get("num_blocks"), row["num_blocks"])
    out["tokens"] = (kv.get("logged_tokens"), row["tokens"])
    out["concurrency"] = (round(kv.get("max_concurrency", 0), 2), round(row["concurrency"], 2))
    groups = [[g["layers"], g["block_size"], g["page_bytes"]] for g in kv.get("groups", [])]
    theirs = [[g[1], g[2], g[3]] for g in row["groups"] for _ in range(g[4])]
    out["groups"] = (sorted(groups), sorted(theirs))
    return out


def main() -> None:
    truth, models, only = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    exact: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    misses: dict[tuple[str, str], list[str]] = defaultdict(list)
    with open(truth / "oracle.jsonl") as file:
        rows = [json.loads(line) for line in file]
    with tempfile.TemporaryDirectory() as scratch:
        for row in rows:
            if only and not any(o in row["model"] for o in only):
                continue
            source = (models if row["src"] == "zoo" else truth / "configs") / row["model"]
            flags = dict(row["flags"], **({"usage": row["usage"]} if row.get("usage") else {}))
            count = flags.get("tensor_parallel_size", 1) * flags.get("pipeline_parallel_size", 1)
            sm = row["gpu"]["sm"]
            gpu = {"name": row["gpu"]["name"], "count": count, "total_bytes": row["gpu"]["total"],
                   "compute_capability": f"{sm // 10}.{sm % 10}"}  # fmt: skip
            case = f"{row['vllm']} {row['id']}"
            try:
                folder = checkpoint(source, Path(scratch) / source.name)
                got = plan_json(plan(words(folder, flags), gpu=gpu, engine=f"vllm=={row['vllm']}",
                                     given={"available_kv": row["kv_bytes"]}))  # fmt: skip
            except OomphError as refused:
                total[(row["vllm"], "planned")] += 1
                misses[(row["vllm"], "planned")].append(f"{case}: {refused}")
                continue
            total[(row["vllm"], "planned")] += 1
            exact[(row["vllm"], "planned")] += 1
            for term, (ours, theirs) in compare(row, got).items():
                key = (row["vllm"], term)
                total[key] += 1
                if ours == theirs or (term == "message" and _same_text(str(ours), str(theirs))):
                    exact[key] += 1
                else:
                    misses[key].append(f"{case}: {str(ours)[:150]} against {str(theirs)[:150]}")
    for key in sorted(total):
        print(f"vLLM {key[0]} {key[1]:<24} {exact[key]:>5} of {total[key]:>5} ({exact[key] / total[key]:.1%})")
        for line in misses[key][: 40 if only else 5]:
            print("      ", line)


def _same_text(ours: str, theirs: str) -> bool:
    """The record has the documentation's address cut out of the text."""
    cut = "https://docs.vllm.ai/en/latest/configuration/conserving_memory/"
    return ours.replace(cut, "") == theirs or theirs in ours or ours in theirs


if __name__ == "__main__":
    main()
