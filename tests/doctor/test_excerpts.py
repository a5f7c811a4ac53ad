"""Short pastes of every engine and stage, in our own words for their shapes: a paste of three lines is a log, and what
stands around its lines (a container's prefix, colours, quotation marks, a second copy) changes nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from oomph.doctor.explain import explain_case, read_case

ROWS = [
    json.loads(line) for line in (Path(__file__).parent / "excerpts.jsonl").read_text(encoding="utf-8").splitlines()
]

EVERY = 1 if os.environ.get("OOMPH_EXCERPTS") == "all" else 3  # `make long` wraps each of them in everything


def judged(text: str) -> tuple[bool | None, str | None]:
    result = explain_case(read_case(text + "\n"))
    return result.failed, result.stage


@pytest.mark.parametrize("number", range(len(ROWS)), ids=lambda n: f"{n}-{ROWS[n]['engine']}-{ROWS[n]['stage']}")
def test_the_stage_of_a_short_paste(number: int) -> None:
    assert judged(ROWS[number]["text"]) == (True, ROWS[number]["stage"])


def _each(change: Callable[[int, str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(change(number, line) for number, line in enumerate(text.split("\n")))


def _json(number: int, line: str) -> str:
    return json.dumps({"log": line + "\n", "stream": "stderr", "time": f"2026-05-01T10:00:{number % 60:02}.0Z"})


WRAPPERS: dict[str, Callable[[str], str]] = {
    "docker compose": _each(lambda _, line: f"server-1  | {line}"),
    "kubectl --timestamps": _each(lambda number, line: f"2026-05-01T10:00:{number % 60:02}.123456789Z {line}"),
    "CRI": _each(lambda number, line: f"2026-05-01T10:00:{number % 60:02}.123456789Z stderr F {line}"),
    "systemd": _each(lambda number, line: f"May 01 10:00:{number % 60:02} node7 serve[4242]: {line}"),
    "docker's JSON": _each(_json),
    "colours": _each(lambda _, line: f"\x1b[1;36m{line}\x1b[0m"),
    "CRLF": _each(lambda _, line: f"{line}\r"),
    "a quoted mail": _each(lambda _, line: f"> {line}"),
    "indented in a list": _each(lambda _, line: f"   {line}"),
    "a fence": lambda text: f"```\n{text}\n```",
    "a details block": lambda text: f"<details>\n<summary>log</summary>\n\n```text\n{text}\n```\n</details>",
    "twice": lambda text: f"{text}\n{text}",
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_what_stands_around_the_lines_changes_nothing(wrapper: str) -> None:
    different = []
    for row in ROWS[list(WRAPPERS).index(wrapper) % EVERY :: EVERY]:
        answer = judged(WRAPPERS[wrapper](row["text"]))
        if answer != (True, row["stage"]):
            different.append((row["text"][:80], answer, row["stage"]))
    assert not different


def test_lines_behind_the_failure_change_nothing() -> None:
    """A shell's prompt, a warning of Python's at its end, an empty line."""
    warning = "/usr/lib/python3.12/multiprocessing/resource_tracker.py:279: UserWarning: leaked semaphore objects"
    tail = f"\n{warning}\n\nroot@gpu:~# "
    assert [row["text"][:80] for row in ROWS if judged(row["text"] + tail) != (True, row["stage"])] == []
