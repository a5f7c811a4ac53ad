"""Every answer of vLLM's own code, from 0.11 to 0.32: settings, backends, groups, blocks, printed figures, refusals."""

from __future__ import annotations

from typing import Any

import pytest
from kv_truth import DOCS, models, planned, rows

from oomph.engines.vllm.kv.check import KvPlan
from oomph.engines.vllm.resolve.steps import Resolved
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.lora import ASSERTS_NO_LORA

VERSIONS = sorted({row["vllm"] for row in rows()}, key=lambda v: [int(n) for n in v.split(".")])
SETTINGS = {
    "seqs": "max_num_seqs", "tokens": "max_num_batched_tokens", "chunked": "enable_chunked_prefill",
    "prefix": "enable_prefix_caching", "async": "async_scheduling", "hybrid_off": "disable_hybrid_kv_cache_manager",
    "quantization": "quantization", "graphs": "cudagraph_mode", "runner": "model_runner", "dtype": "dtype",
    "kv_dtype": "kv_cache_dtype", "layout": "kv_cache_layout", "mamba_mode": "mamba_cache_mode",
    "mamba_block": "mamba_block_size", "mamba_page": "mamba_page_size_padded", "in_flight": "max_in_flight_batches",
}  # fmt: skip


def _refusal(row: dict[str, Any]) -> tuple[str, str, str]:
    stage, kind, text = row["refusal"]
    text = text.replace("See  for", f"See {DOCS} for")
    if text.endswith("git+"):
        text += "https://github.com/huggingface/transformers.git`"
    return stage, kind, text


def _misses(row: dict[str, Any], r: Resolved, plan: KvPlan | None) -> list[str]:
    out: list[str] = []

    def same(term: str, theirs: object, ours: object) -> None:
        if theirs != ours:
            out.append(f"{row['id']} {row['vllm']} {term}: {theirs} but {ours}")

    refusal = r.refusal or (plan.refusal if plan else None)
    if "refusal" not in row:
        same("refusal", None, refusal and refusal.message)
    else:
        stage, kind, text = _refusal(row)
        if kind == "RuntimeError" and "pipeline_parallel_size" in row["flags"]:  # what a pipeline rank raised
            kind, text = refusal.type if refusal else kind, text.removeprefix("pp rank 0: ValueError: ").split("\n")[0]
        same("refusal", (stage, kind, text), refusal and (refusal.stage, refusal.type, refusal.message))
    settings = row["settings"]
    for ours, theirs in SETTINGS.items():
        if ours in settings:
            same(theirs, settings[ours], getattr(r, theirs))
    if "captures" in settings:
        sizes = r.cudagraph_capture_sizes
        same("capture sizes", settings["captures"], [len(sizes), max(sizes, default=0)])
    if "backends" in row:
        same("backends", row["backends"], dict(r.attention))
    return out if plan is None else out + _kv_misses(row, r, plan)


def _kv_misses(row: dict[str, Any], r: Resolved, plan: KvPlan) -> list[str]:
    settings, ok = row["settings"], "refusal" not in row
    told = [[g.kind, g.layers, g.block_size, g.page_bytes] for g in plan.groups]
    pairs: list[tuple[str, object, object]] = [
        ("max_model_len", settings.get("length"), plan.max_model_len),
        ("block_size", settings.get("block"), plan.block_size if ok and plan.groups else r.block_size),
        ("scheduler block", settings.get("scheduler_block"), plan.scheduler_block_size),
        ("hash block", settings.get("hash_block"), plan.hash_block_size),
        ("groups", row.get("groups") and [g[:4] for g in row["groups"] for _ in range(g[4])], told),
        ("need", row.get("need"), plan.need_before_fit_bytes),
        ("block bytes", row.get("block_bytes"), plan.pool_all_bytes),
    ]
    if ok:
        pairs += [
            ("blocks", row.get("blocks"), plan.num_blocks),
            ("printed tokens", row.get("logged_tokens"), plan.logged_tokens),
            ("concurrency", row.get("concurrency"), round(plan.max_concurrency, 6)),
            ("request blocks", row.get("request_blocks"), list(plan.blocks_per_request)),
        ]
    return [f"{row['id']} {row['vllm']} {t}: {a} but {b}" for t, a, b in pairs if a is not None and a != b]


def _worker_refuses(row: dict[str, Any]) -> bool:
    """The answers were asked of the engine without a worker, which refuses bfloat16 on cards that lack it, and adapters
    of a class that has none once its weights are loaded."""
    flags, model = row["flags"], models()[row["model"]]
    lacks_adapters = (
        bool(flags.get("enable_lora")) and model.architecture in at(row["vllm"]).lora.without | ASSERTS_NO_LORA
    )
    return lacks_adapters or (flags.get("dtype") == "bfloat16" and row["gpu"][1] < 80)


@pytest.mark.parametrize("version", VERSIONS)
def test_equal_to_the_engine(version: str) -> None:
    asked = [r for r in rows() if r["vllm"] == version and not _worker_refuses(r)]
    misses = [m for row in asked for m in _misses(row, *planned(row))]
    assert not misses, f"{len(misses)} misses:\n" + "\n".join(misses[:20])
