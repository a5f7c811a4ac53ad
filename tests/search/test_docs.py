"""Every serve command that docs/fit.md shows still plans to "fits". tests/test_docs_run.py runs its commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from oomph.answers.plan import plan

DOC = (Path(__file__).parents[2] / "docs" / "fit.md").read_text()
SCREENS = re.findall(r"```console\n\$ (oomph [^\n]*)\n(.*?)```", DOC, re.DOTALL)


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
