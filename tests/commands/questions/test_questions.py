"""120 questions in people's words: sixty written before the grammar (before.tsv), sixty after it was finished
(after.tsv).

Each line has the question and the command that answers it, or ! and why it is not ours. At first sight of the second
half 56 of 60 were read as meant, one ("how many 4090s") was answered as something else without saying so; what they
showed is mended since.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from oomph.commands import detect
from oomph.commands.questions import Understood, is_question, understand
from oomph.errors import OomphError
from oomph.sources.gpu import parse_gpus

QUESTIONS = [
    tuple(line.split("\t"))
    for name in ("before.tsv", "after.tsv")
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
]


def test_there_are_120_of_which_a_hundred_are_english() -> None:
    assert len(QUESTIONS) == len(dict(QUESTIONS)) == 120


@pytest.mark.parametrize(("question", "command"), QUESTIONS)
def test_a_question_is_read_as_it_is_meant(question: str, command: str) -> None:
    if command.startswith("!"):
        with pytest.raises(OomphError):
            understand(question)
        return
    understood = understand(question)
    options = dict(re.findall(r"--(?!engine)([a-z]+) (.+?)(?= --|$)", command))
    name, _, model = command.partition(" --")[0].partition(" ")
    assert (understood.command, understood.model) == (name, model)
    assert _same_cards(understood.gpu, options.pop("gpu", ""))
    assert _same_cards(understood.card, options.pop("card", ""))
    assert (understood.users, understood.context) == (int(options.pop("users", 0)), options.pop("context", ""))
    assert (understood.prefer, understood.purpose) == (options.pop("prefer", ""), options.pop("for", ""))
    assert list(understood.engines) == re.findall(r"--engine (\w+)", command)
    assert options == {}


def _same_cards(one: str, other: str) -> bool:
    if one == other:
        return True
    return parse_gpus(one) == parse_gpus(other) if one and other else False


@pytest.mark.parametrize(
    "question", ["vllm serve Qwen/Qwen3-8B", "llama-server -m x.gguf -ngl 99", "ollama run qwen3:8b"]
)
def test_a_command_is_no_question(question: str) -> None:
    assert detect(question.split()) or not is_question(question)


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("gpt-oss-120b on a toaster and a 4090", "toaster"),
        ("qwen3-32b on 24gb with 64GB RAM", "64gb ram"),
        ("4090 or 5090 for Qwen3-32B?", "5090"),
        ("a team of 50 on one H100 with qwen3-32b", "team of 50"),
    ],
)
def test_what_decided_nothing_is_named(question: str, word: str) -> None:
    assert word in understand(question).unused


def test_what_is_understood_can_be_typed() -> None:
    understood = Understood("fit", "openai/gpt-oss-120b", "2x RTX 4090", "32k", 4, "speed", "", ("vllm",))
    assert understood.typed() == (
        "oomph fit openai/gpt-oss-120b --gpu '2x RTX 4090' --context 32k --users 4 --prefer speed --engine vllm"
    )


def test_a_model_that_nobody_knows_is_asked_of_the_command() -> None:
    assert understand("qwen3-99b on a 4090").model == "qwen3-99b"


@given(st.text(max_size=120))
def test_any_text_is_a_question_or_refused(text: str) -> None:
    with suppress(OomphError):
        assert understand(text).command in ("fit", "models", "gpus")


def test_a_question_on_the_command_line_is_answered_by_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    from oomph.cli.main import main

    with pytest.raises(SystemExit) as ended:
        main(["--json", "can I run Qwen3-8B on a 4090, please?"])
    said = capsys.readouterr()
    assert ended.value.code == 0
    assert '"model": "Qwen/Qwen3-8B"' in said.out
    assert said.err.startswith("read as: oomph fit Qwen/Qwen3-8B --gpu 4090")


@pytest.mark.parametrize(
    "words", [["vllm", "serve", "Qwen/Qwen3-8B"], ["--", "Qwen3-8B"], ["uv", "run", "vllm", "serve", "Qwen/Qwen3-8B"]]
)
def test_the_command_line_takes_no_command_for_a_question(words: list[str]) -> None:
    from oomph.cli.main import dispatch

    assert dispatch(words)[0] == "plan"
