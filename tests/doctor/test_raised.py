"""An engine's own message without a frame is placed by the functions that raise it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from oomph.doctor.explain import read_case
from oomph.doctor.reading.raised import GROUP, hashed, raised_stage, words

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from raised_messages import raised


@pytest.mark.parametrize(
    ("message", "stage"),
    [
        ("Cannot find any model weights with `/models/x`", "weights_load"),
        ("the weather is fine today and so are we", None),
        ("", None),
        ("one two", None),
    ],
)
def test_a_message_is_placed_by_its_words(message: str, stage: str | None) -> None:
    assert raised_stage(message) == stage


def test_figures_and_marks_are_no_words() -> None:
    assert words("size 12 (of 34): a_b") == ["size", "of", "a_b"]
    assert hashed(["a"] * GROUP) != hashed(["b"] * GROUP)


def test_frames_and_milestones_come_before_words() -> None:
    message = "RuntimeError: in the weight loader: Cannot find any model weights at all, with `x`"
    frame = '  File "/x/vllm/v1/worker/gpu_worker.py", line 300, in determine_available_memory\n'
    assert read_case(f"vllm\n{message}\n").death.stage == "weights_load"
    assert read_case(f"vllm\n{frame}{message}\n").death.stage == "profile_run"


def test_the_tool_reads_exceptions_and_assertions(tmp_path: Path) -> None:
    source = 'def load_weights(x):\n    assert x, "one two three four"\n    raise ValueError(f"five {x} six seven")\n'
    (tmp_path / "a.py").write_text(source, encoding="utf-8")
    texts = {(function, text) for _, function, text in raised(tmp_path)}
    assert texts == {("load_weights", "one two three four"), ("load_weights", "five "), ("load_weights", " six seven")}
