"""What vLLM's own scheduler did (tools/real_scheduler), step by step."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools" / "real_scheduler"))


def cases() -> list[dict[str, Any]]:
    with gzip.open(ROOT / "tests" / "truth" / "scheduler.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_every_step_is_that_of_the_real_scheduler(case: dict[str, Any]) -> None:
    from compare import ours

    steps, never = ours(case)
    assert not never and len(steps) == len(case["steps"])
    assert steps == case["steps"]


def test_the_kept_cases_have_pipelines_and_states_inside_a_chunk() -> None:
    configs = [case["config"] for case in cases()]
    assert any(c["stages"] > 1 and c["lag"] for c in configs) and any(c["stages"] > 1 and not c["lag"] for c in configs)
    assert any(g["checkpoint"] for c in configs for g in c["groups"]) and any(c["spec_tokens"] for c in configs)
