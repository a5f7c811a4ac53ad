"""The fix that worked for those who posted a failure is among the first three (tests/truth/fixes.jsonl)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import accuracy_fixes


def test_the_fix_that_worked_is_among_the_first_three() -> None:
    judged = [answer for answer in accuracy_fixes.answers() if answer.is_judged]
    missed = [answer.name for answer in judged if not answer.is_right]
    assert len(judged) >= 25
    assert len(missed) <= len(judged) // 10, missed


def test_shared_memory_is_told_a_share_that_leaves_the_host_its_room() -> None:
    from oomph.answers.plan import plan

    advice = plan("vllm serve nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4 --max-num-seqs 4", gpu="GB10").advice
    assert advice is not None
    first = advice.fixes[0].change
    assert first.lever == "gpu_memory_utilization_down" and first.flags["gpu_memory_utilization"] < 0.8
