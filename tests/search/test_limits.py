"""How many requests run at once: a limit is no lower than memory needs it, and it is said."""

from __future__ import annotations

import pytest

from oomph.ir.objective import lowness
from oomph.search.fit import fit


def test_each_fourth_of_a_limit_is_a_step_less_and_no_limit_is_best() -> None:
    assert [lowness(limit) for limit in (1024, 256, 255, 64, 63, 16, 4, 3, 1)] == [-1, -1, -2, -2, -3, -3, -4, -5, -5]


@pytest.mark.parametrize(
    ("model", "gpu"), [("openai/gpt-oss-20b", "RTX 4060 Ti 16GB"), ("openai/gpt-oss-120b", "DGX Spark")]
)
def test_a_longer_context_does_not_cost_the_requests_at_once(model: str, gpu: str) -> None:
    """A limit of one request had been taken for the last thousand tokens of context: short requests queued for it."""
    pick = fit(model, gpu).pick
    assert pick is not None and pick.point.limit >= 16
    assert f"at most {pick.point.limit} requests at once" in pick.gives_up
    assert pick.plan.deployment.flags["max_num_seqs"] == pick.point.limit


def test_the_lowest_limit_is_said() -> None:
    answer = fit("google/gemma-3-12b-it", "RTX 4070")
    assert answer.pick is not None
    limit = answer.pick.plan.deployment.flags.get("max_num_seqs")
    assert limit and f"at most {limit} request" in answer.text()
