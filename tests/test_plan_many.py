"""Many questions: in order, alike for every executor, with bounded memory, and a bad one ends nothing."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.cli.batch import run_batch
from oomph.report import many

QUESTIONS: list[dict[str, Any]] = [
    {"id": number, "gpu": card, "args": ["vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", str(1024 * (number + 1))]}
    for number, card in enumerate(["RTX 4090", "H100", "T4", "RTX 3060"] * 3)
] + [{"id": "bad", "args": "no list"}]


class Here(Executor):
    """Runs a call when it is handed in, and notes how many answers nobody has taken yet."""

    def __init__(self) -> None:
        self.waiting: list[Future[Any]] = []
        self.most = 0

    def submit(self, call: Callable[..., Any], /, *args: Any, **more: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_result(call(*args, **more))
        self.waiting.append(future)
        self.most = max(self.most, len(self.waiting))
        return future


@pytest.fixture(scope="module")
def alone() -> list[dict[str, Any]]:
    return list(oomph.plan_many(QUESTIONS))


def test_answers_are_those_of_plan_in_order(alone: list[dict[str, Any]]) -> None:
    assert [answer["id"] for answer in alone] == [question["id"] for question in QUESTIONS]
    first = oomph.plan(QUESTIONS[0]["args"], gpu=QUESTIONS[0]["gpu"], advise=False).to_dict()
    assert alone[0]["kv"] == first["kv"] and alone[0]["verdict"] == first["verdict"]
    assert alone[-1]["error"]


def test_every_executor_answers_alike(alone: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "CHUNK", 3)
    with ThreadPoolExecutor(2) as threads:
        assert list(oomph.plan_many(QUESTIONS, executor=threads, workers=2)) == alone
    assert list(oomph.plan_many(QUESTIONS, workers=2)) == alone


def test_no_more_is_read_than_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "CHUNK", 2)
    read = 0

    def endless() -> Iterator[dict[str, Any]]:
        nonlocal read
        while True:
            read += 1
            yield {"id": read, "args": "no list"}

    answers = oomph.plan_many(endless(), executor=Here(), workers=2)
    assert [next(answers)["id"] for _ in range(40)] == list(range(1, 41))
    assert read <= 40 + 2 * (2 * many.AHEAD + 1)


def test_batch_with_workers_prints_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    codes = []
    for workers in (1, 2):
        codes.append(run_batch(str(file), workers))
    lines = capsys.readouterr().out.splitlines()
    assert codes[0] == codes[1] != 0 and lines[: len(QUESTIONS)] == lines[len(QUESTIONS) :]
