"""What a plan says its constants rest on is what lies in tests/truth."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.facts.vllm.measured import STARTS

TRUTH = Path(__file__).parents[1] / "truth"
FILES = ("h200.jsonl", "h200-served.jsonl", "h200-newest.jsonl")


def rows() -> list[dict[str, Any]]:
    lines = (line for name in FILES for line in (TRUTH / name).read_text().splitlines())
    return [json.loads(line) for line in lines]


def test_the_counts_are_those_of_the_rows() -> None:
    """Rows of the first file are of 0.21.0 and do not say so."""
    found = rows()
    starts = Counter(row.get("vllm", "0.21.0") for row in found)
    compiled = Counter(row.get("vllm", "0.21.0") for row in found if not row["flags"].get("enforce_eager"))
    assert [(row.release, row.starts, row.compiled) for row in STARTS] == [
        (release, starts[release], compiled[release]) for release in sorted(starts)
    ]


@pytest.mark.parametrize(
    ("engine", "gpu", "same_release", "same_card", "words"),
    [
        ("vllm==0.26.0", "H200", True, True, "measured on 0.26.0 on an H200"),
        ("vllm==0.30.0", "H200", False, True, "not measured on 0.30.0"),
        ("vllm==0.29.0", "H200", True, True, "measured on 0.29.0 on an H200 (1 start, none of them compiled)"),
        ("vllm==0.26.0", "RTX 4090", True, False, "; not on RTX 4090"),
    ],
)
def test_a_plan_says_what_it_rests_on(engine: str, gpu: str, same_release: bool, same_card: bool, words: str) -> None:
    plan = oomph.plan("vllm serve Qwen/Qwen3-0.6B", gpu=gpu, engine=engine, advise=False)
    assert plan.grounds is not None
    assert (plan.grounds.same_release, plan.grounds.same_card) == (same_release, same_card)
    assert words in plan.grounds.text
