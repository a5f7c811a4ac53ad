"""Many loads: users, shapes and seeds on any executor, Dask's too, with the answers of one process."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import oomph

COMMANDS = ("vllm serve Qwen/Qwen3-8B", "python -m sglang.launch_server --model-path Qwen/Qwen3-8B")
QUESTIONS: list[dict[str, Any]] = [
    {"command": command, "gpu": "H100", "users": users, "requests": 2 * users, "workload": shape, "seed": seed}
    for command in COMMANDS
    for users in (1, 2, 4, 8)
    for shape in ("fixed", "chat")
    for seed in range(4)
]


@pytest.fixture(scope="module")
def alone() -> list[dict[str, Any]]:
    return list(oomph.simulate_many(QUESTIONS))


def test_an_answer_is_that_of_simulate(alone: list[dict[str, Any]]) -> None:
    assert len(alone) == len(QUESTIONS) == 64
    assert alone[5] == oomph.simulate(**QUESTIONS[5]).to_dict()
    assert alone[0] != alone[4] != alone[32]


def test_threads_answer_alike(alone: list[dict[str, Any]]) -> None:
    with ThreadPoolExecutor(2) as threads:
        assert list(oomph.simulate_many(QUESTIONS[:8], executor=threads, workers=2)) == alone[:8]


def test_two_workers_of_dask_answer_alike(alone: list[dict[str, Any]]) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert list(oomph.simulate_many(QUESTIONS, executor=client.get_executor(), workers=2)) == alone


@pytest.mark.parametrize(
    "question", [{"command": 3}, {"gpu": "H100"}, {"command": "vllm serve Qwen/Qwen3-8B", "gpu": "H100", "user": 3}]
)
def test_a_bad_question_ends_nothing(question: dict[str, Any]) -> None:
    bad, good = oomph.simulate_many([question, QUESTIONS[0]])
    assert bad["error"] and "error" not in good
