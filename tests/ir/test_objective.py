"""The order by which searches pick: what is asked comes first, what nobody asked for is given up first."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from oomph.ir.objective import (
    PREFERENCES,
    READING,
    SERVING,
    Objective,
    reads_well,
    serving_objective,
    shortness,
    speed_step,
    users_step,
)

STANDINGS = st.dictionaries(st.sampled_from(sorted(SERVING)), st.integers(-3, 0).map(float))


def names(objective: Objective) -> list[str]:
    return [measure.name for measure in objective.order]


def test_what_is_asked_for_is_no_aim() -> None:
    order = names(serving_objective(context=8192, users=4))
    assert not {"context", "users", "length", "enough"} & set(order)
    assert order[0] == "request"


def test_a_named_checkpoint_is_given_up_before_weights_leave_the_gpus() -> None:
    objective = serving_objective(checkpoint="a/b")
    offloaded, sister = {"on_gpu": -1.0}, {"checkpoint": -1.0, "precision": -6.0, "graphs": -2.0}
    assert objective.key(sister) > objective.key(offloaded)


def test_a_pick_that_nobody_can_read_along_with_is_last() -> None:
    objective = serving_objective(checkpoint="a/b", context=8192)
    slow = {"reading": -1.0}
    poor = {name: -3.0 for name in SERVING if name not in ("request", "reading")}
    assert objective.key(poor) > objective.key(slow)
    assert reads_well(READING)
    assert reads_well(None)
    assert not reads_well(READING - 0.1)


@pytest.mark.parametrize(("prefer", "first", "second"), [
    ("", "graphs", "kv_bits"), ("quality", "kv_bits", "graphs"), ("users", "users", "precision"),
    ("context", "context", "precision"), ("speed", "speed", "precision"),
])  # fmt: skip
def test_a_preference_changes_the_order(prefer: str, first: str, second: str) -> None:
    order = names(serving_objective(prefer=prefer))
    assert order.index(first) < order.index(second)
    assert set(order) == set(SERVING) - {"checkpoint"}


@pytest.mark.parametrize("prefer", ["", *PREFERENCES])
def test_the_line_says_what_is_kept_and_what_goes_first(prefer: str) -> None:
    line = serving_objective(checkpoint="a/b", context=4096, users=1, prefer=prefer, also=("images",)).line
    assert line.startswith("kept: a/b, 4,096 tokens of context, 1 user at once, images; given up")
    assert line.index("limit of requests") < line.index("the named checkpoint") < line.index("weights on the GPUs")


@given(STANDINGS, STANDINGS)
def test_a_bound_is_never_below_what_it_bounds(known: dict[str, float], rest: dict[str, float]) -> None:
    objective = serving_objective(checkpoint="a/b")
    assert objective.best_key(known) >= objective.key({**rest, **known})


@given(st.integers(1, 1 << 20), st.integers(1, 1 << 20), st.integers(1, 1 << 20))
def test_longer_is_never_shorter(context: int, more: int, longest: int) -> None:
    assert shortness(context + more, longest) >= shortness(context, longest)
    assert shortness(longest, longest) == 0


def test_steps() -> None:
    assert speed_step(100.0) == speed_step(100.2) < speed_step(110.0)
    assert users_step(1) < users_step(2) < users_step(3)
    assert users_step(100) == users_step(101)
    assert shortness(16384, 131072) == -2
    assert shortness(40000, 40960) == 0
