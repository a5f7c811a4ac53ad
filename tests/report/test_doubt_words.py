"""What a screen says of a plan that may go either way, and of a host that decides."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given, strategies as st

from oomph.answers.plan import plan
from oomph.ir import Margin, Verdict
from oomph.report.screens.plan_words import close_words
from oomph.report.terminal import Style
from oomph.units import GIB, gib

PLAIN = Style(io.StringIO())


def _verdict(low: int, expected: int, high: int, stage: str) -> Verdict:
    return Verdict(
        expected >= 0, None if expected >= 0 else stage, max(0, -expected), "", sure=False, first_to_break=stage,
        margin=Margin(low, expected, high),
    )  # fmt: skip


@given(st.integers(1, 400), st.integers(0, 400), st.integers(0, 100), st.sampled_from(["kv_check", "host_ram"]))
def test_the_doubt_on_a_screen_reaches_the_other_outcome(below: int, above: int, place: int, stage: str) -> None:
    """A reader who sees "7.79 GiB short, give or take 7.58" rightly asks why that is too close to call."""
    low, high = -below * GIB // 8, above * GIB // 8
    expected = low + (high - low) * place // 100
    words = close_words(_verdict(low, expected, high, stage))
    figures = [float(n) for n in re.findall(r"([\d.]+) GiB", words)]
    if "give or take" in words:
        assert figures[-1] >= figures[0]
    else:
        assert words.endswith(f"somewhere between {gib(-low)} short and {gib(high)} of room")


SLOW = "llama-server -m Qwen3-235B-A22B-Q4_K_M.gguf --cpu-moe -c 8192"


def _screen(command: str, ram: str) -> str:
    return " ".join(plan(command, gpu="RTX 4090", ram=ram).text(width=100).split())


@pytest.mark.parametrize(
    ("ram", "there", "absent"),
    [("", "weights in the mapped file prompt cache", "again and again"), ("256GiB", "mapped file", "again"),
     ("32GiB", "of which 96.9 GiB are read from disk again", ""), ("32GiB", "more than its memory holds", "")],
)  # fmt: skip
def test_mapped_weights_beyond_the_hosts_memory_are_told(ram: str, there: str, absent: str) -> None:
    screen = _screen(SLOW, ram)
    assert there in screen and (not absent or absent not in screen)


def test_work_that_stays_on_the_host_leaves_less_for_mapped_weights() -> None:
    """A prompt's experts are computed on the GPU unless --no-op-offload: 40 MiB of the host's compute become 160."""
    assert "of which 97.0 GiB are read from disk again" in _screen(f"{SLOW} --no-op-offload", "32GiB")


@pytest.mark.parametrize(
    ("command", "ram"),
    [(SLOW, "8GiB"), ("vllm serve Qwen/Qwen3-8B --max-model-len 8192 --enable-sleep-mode", "12GiB"),
     ("vllm serve Qwen/Qwen3-8B --max-model-len 8192", "6GiB")],
)  # fmt: skip
def test_where_the_host_decides_no_figure_of_a_gpu_is_a_reason_or_a_gain(command: str, ram: str) -> None:
    answer = plan(command, gpu="RTX 4090", ram=ram)
    assert answer.verdict.first_to_break == "host_ram" and answer.advice is not None
    assert not any("GPU" in why or "budget" in why for why in answer.advice.why)
    assert all(judged.outcome == "fits" for judged in answer.advice.fixes)
    assert not [judged for judged in answer.advice.helps if judged.change.kind in ("hardware", "checkpoint")]
    assert "; \n" not in answer.text(width=400)
