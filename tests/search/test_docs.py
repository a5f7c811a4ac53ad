"""The commands of docs/fit.md run, and every serve command that it shows still plans to "fits"."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from oomph.plan import plan

DOC = (Path(__file__).parents[2] / "docs" / "fit.md").read_text()
SCREENS = re.findall(r"```console\n\$ (oomph [^\n]*)\n(.*?)```", DOC, re.DOTALL)
COMMANDS = [
    line.split("  #")[0].strip()
    for block in re.findall(r"```sh\n(.*?)```", DOC, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("oomph")
]


def test_five_cases() -> None:
    assert len(SCREENS) == 5


@pytest.mark.parametrize(("command", "shown"), SCREENS, ids=[c[:40] for c, _ in SCREENS])
def test_the_shown_command_fits(command: str, shown: str) -> None:
    gpu = shlex.split(command)[shlex.split(command).index("--gpu") + 1]
    text = re.search(r"^ +(vllm serve .*?)\n\n", shown, re.DOTALL | re.MULTILINE)
    assert text is not None
    serve = text[1].replace("\\\n", " ")
    version = re.search(r"vLLM (\d+\.\d+\.\d+)", shown)
    assert version is not None
    made = plan(serve, gpu=gpu, engine=f"vllm=={version[1]}")
    assert made.fits, "run: make screens"


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str) -> None:
    words = shlex.split(command)[1:]
    done = subprocess.run([sys.executable, "-m", "oomph", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout
    assert done.stderr == ""
