"""Families of vLLM's registry as vLLM 0.32.0's own Python builds them: rank 0 of two, 20 GiB of KV cache, an H200.

`tests/truth/registry.jsonl`: a config (a few layers of true kinds), the bytes that it creates on the meta device,
the blocks that its caches get, and, with a drafter, that model's config.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import oomph

ROWS = [json.loads(line) for line in (Path(__file__).parents[2] / "truth" / "registry.jsonl").read_text().splitlines()]


def folder(path: Path, config: dict[str, Any]) -> str:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    return str(path)


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_weights_and_blocks_are_vllms(row: dict[str, Any], tmp_path: Path) -> None:
    command = ["vllm", "serve", folder(tmp_path / "model", row["config"]), "-tp", "2"]
    for flag, value in row.get("flags", {}).items():
        command += [f"--{flag.replace('_', '-')}", str(value)]
    if speculation := row.get("speculation"):
        model = {"model": folder(tmp_path / "drafter", row["drafter"])} if "drafter" in row else {}
        command += ["--speculative-config", json.dumps({**speculation, **model})]
    plan = oomph.plan(command, gpu="2xH200", engine="vllm==0.32.0", given={"available_kv": 20 << 30}).to_dict()
    assert plan["ranks"][0]["terms"]["weights"]["created_bytes"] == row["weights"]
    if "blocks" in row:
        assert plan["kv"]["num_blocks"] == row["blocks"]
