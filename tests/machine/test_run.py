"""`oomph run` with children that replay a start-up, die, flood, fork, hang and are interrupted."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

START = """\
INFO 11-15 10:00:00 [core.py:109] Initializing a V1 LLM engine (v0.21.0) with config: model='Llama-3.1-8B'
INFO 11-15 10:00:01 [gpu_model_runner.py:4857] Starting to load model meta-llama/Llama-3.1-8B-Instruct...
INFO 11-15 10:00:05 [gpu_model_runner.py:4959] Model loading took 15.0 GiB memory and 4.000000 seconds
INFO 11-15 10:00:20 [gpu_worker.py:462] Available KV cache memory: 55.5 GiB
INFO 11-15 10:00:20 [kv_cache_utils.py:1710] GPU KV cache size: 454,656 tokens
INFO:     Application startup complete.
"""
DIES = (
    "ERROR 11-15 10:00:06 [core.py:1108] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. "
    "GPU 0 has a total capacity of 11.63 GiB of which 115.56 MiB is free. Including non-PyTorch memory, this process "
    "has 11.40 GiB memory in use. Of the allocated memory 10.90 GiB is allocated by PyTorch, and 20.00 MiB is reserved "
    "by PyTorch but unallocated.\n"
)
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


@pytest.fixture
def vllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called vllm that does what `script.py` beside it says."""
    program = tmp_path / "vllm"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path}/script.py" "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("OOMPH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "script.py"


def oomph(*args: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "oomph", *args]
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False)


def serve(*more: str, gpu: str = "H100", before: tuple[str, ...] = ()) -> list[str]:
    return ["run", "--gpu", gpu, "--engine", "vllm==0.21.0", *before, "--", "vllm", "serve", LLAMA, *more]


def test_predicted_next_to_actual(vllm: Path) -> None:
    vllm.write_text(
        f"import sys, time\nfor line in {START!r}.splitlines():\n    print(line, flush=True); time.sleep(0.02)\n"
    )
    done = oomph(*serve())
    assert done.returncode == 0
    assert done.stdout == START  # untouched
    assert "oomph: weights: 15.0 GiB, predicted 15.0 GiB" in done.stderr
    assert "oomph: KV cache memory: 55.5 GiB, predicted" in done.stderr
    assert "oomph: KV cache tokens: 454,656, predicted" in done.stderr


def test_starts_that_agree_correct_the_next_plan(vllm: Path) -> None:
    for minute in range(3):  # the same log again would be no second start
        vllm.write_text(f"print({START.replace(' 10:00:', f' 10:0{minute}:')!r}, end='')\n")
        oomph(*serve())
    again = oomph(*serve())
    assert "measured here" in again.stderr
    said = next(x for x in again.stderr.splitlines() if "KV cache memory" in x)
    assert said.endswith("predicted 55.5 GiB")


def test_what_cannot_fit_is_not_started(vllm: Path) -> None:
    vllm.write_text("print('started')\n")
    done = oomph(*serve(gpu="RTX 3060 12GB"))
    assert done.returncode == 1 and "started" not in done.stdout
    assert "WILL NOT START   out of memory while loading the weights" in done.stderr and "--force" in done.stderr
    forced = oomph(*serve(gpu="RTX 3060 12GB", before=("--force",)))
    assert forced.returncode == 0 and "started" in forced.stdout


def test_a_death_is_explained_at_once(vllm: Path) -> None:
    head = START.splitlines(keepends=True)
    vllm.write_text(f"import sys\nprint({''.join(head[:2])!r}, end='')\nprint({DIES!r}, end='')\nsys.exit(1)\n")
    done = oomph(*serve(gpu="RTX 3060 12GB", before=("--force",)))
    assert done.returncode == 1
    assert "FAILED while loading the weights" in done.stderr


def test_exit_codes_pass_through(vllm: Path) -> None:
    vllm.write_text("import sys; sys.exit(7)\n")
    assert oomph(*serve()).returncode == 7
    vllm.write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n")
    assert oomph(*serve()).returncode == 137


def test_no_such_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OOMPH_CACHE", str(tmp_path))
    done = oomph("run", "--", "/nowhere/vllm", "serve", LLAMA)
    assert done.returncode == 2 and "no such program" in done.stderr and "Traceback" not in done.stderr


def test_a_flood_and_a_line_without_end(vllm: Path) -> None:
    vllm.write_text("import sys\nsys.stdout.write('x' * 5_000_000)\nfor i in range(40_000): print('noise', i)\n")
    done = oomph(*serve())
    assert done.returncode == 0
    assert done.stdout.startswith("x" * 5_000_000) and done.stdout.endswith("noise 39999\n")


def test_a_grandchild_that_keeps_the_pipe(vllm: Path) -> None:
    sleeper = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)'])"
    vllm.write_text(f"import subprocess, sys\n{sleeper}\nprint('done')\n")
    began = time.monotonic()
    done = oomph(*serve())
    assert done.returncode == 0 and "done" in done.stdout
    assert time.monotonic() - began < 18


def test_a_grandchilds_late_lines_are_kept(vllm: Path) -> None:
    late = "import time\nfor n in range(3):\n    time.sleep(1.2); print('late', n, flush=True)\n"
    vllm.write_text(
        f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {late!r}])\nprint('done', flush=True)\n"
    )
    done = oomph(*serve())
    assert done.returncode == 0 and done.stdout == "done\nlate 0\nlate 1\nlate 2\n"


def test_the_child_dies_with_us(vllm: Path) -> None:
    vllm.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n")
    words = [sys.executable, "-m", "oomph", *serve()]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        child = psutil.Process(int(running.stdout.readline()))
        running.kill()
    assert not psutil.wait_procs([child], timeout=10)[1]


def test_a_stop_stops_both(vllm: Path) -> None:
    vllm.write_text("import os, time\nprint(os.getpid(), flush=True)\nfor _ in range(600):\n    time.sleep(0.1)\n")
    words = [sys.executable, "-m", "oomph", *serve()]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        both = [psutil.Process(running.pid), psutil.Process(int(running.stdout.readline()))]
        for number, stopped in ((signal.SIGTSTP, True), (signal.SIGCONT, False), (signal.SIGTSTP, True)):
            running.send_signal(number)
            _wait_until(lambda stopped=stopped: all((p.status() == psutil.STATUS_STOPPED) is stopped for p in both))
        running.send_signal(signal.SIGCONT)
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 143


def _wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_reader_that_goes_away_ends_it_gently(vllm: Path, tmp_path: Path) -> None:
    vllm.write_text(
        "import pathlib, signal, sys, time\n"
        f"def stop(n, f):\n    pathlib.Path({str(tmp_path / 'ended')!r}).write_text('by ' + str(n)); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "while True:\n    print('x' * 1000, flush=True)\n"
    )
    words = [sys.executable, "-m", "oomph", *serve()]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.wait(20) == 141
    assert (tmp_path / "ended").read_text() == "by 15"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_reach_the_child(vllm: Path, number: signal.Signals) -> None:
    vllm.write_text(
        "import signal, sys, time\n"
        "def stop(n, f):\n    print('stopping', n, flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGINT, stop); signal.signal(signal.SIGTERM, stop)\n"
        "print('ready', flush=True)\ntime.sleep(60)\n"
    )
    words = [sys.executable, "-m", "oomph", *serve()]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(number)
        assert running.stdout.readline() == f"stopping {int(number)}\n"
        assert running.wait(20) == 0


def test_a_snapshot_is_asked_of_the_engine(vllm: Path, tmp_path: Path) -> None:
    """The plugin inside of vLLM reads the variable; whether one was written is said."""
    path = tmp_path / "memory.pickle"
    vllm.write_text(f"import os, sys\nopen(os.environ['OOMPH_SNAPSHOT'], 'w').close()\nprint({DIES!r})\nsys.exit(1)\n")
    died = oomph(*serve(before=("--snapshot", str(path))))
    assert f"oomph explain {path}" in died.stderr
    vllm.write_text("import sys\nsys.exit(1)\n")
    path.unlink()
    assert f"no snapshot was written to {path}" in oomph(*serve(before=("--snapshot", str(path)))).stderr
