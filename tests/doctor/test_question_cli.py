"""The question of an explanation: asked on a terminal, never of a pipe; its answer continues from there."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (
    "It crashes during inference with vllm serve Qwen/Qwen3-8B:\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB.\n"
)
COMMAND = (sys.executable, "-m", "oomph", "explain", "--no-plan")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "post.txt"
    path.write_text(TEXT)
    return path


def on_a_terminal(words: tuple[str, ...], reply: str) -> str:
    """What the command prints on a terminal whose user types `reply`."""
    parent, child = pty.openpty()
    process = subprocess.Popen(words, stdin=child, stdout=child, stderr=child, close_fds=True)
    os.close(child)
    os.write(parent, reply.encode())
    printed = b""
    while True:
        try:
            piece = os.read(parent, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        printed += piece
    os.close(parent)
    assert process.wait(20) == 0
    return printed.decode()


@pytest.mark.parametrize(("reply", "where"), [("n\n", "while loading the weights"), ("yes\n", "while serving")])
def test_the_answer_decides_the_stage(log: Path, reply: str, where: str) -> None:
    printed = on_a_terminal((*COMMAND, str(log)), reply)
    before, asked, after = printed.partition("[y/n, Enter skips]")
    assert "most likely while serving, or while loading the weights" in before and asked
    assert "most likely" not in after and where in after


@pytest.mark.parametrize("reply", ["\n", "perhaps\n"])
def test_enter_skips(log: Path, reply: str) -> None:
    printed = on_a_terminal((*COMMAND, str(log)), reply)
    assert printed.count("FAILED") == 1 and "[y/n, Enter skips]" in printed


@pytest.mark.parametrize("option", ["--no-input", "--json"])
def test_nothing_waits_where_nobody_is_to_be_asked(log: Path, option: str) -> None:
    assert "Enter skips" not in on_a_terminal((*COMMAND, option, str(log)), "")


def test_a_pipe_is_never_asked(log: Path) -> None:
    done = subprocess.run((*COMMAND, str(log)), capture_output=True, text=True, stdin=subprocess.PIPE, timeout=20)
    assert done.returncode == 0 and "Question" in done.stdout and "Enter skips" not in done.stdout


def test_a_stage_that_is_known_is_given(log: Path) -> None:
    done = subprocess.run(
        (*COMMAND, "--stage", "kv_check", str(log)),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=20,
    )
    assert "FAILED at the KV cache check" in done.stdout
