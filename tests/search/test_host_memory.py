"""Weights in host memory: as few as serve, the faster checkpoint, and the way to engines that place layers."""

from __future__ import annotations

import pytest

from oomph.answers.compare import compare
from oomph.ir.objective import READING, slowness
from oomph.report.screens.fit import answer as screen
from oomph.search.fit import fit

MODEL, CARD = "Qwen/Qwen3-Coder-30B-A3B-Instruct", "RTX 4060 Ti 16GB"


@pytest.mark.parametrize(
    ("rate", "steps"), [(None, 0), (READING, 0), (40.0, 0), (4.9, -1), (READING / 2, -1), (2.4, -2), (0.2, -5)]
)
def test_each_half_of_the_speed_of_reading_is_a_step(rate: float | None, steps: int) -> None:
    assert slowness(rate) == steps


def test_of_slow_answers_the_faster_checkpoint_is_served_with_as_little_on_the_host_as_serves() -> None:
    """BF16 at 0.2 tokens/s was kept because it was named."""
    pick = fit(MODEL, gpu=CARD, context=8192, engine="sglang").pick
    assert pick is not None and pick.plan.deployment.model.endswith("-FP8")
    assert pick.plan.deployment.flags["cpu_offload_gb"] == 20


def test_precision_is_given_up_before_more_weights_lie_in_host_memory() -> None:
    """48 GiB of the named checkpoint over PCIe are fast enough to read along; 4 GiB in four bits are much faster."""
    answer = fit("Qwen/Qwen3-30B-A3B", "RTX 5070 Ti", context=8192)
    assert answer.pick is not None and answer.pick.speed is not None
    assert answer.pick.point.arm.offload_gib <= 4 and answer.pick.speed.one_user > 20


def test_weights_in_host_memory_stand_in_the_headline_beside_what_is_faster() -> None:
    answer = fit(MODEL, gpu=CARD)
    assert "GiB of the weights in host memory" in str(screen(answer).verdict)
    assert any("oomph compare" in note for note in answer.notes)
    assert not any("oomph compare" in note for note in fit("Qwen/Qwen3-8B", gpu="RTX 4090").notes)


def test_where_nothing_fits_the_way_to_what_runs_is_named() -> None:
    answer = fit("meta-llama/Llama-3.3-70B-Instruct", gpu="RTX 4090", only=True)
    assert answer.pick is None
    assert any("oomph compare" in note for note in answer.notes)


def test_compare_does_not_say_that_nothing_starts_where_weights_on_the_host_do() -> None:
    table = compare(MODEL, gpu=CARD, context=8192)
    assert next(row for row in table.rows if row.engine == "vllm").fits
    assert "starts on" not in table.advice and table.advice.startswith("only with a part on the CPU: llama.cpp")
