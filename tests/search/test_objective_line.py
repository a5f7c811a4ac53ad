"""The measure of an answer stands on its screen, in words, in two lines of 80 columns at most."""

from __future__ import annotations

import pytest

import oomph
from oomph.ir.objective import PREFERENCES, Objective, serving_objective
from oomph.pack.fill import OBJECTIVE

LONGEST = 2 * 76  # two lines of 80 columns


@pytest.mark.parametrize("prefer", ["", *PREFERENCES])
@pytest.mark.parametrize("checkpoint", ["", "meta-llama/Llama-3.3-70B-Instruct"])
@pytest.mark.parametrize(("context", "users"), [(0, 0), (32768, 0), (0, 8), (131072, 200)])
def test_every_objective_has_one_short_line(prefer: str, checkpoint: str, context: int, users: int) -> None:
    objective = serving_objective(checkpoint=checkpoint, context=context, users=users, prefer=prefer)
    assert len(f"Picked for, most important first: {objective.short}.") <= LONGEST
    assert objective.short.endswith("speed") or prefer == "speed"
    assert prefer in ("", "quality") or prefer in objective.short
    assert "tok/s" not in objective.short and " KV," not in objective.short  # words, not shorthand
    named = [measure.short for measure in objective.order if measure.short]
    assert named == objective.short.split(", "), "in the order in which they decide"
    assert all(measure.loss in objective.line for measure in objective.order if measure.loss)


def names(objective: Objective) -> list[str]:
    return [measure.name for measure in objective.order]


@pytest.mark.parametrize("prefer", ["", *PREFERENCES])
def test_users_who_are_held_are_served_fast_before_a_limit_of_requests_is_kept(prefer: str) -> None:
    """A limit below the engine's own costs those who were asked for nothing."""
    order = names(serving_objective(context=8192, users=32, prefer=prefer))
    assert order.index("request") == 0 and order.index("speed") < order.index("limit")
    without = names(serving_objective(context=8192, prefer=prefer))
    assert without.index("limit") < without.index("speed") or prefer == "speed"


def test_screens_print_it_in_words() -> None:
    answers = (
        oomph.fit("Qwen/Qwen3-14B", gpu="RTX 3060"),
        oomph.compare("Qwen/Qwen3-8B", gpu="RTX 4090", engines=("vllm", "sglang")),
        oomph.gpus("Qwen/Qwen3-32B", most=2),
    )
    for answer in answers:
        assert f" Picked for, most important first: {answer.measure}." in " ".join(answer.text().split())
    packed = oomph.pack(["vllm serve Qwen/Qwen3-8B", "vllm serve Qwen/Qwen3-4B"], gpu="H100")
    assert f"Picked for, most important first: {OBJECTIVE.short}." in " ".join(packed.text().split())


def test_another_checkpoint_is_named_as_a_cost() -> None:
    text = oomph.fit("Qwen/Qwen3-14B", gpu="RTX 3060").text()
    assert "INT4 weights instead of Qwen/Qwen3-14B" in " ".join(text.split())
    assert "instead of" not in oomph.fit("Qwen/Qwen3-8B", gpu="RTX 4090", context=8192).text()
