# ruff: noqa: E501 - a row is a line
"""A healthy log and a sentence of failure, above or below it: never an all-clear. And logs in the disguises that forums,
containers and log collectors give them: the same stage."""

import html
import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from healthy_logs import LOGS

import oomph

HERE = Path(__file__).parent
WHAT = (
    "it {ends}",
    "the server {ends}",
    "our pod {ends}",
    "vLLM {ends}",
    "the engine process {ends}",
)
ENDS = (
    "crashes with CUDA out of memory",
    "dies",
    "was OOM-killed",
    "runs out of memory",
    "gets killed",
    "hangs",
    "exits with an error",
    "is gone",
    "restarts again and again",
    "falls over",
    "throws torch.OutOfMemoryError",
    "stops answering and is killed",
)
WHEN = (
    "every night at 2am",
    "after a few hours",
    "as soon as several users are connected",
    "when a long prompt comes",
    "after wake_up",
    "under load",
    "with large images",
    "once a day",
    "while nobody is looking",
    "during the load test",
)
OTHERS = (
    "Der Server stürzt {when} ab, hier das Startlog:",
    "{when} ist Schluss: Speicher voll.",
    "{when}进程就崩溃了，日志如下",
    "服务{when}显存不足",
)
OTHER_WHENS = {"Der": ("nachts", "unter Last", "nach Stunden"), "{wh": ("Nachts", "Unter Last", "Nach Stunden"),
               "服务": ("晚上", "并发高的时候", "几个小时后")}  # fmt: skip


def sentences() -> list[str]:
    english = [f"{what.format(ends=ends)} {when}." for what, ends, when in itertools.product(WHAT, ENDS, WHEN)]
    chosen = random.Random(37).sample(english, 76)
    others = []
    for text in OTHERS:
        whens = (
            ("晚上", "并发高的时候", "几个小时后")
            if "就崩溃" in text
            else OTHER_WHENS[text[:3] if text[:2] != "服务" else "服务"]
        )
        others += [text.format(when=when) for when in whens]
    return [*chosen, *others]


@pytest.mark.parametrize("place", ["above", "below"])
def test_no_all_clear_stands_over_a_sentence_of_failure(place: str) -> None:
    """88 sentences, each beside the log of one healthy server after the other, above and below it: 176 pastes and 24 more."""
    logs = list(LOGS.values())
    wrong = []
    pastes = [(sentence, logs[number % len(logs)]) for number, sentence in enumerate(sentences())]
    pastes += [(sentence, log) for sentence in sentences()[:3] for log in logs[:4]]
    assert len(pastes) == 100
    for sentence, log in pastes:
        text = f"{sentence}\n\n{log}" if place == "above" else f"{log}\n{sentence}\n"
        if oomph.explain(text, plan=False).failed is False:
            wrong.append(sentence)
    assert not wrong


def quoted(log: str) -> str:
    return "".join(f"> {line}\n" for line in log.splitlines())


def compose(log: str) -> str:
    return "".join(f"vllm-1  | {line}\n" for line in log.splitlines())


def kubernetes(log: str) -> str:
    return "".join(
        f"2026-05-14T10:00:{n % 60:02d}.123456789Z stderr F {line}\n" for n, line in enumerate(log.splitlines())
    )


def as_json(log: str) -> str:
    return "".join(json.dumps({"log": f"{line}\n", "stream": "stderr"}) + "\n" for line in log.splitlines())


def escaped(log: str) -> str:
    return html.escape(log)


def wrapped(log: str) -> str:
    """At the 80th column, as a terminal does it."""
    parts = (line[at : at + 80] for line in log.splitlines() for at in range(0, max(1, len(line)), 80))
    return "\n".join(parts) + "\n"


def one_line(log: str) -> str:
    return " ".join(log.split()) + "\n"


DISGUISES: tuple[Callable[[str], str], ...] = (quoted, compose, kubernetes, as_json, escaped, wrapped, one_line)
LOGS_TO_DISGUISE = [
    *sorted((HERE / "whole").glob("*.log")),
    *(HERE / "fixtures" / f"{name}.log" for name in ("B01", "S03")),
]


LOSERS = {"crash_loading one_line: other -> startup_free_memory"}


def test_a_disguise_keeps_the_stage() -> None:
    """Of 16 logs in 7 disguises; one loses what only the order of its lines tells."""
    moved = []
    assert len(LOGS_TO_DISGUISE) == 16
    for path in LOGS_TO_DISGUISE:
        log = path.read_text(encoding="utf-8")
        stage = oomph.explain(log, plan=False).stage
        for disguise in DISGUISES:
            if (now := oomph.explain(disguise(log), plan=False).stage) != stage:
                moved.append(f"{path.stem} {disguise.__name__}: {stage} -> {now}")
    assert set(moved) <= LOSERS


UNKNOWN_WORDS = (
    "Beim zweiten Nutzer kracht es.",
    "After lunch the thing zorps and my users are angry.",
    "服务启动正常，过一会儿就没响应了。",
    "Comes up like this, but around noon the container is replaced because it used too much memory.",
    "Segmentation fault later on. Start:",
)


@pytest.mark.parametrize("name", LOGS)
def test_no_all_clear_stands_over_a_sentence_that_nobody_has_read(name: str) -> None:
    for sentence in UNKNOWN_WORDS:
        for text in (f"{sentence}\n\n{LOGS[name]}", f"{LOGS[name]}\n{sentence}\n"):
            assert oomph.explain(text, plan=False).failed is not False, sentence


@pytest.mark.parametrize(
    "sentence", ["Here is the log of the start:", "It works fine now, thanks!", "Hier das Startlog:"]
)
def test_a_sentence_that_hands_a_healthy_log_over_changes_nothing(sentence: str) -> None:
    for log in LOGS.values():
        assert oomph.explain(f"{sentence}\n\n{log}", plan=False).failed is False
