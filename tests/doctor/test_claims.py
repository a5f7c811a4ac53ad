"""What people tell around a log: the stage that they mean, and that no all-clear stands over a failure."""

from __future__ import annotations

from itertools import product

import pytest
from healthy_logs import LOGS
from told_texts import FAILURES, TEXTS

from oomph.doctor.explain import explain
from oomph.ir.evidence import asserts

COMPOSED = list(product(LOGS, FAILURES, ("above", "below")))


@pytest.mark.parametrize(("stage", "text"), TEXTS, ids=lambda part: part[:40])
def test_a_stage_that_is_told_is_named(stage: str, text: str) -> None:
    result = explain(f"{text}\n", plan=False)
    assert result.failed and stage in [chance.stage for chance in result.stages], result.stages
    assert not asserts(result.stage_basis) or result.stage == stage  # it quotes the engine's own words


def test_the_likelier_stage_is_mostly_the_one_that_is_told() -> None:
    wrong = [text for stage, text in TEXTS if explain(f"{text}\n", plan=False).stage != stage]
    assert len(wrong) <= len(TEXTS) // 20, wrong


def test_a_healthy_log_alone_is_healthy() -> None:
    for name, log in LOGS.items():
        assert explain(log, plan=False).failed is False, name


def test_no_all_clear_stands_over_a_sentence_that_tells_of_a_failure() -> None:
    assert len(COMPOSED) >= 200
    cleared = []
    for name, sentence, place in COMPOSED:
        text = f"{sentence}\n\n{LOGS[name]}" if place == "above" else f"{LOGS[name]}\n{sentence}\n"
        result = explain(text, plan=False)
        if not result.failed:
            cleared.append((name, sentence, place, result.failed))
    assert not cleared


@pytest.mark.parametrize(
    "sentence",
    [
        "It works now, no more crashes.",
        "With 0.9 it no longer runs out of memory.",
        "Thanks, this is the log without any errors.",
        "Is this a good throughput?",
        "Hier läuft alles ohne Fehler.",
        "现在可以正常运行，没有报错。",
    ],
)
def test_a_sentence_that_takes_it_back_is_no_failure(sentence: str) -> None:
    for name, log in LOGS.items():
        assert explain(f"{sentence}\n\n{log}", plan=False).failed is not True, name


@pytest.mark.parametrize(
    "sentence", ["Might it run out of memory with longer prompts?", "Could this crash under load?"]
)
def test_a_question_about_a_failure_is_neither_an_alarm_nor_an_all_clear(sentence: str) -> None:
    assert explain(f"{sentence}\n\n{LOGS['vllm V1']}", plan=False).failed is None
