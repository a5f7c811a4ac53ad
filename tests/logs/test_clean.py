"""What docker, Kubernetes, journald, Ray and forums put around a message comes off again."""

from __future__ import annotations

import pytest

from oomph.logs.clean import clean, lines, unfold
from oomph.logs.reader import RawLine, read_text

MESSAGE = "Model loading took 14.2474 GiB and 5.1 seconds"
LOGGED = f"INFO 04-29 01:07:41 [gpu_model_runner.py:1347] {MESSAGE}"


@pytest.mark.parametrize(
    ("text", "process", "rank"),
    [
        (LOGGED, "", None),
        (f"qwen3-1  | (VllmWorker rank=0 pid=105) {LOGGED}", "VllmWorker", 0),
        (f"(Worker_TP1 pid=3) {LOGGED}", "Worker", 1),
        (f"(Worker_PP1_TP0 pid=3) {LOGGED}", "Worker", 0),
        (f"(EngineCore_DP0 pid=3) {LOGGED}", "EngineCore", None),
        (f"2026-05-14T12:35:46.867123456Z stdout F (EngineCore pid=2) {LOGGED}", "EngineCore", None),
        (f"2026-05-14 12:35:46.867 | {LOGGED}", "", None),
        (f"Apr 24 15:55:51 host vllm[5616]: {LOGGED}", "", None),
        (f"\x1b[1;36m(EngineCore pid=2)\x1b[0;0m {LOGGED}", "EngineCore", None),
        (f"> {LOGGED}", "", None),
        (f"[rank3]: {LOGGED}", "", 3),
        (LOGGED.replace("[", r"\[").replace("]", r"\]"), "", None),
        (LOGGED.replace("[gpu_model_runner.py:1347]", "gpu_model_runner.py:1347]"), "", None),
        (LOGGED.replace("[gpu", "[v1/worker/gpu"), "", None),
        (f"loading: 10%\rloading: 90%\r{LOGGED}", "", None),
    ],
)
def test_prefixes(text: str, process: str, rank: int | None) -> None:
    line = clean(RawLine(7, text))
    assert line.text == MESSAGE and (line.file, line.at) == ("gpu_model_runner.py", 1347)
    assert (line.number, line.process, line.rank) == (7, process, rank)


def test_markdown_and_quotes() -> None:
    assert clean(RawLine(1, r'File "core.py", line 8, in **init**')).text == 'File "core.py", line 8, in __init__'
    assert clean(RawLine(1, r"self.\_init(\*args, {‘a’: “b”})")).text == "self._init(*args, {'a': \"b\"})"


def test_a_terminal_fold_is_undone() -> None:
    head = "INFO 04-29 01:07:41 [gpu_worker.py:298] Available KV cache memory"
    text = "".join(f"{head}: {i}.25 GiB and some more words\n" for i in range(9))
    folded = "\n".join(row[at : at + 80] for row in text.splitlines() for at in range(0, len(row), 80))
    assert [line.text for line in unfold(read_text(folded).lines)] == text.splitlines()


def test_a_log_that_is_not_folded_stays() -> None:
    text = "\n".join(["a" * 70, "b" * 90, "c" * 90, "d" * 30, "e" * 10, "f"])
    assert [line.text for line in unfold(read_text(text).lines)] == text.splitlines()


def test_empty_and_odd_lines() -> None:
    assert [line.text for line in lines(read_text("\r\n\x1b[0m\n(\n[\n").lines)][:4] == ["", "", "(", "["]


def test_what_an_editor_broke_between_words_is_one_line_again() -> None:
    header = "(EngineCore pid=258) INFO 05-30 01:45:33 "
    text = (
        f"{header}[gpu_model_runner.py:4959] Model\nloading took 65.97 GiB memory and 3.100000 seconds\n"
        f"{header}[gpu_worker.py:462] Available KV cache\nmemory: -2.14 GiB\n"
    )
    assert [line.text for line in lines(read_text(text).lines)] == [
        "Model loading took 65.97 GiB memory and 3.100000 seconds", "Available KV cache memory: -2.14 GiB",
    ]  # fmt: skip
