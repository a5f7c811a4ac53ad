"""Systems without POSIX: what Windows lacks is taken away in a process of its own, and every command is tried."""

import subprocess
import sys

import pytest

# names that Windows' Python does not have, and modules that cannot be imported there
_WITHOUT = """
import os, signal, sys
for module in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[module] = None
for name in ("fork", "getpgid", "getuid", "killpg", "setsid", "uname", "O_NOFOLLOW", "sched_getaffinity"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGQUIT", "SIGTSTP", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCONT"):
    if hasattr(signal, name):
        delattr(signal, name)
"""
_EACH = """
import importlib, pkgutil
from oomph.cli import commands
for module in pkgutil.iter_modules(commands.__path__):
    importlib.import_module(f"oomph.cli.commands.{module.name}")
"""
_CALL = "from oomph.cli.main import main; sys.argv = ['oomph', *sys.argv[1:]]; sys.exit(main())"


def _run(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", _WITHOUT + code, *words], capture_output=True, text=True)


def test_every_command_can_be_imported() -> None:
    assert _run(_EACH).returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ("plan --gpu H100 -- vllm serve Qwen/Qwen3-8B", 0, "FITS"),
        ("run -- vllm serve Qwen/Qwen3-8B", 2, "which Windows does not have"),
        ("learn --list", 0, ""),
    ],
)
def test_a_command_answers(words: str, code: int, sentence: str) -> None:
    run = _run(_CALL, *words.split())
    assert run.returncode == code, run.stderr
    assert sentence in run.stdout + run.stderr and "Traceback" not in run.stderr
