"""accuracy_oracle.py TRUTH MODELS_DIR [--all] [NAME...]: whole plans by the public JSON against vLLM's own answers.

Each case goes the way of a user: a command line, a GPU, the KV bytes given; the plan's JSON is compared with what
vLLM's Python decided. MODELS_DIR holds model folders with tensor lists; stand-in checkpoints are made in a temporary
folder (headers only, no data). TRUTH is a file of answers, or a folder with oracle.jsonl; configs/ and extra/ beside it
hold the models of its rows of those sources. --all lists every miss by model and term.
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


def judge(row: dict[str, Any], folder: Path) -> dict[str, tuple[Any, Any]]:
    """term -> (ours, theirs), the plan made the way of a user."""
    flags = dict(row["flags"], **({"usage": row["usage"]} if row.get("usage") else {}))
    count = flags.get("tensor_parallel_size", 1) * flags.get("pipeline_parallel_size", 1)
    sm = row["gpu"]["sm"]
    gpu = {"name": row["gpu"]["name"], "count": count, "total_bytes": row["gpu"]["total"],
           "compute_capability": f"{sm // 10}.{sm % 10}"}  # fmt: skip
    # cases that were refused before their KV cache keep a word there: any size will do
    kv_bytes = row["kv_bytes"] if isinstance(row["kv_bytes"], int) else 1 << 40
    try:
        plan_ = plan(words(folder, flags), gpu=gpu, engine=f"vllm=={row['vllm']}", given={"available_kv": kv_bytes})
        return {"planned": ("", ""), **compare(row, plan_json(plan_))}
    except OomphError as refused:
        return {"planned": (str(refused), "")}


def main() -> None:
    words_ = [a for a in sys.argv[1:] if a != "--all"]
    everything, truth, models, only = "--all" in sys.argv, Path(words_[0]), Path(words_[1]), words_[2:]
    file = truth if truth.is_file() else truth / "oracle.jsonl"
    folders = {"zoo": models, "configs": file.parent / "configs", "extra": file.parent / "extra"}
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    # one model after the other: each is read once
    rows = sorted((r for r in rows if not only or any(o in r["model"] for o in only)), key=lambda r: str(r["model"]))
    exact: Counter[tuple[str, str]] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    misses: dict[tuple[str, str], list[str]] = defaultdict(list)
    by_model: dict[tuple[str, str], list[str]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        for row in rows:
            folder = checkpoint(folders[row["src"]] / row["model"], Path(scratch) / row["src"] / row["model"])
            for term, (ours, theirs) in judge(row, folder).items():
                key = (row["vllm"], term)
                total[key] += 1
                if same(term, ours, theirs):
                    exact[key] += 1
                else:
                    told = f"{row['vllm']} {row['id']}: {str(ours)[:200]} against {str(theirs)[:200]}"
                    misses[key].append(told)
                    by_model[(row["model"], term)].append(told)
    for key in sorted(total):
        print(f"vLLM {key[0]} {key[1]:<24} {exact[key]:>5} of {total[key]:>5} ({exact[key] / total[key]:.1%})")
        for line in misses[key][: 0 if everything else 5]:
            print("      ", line)
    for (model, term), lines in sorted(by_model.items()) if everything else ():
        print(f"{model}: {term}, {len(lines)}")
        for line in lines:
            print("      ", line)


def same(term: str, ours: Any, theirs: Any) -> bool:
    return bool(ours == theirs) or (term == "message" and _same_text(str(ours), str(theirs)))


def _same_text(ours: str, theirs: str) -> bool:
    """The record has the documentation's address cut out of the text."""
    cut = "https://docs.vllm.ai/en/latest/configuration/conserving_memory/"
    return ours.replace(cut, "") == theirs or theirs in ours or ours in theirs


if __name__ == "__main__":
    main()
