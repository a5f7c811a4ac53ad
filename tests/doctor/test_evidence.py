"""How a stage is known: what asserts it, which two are named where nothing does, and the question between them."""

from __future__ import annotations

from collections import Counter

import pytest

import field_reports
from oomph.doctor.explain import explain
from oomph.doctor.reading.chances import MISTAKEN
from oomph.doctor.reading.meanings import MILESTONES, ORDER
from oomph.doctor.reading.prose import RIGHT
from oomph.engines.registry import all_engines
from oomph.ir.evidence import ASSERTING, asserts
from oomph.logs.parse import ALL

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 23.65 GiB "
    "of which 1.02 GiB is free. Process 7 has 22.60 GiB memory in use."
)
LOADING = 'File "/x/vllm/v1/worker/gpu_worker.py", line 1, in load_model\n'


def test_the_counts_of_mistakes_are_those_of_the_record() -> None:
    counted: dict[str, Counter[str]] = {}
    for row in field_reports.rows():
        first_sight = row["half"] == "judge" or row["batch"].startswith("gathered")
        said, true = row["answer"].get("stage"), row["label"]["stage"]
        if first_sight and row["label"]["failed"] and said and true and said != true:
            counted.setdefault(said, Counter())[true] += 1
    assert {stage: dict(others) for stage, others in MISTAKEN.items()} == {s: dict(c) for s, c in counted.items()}


def test_grounds_that_assert_are_more_often_right_than_those_that_do_not() -> None:
    shares = {basis: right / number for basis, (right, number) in RIGHT.items()}
    assert min(shares[basis] for basis in shares if basis in ASSERTING) > max(
        shares[basis] for basis in shares if basis not in ASSERTING
    )


@pytest.mark.parametrize("engine", all_engines(), ids=lambda engine: engine.name)
def test_what_opens_a_stage_is_a_line_that_the_log_reader_knows(engine) -> None:  # type: ignore[no-untyped-def]
    """The line that the question quotes is one from which the stage would have been read."""
    for stage, words in engine.words.opens.items():
        assert stage not in engine.words.missing_stages
        rows = [row for row in ALL if words in row.needle or row.needle in words or row.needle[1:] in words]
        stages = {MILESTONES.get(row.kind) for row in rows}
        stages |= {"sampler_warmup" for row in rows if row.kind == "lc_warmup"}
        reached = {ORDER.index(reached) for reached in stages if reached}
        assert reached and max(reached) >= ORDER.index(stage), (stage, words)


def test_a_traceback_asserts_one_stage_and_asks_nothing() -> None:
    result = explain(LOADING + OOM + "\n", plan=False)
    assert result.stage_basis == "traceback" and asserts(result.stage_basis)
    assert [chance.stage for chance in result.stages] == ["weights_load"] and result.question is None


@pytest.mark.parametrize("words", ["It crashes during inference:\n", "vllm serve a/b fails on startup.\n", ""])
def test_what_is_not_asserted_names_two_stages_and_asks(words: str) -> None:
    result = explain(f"{words}{OOM}\n", plan=False)
    assert not asserts(result.stage_basis)
    first, second = result.stages
    assert first.stage == result.stage != second.stage
    assert 1 > first.probability > second.probability > 0 and first.probability + second.probability <= 1
    assert result.question is not None
    assert set(result.question.answers.values()) == {first.stage, second.stage}


def test_an_answer_continues_from_there() -> None:
    before = explain(f"It crashes during inference:\n{OOM}\n", plan=False)
    assert before.question is not None
    for stage in before.question.answers.values():
        after = explain(f"It crashes during inference:\n{OOM}\n", plan=False, stage=stage)
        assert (after.stage, after.stage_basis, after.question) == (stage, "answer", None)


def test_an_answer_does_not_overrule_the_log() -> None:
    assert explain(LOADING + OOM + "\n", plan=False, stage="runtime_request").stage == "weights_load"


@pytest.mark.parametrize(
    "text",
    [
        "# Out of memory while loading the weights on my RTX 3090\n\nvllm serve a/b\n",
        "# [Bug]: process gets killed\n\nvllm serve a/b --max-model-len 4096\n",
        "We run vllm and the kernel OOM killer ends it while it loads.\n",
    ],
)
def test_what_people_tell_in_their_own_words_is_never_asserted_nor_sure(text: str) -> None:
    result = explain(text, plan=False)
    assert result.failed and result.stage_basis in ("said", "guess") and not result.cause.sure


def test_an_exit_status_asserts_and_a_list_of_what_may_have_been_does_not() -> None:
    start = "(EngineCore pid=7) INFO 05-30 01:45:33 [gpu_model_runner.py:3000] Starting to load model a/b...\n"
    assert explain(f"{start}container exited with code 137\n", plan=False).stage_basis == "status"
    ray = (
        "ray.exceptions.ActorDiedError: The actor is dead because its worker process has died. Some common causes "
        "include: (1) the process was killed by the OOM killer, (2) ray stop --force was called, or (3) SIGSEGV\n"
    )
    assert not asserts(explain(start + ray, plan=False).stage_basis)


def test_a_stage_that_was_over_is_not_named() -> None:
    """Its closing line was printed before the failure."""
    lines = (
        "INFO 05-30 01:45:33 [gpu_model_runner.py:3000] Model loading took 15.0 GiB and 3.1 seconds\n"
        "INFO 05-30 01:45:34 [monitor.py:34] torch.compile takes 10.0 s in total\n"
    )
    result = explain(f"{lines}{OOM}\n", plan=False)
    assert not asserts(result.stage_basis)
    assert {chance.stage for chance in result.stages}.isdisjoint({"other", "startup_free_memory", "weights_load"})
