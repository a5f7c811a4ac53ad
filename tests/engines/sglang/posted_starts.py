"""Start-ups of SGLang that strangers posted (tests/truth/sglang-posts.jsonl), and what oomph plans for the commands.

Sizes are GiB as the logs print them, to 0.01. `inferred` says what the post does not state: a build between releases is
the nearest release that has its rules, a card follows from its memory and kernels. `before` and `weights` are the two
readings of the load; `outside`: the release is older than those that oomph knows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from oomph.answers.plan import parse, run
from oomph.ir.plan import Plan
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB

FILE = Path(__file__).parents[2] / "truth" / "sglang-posts.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text().splitlines()]
# What the command alone does not say: experts in host memory, other processes on the card, another checkpoint of the
# same layers; and two loads whose weights oomph has too small (DeepSeek-V4's FP4 and ModelOpt's FP8 experts on Hopper).
NOT_WITHOUT_READINGS = frozenset((
    "ktransformers-qwen3.5-397b", "qwen2.5-0.5b-triton", "dsv4-flash-h20-088", "dsv4-flash-h20-060",
    "inferencex-dsv4-pro-h200", "nemotron-super-fp8-h200",
))  # fmt: skip


def planned(row: dict[str, Any], *, pinned: bool) -> Plan:
    words = f"python -m sglang.launch_server --model-path {row['command']}".split()
    deployment = replace(parse(words, f"sglang=={row['release']}"), gpus=parse_gpus(row["gpu"]))
    return run(replace(deployment, given=readings(row) if pinned else {}))


def readings(row: dict[str, Any]) -> dict[str, int]:
    """What the log pins: the free memory before the load, the load, or the pools where it prints these."""
    names = {"before": "free_before_load", "weights": "weights"}
    if "weights" not in row and "pool" in row:
        names["pool"] = "available_kv"
    return {term: round(row[name] * GIB) for name, term in names.items() if name in row}


def figures(row: dict[str, Any], plan: Plan) -> Iterator[tuple[str, float, float]]:
    """(term, ours, the log's)."""
    resolved, kv = plan.resolved, plan.kv
    if "tokens" in row:
        yield "tokens", kv.logged_tokens if kv else 0, row["tokens"]
    for name, key in (
        ("window_tokens", "swa_max_total_num_tokens"),
        ("slots", "max_mamba_cache_size"),
        ("requests", "max_running_requests"),
        ("fraction", "mem_fraction_static"),
    ):
        if name in row:
            yield name, resolved.get(key) or 0, row[name]
