"""The oomph command: dispatch, exit codes, one sentence for every refusal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import making
from calling import call
from oomph.cli import main as cli
from oomph.cli.main import dispatch
from oomph.errors import CommandError

BIN = [sys.executable, "-m", "oomph"]


def run(*args: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*BIN, *args], capture_output=True, text=True, timeout=60, **kwargs)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("vllm serve M", "plan -- vllm serve M"),
        ("--gpu H100 vllm serve M -tp 2", "plan --gpu H100 -- vllm serve M -tp 2"),
        ("--json --gpu=H100 vllm serve M --json", "plan --json --gpu=H100 -- vllm serve M --json"),
        ("docker run vllm/vllm-openai --model M", "plan -- docker run vllm/vllm-openai --model M"),
        ("-- vllm serve M", "plan -- vllm serve M"),
        ("--gpu H100 -- vllm serve M", "plan --gpu H100 -- vllm serve M"),
        ("plan --gpu H100 -- vllm serve M", "plan --gpu H100 -- vllm serve M"),
        ("--gpu H100 plan -- vllm serve M", "plan --gpu H100 -- vllm serve M"),
        ("--json inspect M", "inspect --json M"),
        ("inspect M --json", "inspect M --json"),
        ("compose.yaml", "plan -- compose.yaml"),
        ("--version", "--version"),
        ("", "--help"),
        ("-h", "--help"),
        ("help", "--help"),
    ],
)
def test_dispatch(typed: str, meant: str) -> None:
    name, rest = dispatch(typed.split())
    assert [name, *rest] == meant.split()


def test_a_misspelt_command_is_no_engine() -> None:
    with pytest.raises(CommandError, match="no command 'inspekt'") as refused:
        dispatch(["inspekt", "x"])
    assert "inspect" in refused.value.hint
    with pytest.raises(CommandError, match="no command 'pln'"):
        dispatch(["pln", "vllm", "serve", "x"])
    assert dispatch(["srun", "vllm", "serve", "x"])[0] == "plan"
    with pytest.raises(CommandError, match="--gpu belongs to a command"):
        dispatch(["--gpu", "H100"])


def test_help_lists_what_is_there() -> None:
    assert run("--help").stdout == call("--help").stdout  # the program and the function
    done = call("--help")
    assert done.returncode == 0
    for name in ("plan", "inspect", "explain", "gpus"):
        assert f"\n  {name} " in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("command", list(cli.COMMANDS))
def test_every_command_has_help(command: str) -> None:
    done = call(command, "--help")
    assert done.returncode == 0
    assert f"oomph {command}" in done.stdout


def test_version() -> None:
    assert call("--version").stdout.startswith("oomph 0.")
    assert call("-V").stdout == call("--version").stdout


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["inspect"], 2, "Missing argument"),
        (["inspect", "--nonsense", "x"], 2, "No such option"),
        (["inspect", "./nowhere"], 2, "there is no file or folder"),
        (["inspect", "xyzzy"], 3, "no folder, file or catalogue entry"),
        (["gpus", "RTX 9999 Ti Super"], 2, "RTX 9999"),
    ],
)
def test_refusals_are_one_sentence(args: list[str], code: int, says: str) -> None:
    done = call(*args)
    assert done.returncode == code
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert lines[0].startswith("oomph: error: ")
    assert says in lines[0]
    assert len(lines) <= 2
    assert "Traceback" not in done.stderr


def test_debug_shows_the_traceback() -> None:
    assert "Traceback" in run("--debug", "inspect", "./nowhere").stderr
    assert "Traceback" in run("inspect", "./nowhere", "--debug").stderr
    assert "Traceback" in run("explain", "./nowhere.log", "--debug").stderr


def test_nothing_that_a_terminal_would_act_on() -> None:
    done = call("inspect", "./a\x1b[31mred\nline")
    assert "\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_bug_is_one_sentence_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(args: list[str]) -> int:
        raise KeyError("x")

    monkeypatch.setattr(cli, "_run", broken)
    with pytest.raises(SystemExit) as ended:
        cli.main([])
    assert ended.value.code == 70
    assert "a bug in oomph: KeyError" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_quiet() -> None:
    process = subprocess.Popen([*BIN, "gpus"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 141


def hear_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_is_130(tmp_path: Path) -> None:
    """A hub that never answers: a listening socket that nobody accepts from."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        hub = f"http://127.0.0.1:{server.getsockname()[1]}"
        env |= {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": hub, "HF_HOME": str(tmp_path)}
        # A shell without job control lets what it starts behind & ignore the signal, and children inherit that.
        process = subprocess.Popen(
            [*BIN, "inspect", "some/model"], env=env, stderr=subprocess.PIPE, preexec_fn=hear_interrupts
        )
        server.settimeout(30)
        server.accept()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in errors


def test_the_module_runs_where_the_script_is_not_installed(tmp_path: Path) -> None:
    folder = making.folder(tmp_path / "m", making.LLAMA)
    assert run("inspect", str(folder)).returncode == 0


def test_a_timeout_of_ours_and_of_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    from oomph.cli.settings import take_settings
    from oomph.sources.hub import transport

    for words, seconds, left in (
        (["--timeout", "5", "inspect", "org/m"], 5.0, ["inspect", "org/m"]),
        (["inspect", "org/m", "--timeout=7"], 7.0, ["inspect", "org/m"]),
        (["plan", "--timeout", "9", "--gpu", "H100", "--", "x"], 9.0, ["plan", "--gpu", "H100", "--", "x"]),
        (["llama-server", "--timeout", "600"], 60.0, ["llama-server", "--timeout", "600"]),
        (["plan", "--", "llama-server", "--timeout", "600"], 60.0, ["plan", "--", "llama-server", "--timeout", "600"]),
    ):
        monkeypatch.setattr(transport, "QUESTION_SECONDS", 60.0)
        take_settings(words).check()
        assert (transport.QUESTION_SECONDS, words) == (seconds, left)
    assert "number of seconds" in call("--timeout", "soon", "inspect", "x").stderr
