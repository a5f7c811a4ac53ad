"""50 logs of the real llama-server (v0.5.0), half of them at its default verbosity: stage and cause.

On a software Vulkan device of a set size (w: weights, k: cache, c: compute buffer), with files and flags it refuses
(n), and on a CPU (g, h: served until it was ended; three of them crashed while they answered); d: its start without
HTTP, drafts and embeddings among them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import oomph

TRUTH = Path(__file__).parents[2] / "truth" / "llamacpp" / "logs.jsonl.gz"
ROWS = [json.loads(line) for line in gzip.decompress(TRUTH.read_bytes()).splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_stage_and_cause(row: dict[str, Any]) -> None:
    explanation = oomph.explain(row["text"])
    assert explanation.failed is row["failed"]
    assert explanation.stage == row["stage"]
    assert explanation.cause.id.startswith(row["cause"])
