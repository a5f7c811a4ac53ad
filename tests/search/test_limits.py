"""How many requests run at once: a limit is no lower than memory needs it, and it is said."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from oomph.answers.plan import parse, run
from oomph.ir.objective import lowness
from oomph.search.fit import fit
from oomph.search.outcome import judge
from oomph.search.request import Want
from oomph.sources.gpu import parse_gpus


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


def test_states_as_many_as_may_run_lose_nothing_of_their_number() -> None:
    """What is not certain of the cache is tokens: one request of a hybrid is one request, and twice the requests in 8
    bits are found although the fewest cannot show it (seed 26112181 of test_regret.py)."""
    release = "trtllm==1.3.0rc17"  # the newest finished one does not have the model
    base = parse(["trtllm-serve", "Qwen/Qwen3.6-27B", "--max_seq_len", "4096", "--max_batch_size", "1"], release)
    plan = run(replace(base, gpus=parse_gpus("H200")))
    assert judge(plan, margin=True).concurrency == 1
    pick = fit("Qwen/Qwen3.6-27B", "H200", Want(4096, 2, "users"), engine=release).pick
    assert pick is not None and pick.point.users > 200
