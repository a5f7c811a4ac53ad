"""Several engines, replicas and ranks in one group of processes: each has a record of its own, and one voice."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_vllm_plugin import PLUGIN, ROOT, Played, play

KILLED = "without an error of its own"


def names(played: Played, instance: int) -> set[str]:
    (folder,) = played.cache.glob(f"runs/*-{instance}*")
    return {file.stem for file in folder.glob("*.json")}


def test_two_engines_of_one_process_have_a_record_each(tmp_path: Path) -> None:
    played = play(tmp_path, engines=["healthy", "weights_load", "healthy"])
    assert names(played, 1000) == names(played, 1002) == {"engine", "cards", "rank0", "start"}
    assert names(played, 1001) == {"engine", "cards", "rank0", "death-rank0"}
    assert played.output.count("oomph: FITS") == 3 and played.output.count("oomph: DIED while loading") == 1


def test_the_engine_that_was_killed_is_told_from_those_that_ended_or_run(tmp_path: Path) -> None:
    played = play(tmp_path, engines=["ended", "healthy", "killed", "gone", "gone"])
    assert played.output.count(KILLED) == 1 and "killed" in names(played, 1002)
    assert "killed" not in names(played, 1000) | names(played, 1001)


def test_an_engine_that_its_server_stops_was_not_killed(tmp_path: Path) -> None:
    """As vLLM does by default (--shutdown-timeout 0): SIGTERM, SIGKILL at once, then EngineDeadError for its tasks."""
    played = play(tmp_path, engines=["stopped", "gone", "killed", "gone"])
    assert played.output.count(KILLED) == 1
    assert "killed" not in names(played, 1000) and "killed" in names(played, 1002)


def test_only_the_first_replica_speaks(tmp_path: Path) -> None:
    played = play(tmp_path, engines=["replica", "gone"])
    assert "oomph" not in played.output and names(played, 1000) == {"engine", "rank0"}
    (folder,) = played.cache.glob("runs/*")
    assert folder.name.endswith("-1000-dp2")


@pytest.mark.parametrize(("rank", "speaks"), [("0", True), ("1", False)])
def test_only_the_first_of_launched_engines_speaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: str, speaks: bool
) -> None:
    """torchrun starts a whole engine for each rank, as trainers do."""
    monkeypatch.setenv("RANK", rank)
    played = play(tmp_path, first="config.parallel_config.distributed_executor_backend = 'external_launcher'")
    assert ("oomph: FITS" in played.output) is speaks and "result 1985 output" in played.output


def test_a_rank_that_dies_alone_is_explained_once(tmp_path: Path) -> None:
    played = play(tmp_path, engines=["a rank", "gone"])
    assert played.output.count("oomph: DIED while loading the weights, in model.layers.7") == 1
    assert "on rank 1" in played.output and KILLED not in played.output
    assert {"death-rank1"} <= names(played, 1000) and "death-rank0" not in names(played, 1000)


FORKS_WHILE_PLANNED = """
import os, sys, threading, oomph_vllm.hooks as h, oomph_vllm.planning as p
begun, goes_on = threading.Event(), threading.Event()
def slowly(*_):
    begun.set(); goes_on.wait(60); raise ValueError
p.words, p.value_at, p.make_plan, p.lines.say = (lambda _: []), (lambda *_: None), slowly, (lambda _: None)
p.Planned(None, "0.32.0", None, False)
begun.wait()
if {waits}: threading.Timer(0.3, goes_on.set).start()
else: p.WAIT_S = 0.01
if not (child := os.fork()):
    os._exit(h._Trouble.is_over)
goes_on.set()
print(os.waitpid(child, 0)[1] >> 8, h._Trouble.is_over)
"""


@pytest.mark.parametrize("waits", [True, False])
def test_no_process_is_forked_while_a_plan_imports(waits: bool) -> None:
    """The child could import nothing that was being imported: it begins when the plan is there, or watches nothing."""
    path = os.pathsep.join(map(str, (PLUGIN, ROOT / "src")))
    environment = {**os.environ, "PYTHONPATH": path}
    code = FORKS_WHILE_PLANNED.format(waits=waits)
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout.split() == (["0", "False"] if waits else ["1", "False"]), run.stderr


def test_a_rank_that_is_killed_is_no_error_of_the_engine(tmp_path: Path) -> None:
    played = play(tmp_path, engines=["a lost rank", "gone"])
    assert played.output.count(f"ended while loading the weights {KILLED}") == 1
    assert "raised RuntimeError WorkerProc initialization failed" in played.output and "DIED" not in played.output


def test_an_error_of_the_engine_itself_is_no_kill(tmp_path: Path) -> None:
    played = play(tmp_path, engines=["loop", "gone"])
    assert played.output.count("oomph: DIED while serving: AssertionError") == 1 and KILLED not in played.output
