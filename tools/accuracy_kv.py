"""accuracy_kv.py TRUTH [MODELS_DIR] [-v NAME...]: settings and KV cache against vLLM's own answers.

TRUTH is a folder with oracle.jsonl, or such a file.
Prints, per term: answers, exact share, worst. `-v` lists the misses (of the models whose name holds NAME).
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import Counter
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from oomph.engines.vllm.kv.cache import kv
from oomph.engines.vllm.kv.check import KvPlan
from oomph.engines.vllm.resolve.steps import Resolved, resolve
from oomph.errors import OomphError
from oomph.facts.dtypes import nbytes
from oomph.ir.deployment import Deployment, Engine
from oomph.ir.hardware import Device
from oomph.ir.model import Model, Tensor
from oomph.sources.build import build_model

_KINDS = {"sliding_window": "sliding", "chunked_local": "chunked", "sliding_window_mla": "sliding_mla"}
_DOCS = "https://docs.vllm.ai/en/latest/configuration/conserving_memory/"
_SETTINGS = (
    "max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill", "enable_prefix_caching", "async_scheduling",
    "disable_hybrid_kv_cache_manager", "quantization", "cudagraph_mode", "model_runner", "dtype", "kv_cache_dtype",
    "kv_cache_layout", "mamba_cache_mode", "mamba_block_size", "mamba_page_size_padded", "max_in_flight_batches",
)  # fmt: skip


@cache
def load(folder: Path) -> Model:
    config = json.loads((folder / "config.json").read_text())
    quant = folder / "hf_quant_config.json"
    hf_quant = json.loads(quant.read_text()) if quant.exists() else None
    tensors = None
    if (folder / "tensors.json.gz").exists():
        with gzip.open(folder / "tensors.json.gz") as file:
            tensors = tuple(Tensor(n, tuple(s), d, nbytes(d, prod(s))) for n, s, d in json.load(file))
    return build_model(folder.name, config, hf_quant_config=hf_quant, tensors=tensors)


def deployment(row: dict[str, Any]) -> Deployment:
    gpu = row["gpu"]
    sm = gpu["sm"]
    device = Device(gpu["name"], gpu["total"], (sm // 10, sm % 10), driver_name=gpu["name"])
    return Deployment(
        Engine("vllm", row["vllm"]), row["model"], row["flags"], (device,), usage=row.get("usage") or "serve"
    )


def groups_of(plan: KvPlan) -> list[list[Any]]:
    out: list[list[Any]] = []
    for g in plan.groups:
        row = [_KINDS.get(g.kind, g.kind), g.layers, g.block_size, g.page_bytes]
        if out and out[-1][:4] == row:
            out[-1][4] += 1
        else:
            out.append([*row, 1])
    return out


def answers(row: dict[str, Any], r: Resolved, plan: KvPlan | None) -> list[tuple[str, Any, Any]]:
    """(term, theirs, ours) for everything a row says."""
    out: list[tuple[str, Any, Any]] = []
    refusal = r.refusal or (plan.refusal if plan else None)
    error = row.get("error")
    if error:
        text = error["text"].replace("See  for", f"See {_DOCS} for")
        if text.endswith("git+"):
            text += "https://github.com/huggingface/transformers.git`"
        ours = (refusal.stage, refusal.type, refusal.message) if refusal else None
        kind = error["type"]
        if kind == "RuntimeError" and row["flags"].get("pipeline_parallel_size"):
            # the oracle wraps what a pipeline rank raises, and adds its traceback
            kind = refusal.type if refusal else kind
            text = text.removeprefix("pp rank 0: ValueError: ").split("\n")[0]
        out.append(("refusal", (error["stage"], kind, text), ours))
    else:
        out.append(("refusal", None, refusal and refusal.message))
    theirs = row.get("resolved")
    if not theirs:
        return out
    for name in _SETTINGS:
        if name in theirs or name in ("quantization",):
            ours = getattr(r, name)
            out.append((name, theirs.get(name), None if ours == "" else ours))
    out.append(("capture", (theirs["capture"]["n"], theirs["capture"]["max"]), _capture(r)))
    if "sizes" in theirs["capture"]:
        out.append(("capture_sizes", theirs["capture"]["sizes"], list(r.cudagraph_capture_sizes)))
    if "backends" in row:
        out.append(("backends", dict(row["backends"]), dict(r.attention)))
    if plan is None:
        return out
    ok = row["ok"]
    out.append(("max_model_len", theirs["max_model_len"], plan.max_model_len))
    out.append(("block_size", theirs["block_size"], plan.block_size if ok and plan.groups else r.block_size))
    if ok:
        if "scheduler_block_size" in theirs:
            out.append(("scheduler_block_size", theirs["scheduler_block_size"], plan.scheduler_block_size))
            out.append(("hash_block_size", theirs["hash_block_size"], plan.hash_block_size))
        out.append(("num_blocks", row["num_blocks"], plan.num_blocks))
        out.append(("tokens", row["tokens"], plan.logged_tokens))
        out.append(("concurrency", row.get("concurrency", 0.0), round(plan.max_concurrency, 6)))
        out.append(("blocks_per_request", row["blocks_per_request"], list(plan.blocks_per_request)))
    if row.get("groups"):
        told = [[{"tqfull": "full"}.get(g[0], g[0]), *g[1:]] for g in row["groups"]]
        out.append(("groups", told, groups_of(plan)))
        whole = plan.stage_bytes_per_block[0] if len(plan.stage_bytes_per_block) == 1 else plan.pool_all_bytes
        out.append(("pool_bytes_per_block", row["pool_bytes_per_block"], whole))
    if "stage_groups" in row:
        out.append(("stage_layers", [[g[1] for g in s for _ in range(g[4])] for s in row["stage_groups"]],
                    [[g.layers for g in s] for s in plan.stage_groups]))  # fmt: skip
    if "need_bytes" in row:
        out.append(("need_bytes", row["need_bytes"], plan.need_before_fit_bytes))
    return out


def _capture(r: Resolved) -> tuple[int, int]:
    sizes = r.cudagraph_capture_sizes
    return len(sizes), max(sizes, default=0)


def draft_of(row: dict[str, Any]) -> Path | None:
    """The folder of a draft model of its own, where the question names one."""
    speculative = row["flags"].get("speculative_config")
    folder = Path(speculative.get("model") or "") if isinstance(speculative, dict) else Path()
    return folder if (folder / "config.json").is_file() else None


def judge(row: dict[str, Any], model: Model) -> list[tuple[str, Any, Any]]:
    draft = draft_of(row)
    r = resolve(model, deployment(row), load(draft) if draft else None)
    plan = kv(r, row["kv_bytes"]) if r.refusal is None else None
    return answers(row, r, plan)


def folder_of(row: dict[str, Any], truth: Path, models: Path) -> Path:
    return (models if row["src"] == "zoo" else truth / "configs") / str(row["model"])


def main() -> None:
    args = sys.argv[1:]
    verbose = "-v" in args
    names = args[args.index("-v") + 1 :] if verbose else []
    paths = args[: args.index("-v")] if verbose else args
    source = Path(paths[0])
    truth = source if source.is_dir() else source.parent
    models = Path(paths[1]) if len(paths) > 1 else truth.parent / "models"
    total: Counter[tuple[str, str]] = Counter()
    exact: Counter[tuple[str, str]] = Counter()
    worst: dict[tuple[str, str], str] = {}
    with open(source / "oracle.jsonl" if source.is_dir() else source) as file:
        rows = [json.loads(line) for line in file]
    for row in rows:
        if names and not any(n in row["id"] for n in names):
            continue
        if not isinstance(row["kv_bytes"], int):
            row["kv_bytes"] = 1 << 40
        try:
            told = judge(row, load(folder_of(row, truth, models)))
        except FileNotFoundError:
            continue
        except OomphError as e:
            told = [("planned", True, f"{type(e).__name__}: {e}")]
        for term, theirs, ours in told:
            key = (row["vllm"], term)
            total[key] += 1
            if theirs == ours:
                exact[key] += 1
                continue
            worst.setdefault(key, f"{row['id']}: {str(theirs)[:90]} ours {str(ours)[:90]}")
            if verbose:
                print(
                    row["vllm"],
                    row["id"],
                    row["gpu"]["sm"],
                    row["flags"],
                    term,
                    "\n    theirs",
                    theirs,
                    "\n    ours  ",
                    ours,
                )
    for key in sorted(total):
        share = exact[key] / total[key]
        print(f"{key[0]:8} {key[1]:34} {total[key]:5} {share:8.2%}  {worst.get(key, '')}")


if __name__ == "__main__":
    main()
