"""A log with several start-ups: each explained on its own lines."""

from __future__ import annotations

from pathlib import Path

from oomph.doctor.runs import MOST_RUNS, explain_runs
from three_logs import GEMMA

ARGS = "INFO 11-15 10:00:00 [api_server.py:10] non-default args: {'model': 'Qwen/Qwen3-8B'}\n"
ENGINE = "INFO 11-15 10:00:00 [core.py:109] Initializing a V1 LLM engine (v0.21.0) with config: model='Qwen/Qwen3-8B'\n"
DIED = (
    "ValueError: Free memory on device cuda:0 (10.1/23.52 GiB) on startup is less than desired GPU memory utilization "
    "(0.92, 21.64 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
)
RUN = ARGS + ENGINE + DIED


def test_one_run_is_the_whole_log(tmp_path: Path) -> None:
    log = tmp_path / "one.log"
    log.write_text(GEMMA)
    (run,) = explain_runs(str(log))
    assert run.explanation.cause.id == "L02" and run.explanation.failed


def test_each_run_has_its_own_lines(tmp_path: Path) -> None:
    log = tmp_path / "two.log"
    log.write_text(RUN * 3)
    runs = explain_runs(str(log))
    assert [(run.first_line, run.last_line) for run in runs][:2] == [(1, 3), (4, 6)]
    assert all(run.explanation.failed and run.explanation.stage == "startup_free_memory" for run in runs)
    for run in runs:
        assert all(run.first_line <= line.line <= run.last_line for line in run.explanation.evidence)


def test_a_service_that_was_restarted_for_days(tmp_path: Path) -> None:
    log = tmp_path / "many.log"
    log.write_text(RUN * 50)
    runs = explain_runs(str(log), plan=False)
    assert len(runs) == MOST_RUNS and runs[-1].last_line >= 150
