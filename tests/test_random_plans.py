"""Random deployments agree with themselves, and their edges are called honestly (tools/random_plans.py, edges.py).

The tools run the same checks over thousands; here a few of them.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import edges
import random_plans


@pytest.mark.parametrize("seed", range(4))
def test_random_plans_agree_with_themselves(seed: int) -> None:
    for case in random_plans.cases(40, 20_000 + seed):
        answer = random_plans.answer(case)
        if answer is not None:
            assert not list(random_plans.contradictions(answer)), " ".join(case)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_sure_at_the_edge(seed: int) -> None:
    for name, edge, problems in edges.edges(2, 30_000 + seed):
        assert not problems, (name, edge)


def test_a_plan_that_contradicts_itself_is_noticed() -> None:
    from msgspec.structs import replace

    from oomph.answers.plan import plan

    good = plan("vllm serve Qwen/Qwen3-8B", gpu="H100", advise=False)
    rank = good.ranks[0]
    weights = rank.terms["weights"]
    wrong = replace(weights, bytes=weights.bytes + 1, high=weights.high + 1)
    bad = replace(good, ranks=(replace(rank, terms={**rank.terms, "weights": wrong}),))
    assert not list(random_plans.contradictions(good))
    assert any("weights" in text for text in random_plans.contradictions(bad))
    high = replace(rank.stages[-1], peak_bytes=2 * rank.total_bytes)
    bad = replace(good, ranks=(replace(rank, stages=(*rank.stages[:-1], high)),))
    assert any("above the card" in text for text in random_plans.contradictions(bad))


def test_an_edge_that_is_called_too_surely_is_noticed() -> None:
    draw = random.Random(1)
    name, edge, _ = next(edges.edges(1, 30_000))
    again = random.Random(30_000)
    planned = edges.planner(again)
    while planned[0] != name:
        planned = edges.planner(again)
    assert list(edges.problems(planned[1], edge._replace(close=edge.sure_fit), draw))
