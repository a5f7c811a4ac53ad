"""convert_kv.py OUT_DIR[/STEM] MODELS_DIR ANSWERS.jsonl...: engine answers about settings and KV caches -> test format.

Writes OUT_DIR/STEM-models.jsonl.gz (what the settings and caches read of a model, nothing else) and
OUT_DIR/STEM-answers.jsonl.gz (one row per question); STEM is `kv` unless given. Models get the names km001, ...; rows
k0001, ..., by the stem's first letter. A row about which oomph is wrong is printed and left out.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from oomph.engines.vllm.kv.cache import kv
from oomph.engines.vllm.resolve.steps import resolve
from oomph.engines.vllm.traits import traits_of
from oomph.errors import OomphError
from oomph.ir.model import Attention, Experts, Linear, Model

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "tests" / "engines" / "vllm")]
import kv_truth  # noqa: E402
import test_kv_truth  # noqa: E402
from accuracy_kv import draft_of, folder_of, load  # noqa: E402

_SETTINGS = {
    "max_num_seqs": "seqs", "max_num_batched_tokens": "tokens", "enable_chunked_prefill": "chunked",
    "enable_prefix_caching": "prefix", "async_scheduling": "async", "disable_hybrid_kv_cache_manager": "hybrid_off",
    "quantization": "quantization", "cudagraph_mode": "graphs", "model_runner": "runner", "dtype": "dtype",
    "kv_cache_dtype": "kv_dtype", "kv_cache_layout": "layout", "mamba_cache_mode": "mamba_mode",
    "mamba_block_size": "mamba_block", "mamba_page_size_padded": "mamba_page", "max_in_flight_batches": "in_flight",
    "max_model_len": "length", "block_size": "block", "scheduler_block_size": "scheduler_block",
    "hash_block_size": "hash_block",
}  # fmt: skip
_KINDS = {
    "sliding": "sliding_window", "chunked": "chunked_local", "sliding_mla": "sliding_window_mla", "tqfull": "full",
}  # fmt: skip


def model_row(name: str, model: Model) -> dict[str, Any]:
    traits = traits_of(model)
    mixers = [["a" if isinstance(m, Attention) else "s", _plain(m)] for m in traits.mixers]
    experts = next((m for layer in model.layers for m in layer.block.modules if isinstance(m, Experts)), None)
    modules = [*traits.blocked] + ([experts] if experts is not None and experts not in traits.blocked else [])
    row = {
        "id": name,
        "architecture": model.architecture,
        "model_type": model.model_type,
        "dtype": model.dtype,
        "max_position": model.max_position,
        "heads": model.num_heads,
        "kv_heads": model.num_kv_heads,
        "params": dict(model.params),
        "prefixes": [model.layers[0].prefix.rsplit(".", 1)[0]] if model.layers else [],
        "mixers": mixers,
        "layers": [[list(k), len(list(g))] for k, g in groupby(traits.rows)],
        "drafts": [[list(k), len(list(g))] for k, g in groupby(traits.draft_rows)],
        "modules": [["e" if isinstance(m, Experts) else "l", _module(m)] for m in modules],
        "modalities": {m.name: m.max_tokens for m in model.modalities},
        "towers": sorted({t.modality for t in model.towers}),
        "pooling": model.pooling,
    }
    if model.quantization is not None:
        q = model.quantization
        scheme = q.scheme
        row["quantization"] = {
            "method": q.method,
            "kv_cache": q.kv_cache,
            "desc_act": bool(scheme and scheme.desc_act),
            "group_size": scheme.group_size if scheme else 0,
        }
    return {k: v for k, v in row.items() if v not in ({}, [], "", False)}


def _plain(m: Any) -> dict[str, Any]:
    told = msgspec.to_builtins(m)
    told.pop("rope", None)
    return {
        k: v for k, v in told.items() if (k == "shares_cache_of" and v is not None) or v not in (None, 0, "", False)
    }


def _module(m: Linear | Experts) -> dict[str, Any]:
    told = msgspec.to_builtins(m)
    keep = (
        "name",
        "parts",
        "in_features",
        "shard",
        "count",
        "hidden",
        "intermediate",
        "top_k",
        "role",
        "dtype",
        "scheme",
    )
    return {k: v for k, v in told.items() if k in keep}


def answer_row(name: str, model: str, draft: str, row: dict[str, Any]) -> dict[str, Any]:
    gpu = row["gpu"]
    told: dict[str, Any] = {
        "id": name,
        "model": model,
        "vllm": row["vllm"],
        "gpu": [gpu["name"], gpu["sm"], gpu["total"]],
    }
    flags = dict(row["flags"])
    speculative = flags.get("speculative_config")
    if isinstance(speculative, dict):
        flags["speculative_config"] = {
            k: speculative[k] for k in ("method", "num_speculative_tokens") if k in speculative
        }
    if draft:
        flags["speculative_config"]["model"] = told["draft"] = draft
    told["flags"] = flags
    told["kv_bytes"] = row["kv_bytes"]
    if row.get("usage"):
        told["usage"] = row["usage"]
    error = row.get("error")
    if error:
        told["refusal"] = [error["stage"], error["type"], error["text"]]
    resolved = row.get("resolved") or {}
    settings = {ours: resolved[theirs] for theirs, ours in _SETTINGS.items() if resolved.get(theirs) is not None}
    if "capture" in resolved:
        settings["captures"] = [resolved["capture"]["n"], resolved["capture"]["max"]]
    told["settings"] = settings
    if "backends" in row:
        told["backends"] = row["backends"]
    if "groups" in row:
        told["groups"] = [[_KINDS.get(g[0], g[0]), *g[1:]] for g in row["groups"]]
    for theirs, ours in (("num_blocks", "blocks"), ("tokens", "logged_tokens"), ("concurrency", "concurrency"),
                         ("need_bytes", "need"), ("pool_bytes_per_block", "block_bytes"),
                         ("blocks_per_request", "request_blocks")):  # fmt: skip
        if row.get(theirs) is not None:
            told[ours] = row[theirs]
    return told


def rows_of(paths: list[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in paths:
        with open(path) as file:
            for line in file:
                row = json.loads(line)
                if isinstance(row.get("kv_bytes"), int):
                    yield path.parent, row


def wrong(told: dict[str, Any], made: dict[str, Model]) -> list[str]:
    """By the test's own comparison, with the models as the test will read them."""
    r = resolve(made[told["model"]], kv_truth.deployment(told), made.get(told.get("draft", "")))
    misses: list[str] = test_kv_truth._misses(told, r, kv(r, told["kv_bytes"]) if r.refusal is None else None)
    return misses


def main() -> None:
    out, models = Path(sys.argv[1]), Path(sys.argv[2])
    out, stem = (out, "kv") if out.is_dir() else (out.parent, out.name)
    made: dict[str, Model] = {}
    names: dict[Path, str] = {}
    known: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = []

    def named(folder: Path) -> str:
        if folder not in names:
            model = load(folder)
            names[folder] = "" if model.opaque else f"{stem[0]}m{len(known) + 1:03}"
            if names[folder]:
                known.append(model_row(names[folder], model))
                made[names[folder]] = kv_truth.make(known[-1])
        return names[folder]

    for truth, row in rows_of([Path(p) for p in sys.argv[3:]]):
        drafted = draft_of(row)
        try:
            model, draft = named(folder_of(row, truth, models)), named(drafted) if drafted else ""
        except (OomphError, FileNotFoundError):
            continue
        if not model:
            continue
        told.append(answer_row(f"{stem[0]}{len(told) + 1:04}", model, draft, row))
        if misses := wrong(told[-1], made):
            print(row["id"], misses[0][:200])
            told.pop()
    for name, rows in ((f"{stem}-models", known), (f"{stem}-answers", told)):
        text = "".join(json.dumps(r, separators=(",", ":")) + "\n" for r in rows)
        # no time stamp inside, so that the same truth gives the same file
        (out / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(len(known), "models,", len(told), "answers")


if __name__ == "__main__":
    main()
