"""The measure of an answer stands on its screen, in one line of 80 columns."""

from __future__ import annotations

import pytest

import oomph
from oomph.ir.objective import PREFERENCES, serving_objective
from oomph.pack.fill import OBJECTIVE

WIDTH = 80


@pytest.mark.parametrize("prefer", ["", *PREFERENCES])
@pytest.mark.parametrize("checkpoint", ["", "meta-llama/Llama-3.3-70B-Instruct"])
@pytest.mark.parametrize(("context", "users"), [(0, 0), (32768, 0), (0, 8), (131072, 200)])
def test_every_objective_has_one_short_line(prefer: str, checkpoint: str, context: int, users: int) -> None:
    objective = serving_objective(checkpoint=checkpoint, context=context, users=users, prefer=prefer)
    assert len(f"  Best by: {objective.short}.") <= WIDTH
    assert objective.short.endswith("speed") or prefer == "speed"
    assert prefer in ("", "quality") or prefer in objective.short
    named = [measure.short for measure in objective.order if measure.short]
    assert named == objective.short.split(", "), "in the order in which they decide"
    assert all(measure.loss in objective.line for measure in objective.order if measure.loss)


def test_screens_print_it_unbroken() -> None:
    answers = (
        oomph.fit("Qwen/Qwen3-14B", gpu="RTX 3060"),
        oomph.compare("Qwen/Qwen3-8B", gpu="RTX 4090", engines=("vllm", "sglang")),
        oomph.gpus("Qwen/Qwen3-32B", most=2),
    )
    for answer in answers:
        lines = [line for line in answer.text().splitlines() if answer.measure in line]
        assert len(lines) == 1 and len(lines[0]) <= WIDTH
    packed = oomph.pack(["vllm serve Qwen/Qwen3-8B", "vllm serve Qwen/Qwen3-4B"], gpu="H100")
    assert f"  Best by: {OBJECTIVE.short}." in packed.text().splitlines()


def test_another_checkpoint_is_named_as_a_cost() -> None:
    text = oomph.fit("Qwen/Qwen3-14B", gpu="RTX 3060").text()
    assert "INT4 weights instead of Qwen/Qwen3-14B" in " ".join(text.split())
    assert "instead of" not in oomph.fit("Qwen/Qwen3-8B", gpu="RTX 4090", context=8192).text()
