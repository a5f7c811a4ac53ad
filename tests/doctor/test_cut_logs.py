"""An all-clear is earned: no beginning of a run that failed is called healthy.

Every fixture of a failed run is cut behind each of its lines, in the middle of its last line, and with the lines of
its processes in another order. `failed` may be true or null; false is right only where a line of a running server is
in the text, which only a server that was up prints.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from oomph.doctor.explain import observe_raw, read_case
from oomph.doctor.reading.failure import last_ready
from oomph.doctor.reading.stages import chosen_run, death
from oomph.logs.reader import read_text

HERE = Path(__file__).parent
MOST = 60  # lines of a fixture at which it is cut, spread over it


@lru_cache
def failed_texts() -> tuple[tuple[str, str], ...]:
    """Fixtures and short pastes of runs that failed."""
    fixtures = [(path.stem, path.read_text(encoding="utf-8")) for path in sorted((HERE / "fixtures").glob("*.log"))]
    rows = (HERE / "excerpts.jsonl").read_text(encoding="utf-8").splitlines()
    excerpts = [(f"excerpt {number}", json.loads(row)["text"]) for number, row in enumerate(rows)]
    return tuple((name, text) for name, text in [*fixtures, *excerpts] if _failed(text) is True)


def _failed(text: str) -> bool | None:
    lines, observations = observe_raw(read_text(text + "\n"))
    chosen, _ = chosen_run(observations)
    return death(chosen, lines).failed


def _was_up(text: str) -> bool:
    return last_ready(observe_raw(read_text(text + "\n"))[1]) > 0


def _cuts(text: str) -> Iterator[str]:
    lines = text.splitlines()
    step = max(1, len(lines) // MOST)
    for count in range(1, len(lines), step):
        yield "\n".join(lines[:count])
        yield "\n".join([*lines[:count], lines[count][: len(lines[count]) // 2]])


def test_there_are_texts_to_cut() -> None:
    assert len(failed_texts()) > 300


@pytest.mark.parametrize("part", range(8))
def test_a_failed_run_that_is_cut_off_is_never_called_healthy(part: int) -> None:
    wrong = [
        (name, cut.splitlines()[-1][:120])
        for name, text in failed_texts()[part::8]
        for cut in _cuts(text)
        if _failed(cut) is False and not _was_up(cut)
    ]
    assert not wrong


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_processes_that_print_in_another_order_change_nothing_about_that(data: st.DataObject) -> None:
    """The lines of each process stay in order, as a terminal shows them; which of two comes first is chance."""
    _, text = data.draw(st.sampled_from(failed_texts()))
    lines = text.splitlines()
    queues = [[line for line in lines if _who(line) == who] for who in dict.fromkeys(map(_who, lines))]
    mixed: list[str] = []
    while any(queues):
        queue = data.draw(st.sampled_from([queue for queue in queues if queue]))
        mixed.append(queue.pop(0))
    count = data.draw(st.integers(1, len(mixed)))
    cut = "\n".join(mixed[:count])
    assert _failed(cut) is not False or _was_up(cut)


def _who(line: str) -> str:
    """The head that a process puts before its lines: "(Worker_TP0 pid=12)", "[rank1]:"."""
    return line.split(")")[0] if line.startswith("(") else line.split("]")[0] if line.startswith("[") else ""


UP = (
    "INFO 05-01 10:00:00 [api_server.py:90] Starting vLLM server on http://0.0.0.0:8000\n"
    "INFO:     Application startup complete.\n"
)
BAD_ENDS = [
    "(raylet) A worker exited unexpectedly. Worker exit type: SYSTEM_ERROR",
    "pod/vllm-0 was evicted",
    "kernel: nvidia-modeset: the GPU is dead",
    "Connection to the scheduler was lost: peer died",
    "watchdog: the process hung for 120 s",
]


@pytest.mark.parametrize("end", BAD_ENDS)
def test_a_bad_end_in_words_that_no_row_has_leaves_it_open(end: str) -> None:
    assert read_case(UP).failed is False
    assert read_case(f"{UP}{end}\n").failed is not False


@pytest.mark.parametrize(
    "title", ["vLLM crashes after an hour", "server OOM", "worker died silently", "Ollama fails on big prompts"]
)
def test_a_title_that_says_that_it_failed_leaves_it_open(title: str) -> None:
    assert read_case(UP).failed is False
    assert read_case(f"# {title}\n{UP}").failed is not False


def test_words_of_errors_that_did_not_happen_leave_a_healthy_log_healthy() -> None:
    for line in ("requests: 120, failed: 0", "benchmark done without errors", "error rate 0.0 %"):
        assert read_case(f"{UP}{line}\n").failed is False
