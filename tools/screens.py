"""screens.py: run the `$ oomph ...` commands of README.md, docs/start.md, docs/fit.md and docs/seeds.md, and put what
they print under them. A screen of README.md and docs/seeds.md is the first lines of a longer answer: it keeps as many
as it has."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
FILES = (ROOT / "docs" / "start.md", ROOT / "docs" / "fit.md")
SEEDS = ROOT / "docs" / "seeds.md"  # of the texts in tests/seeds
SCREEN = re.compile(r"```console\n\$ (oomph [^\n]*)\n(.*?)```", re.DOTALL)


def screen(command: str, width: int = 80, most: int | None = None) -> str:
    words = shlex.split(command)
    done = subprocess.run(
        [sys.executable, "-m", "oomph", *words[1:]],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"COLUMNS": str(width), "NO_COLOR": "1"},
    )
    lines = done.stdout.strip("\n").splitlines()[:most]
    return "\n".join(["", *(line.rstrip() for line in lines), ""])


def refreshed(text: str) -> str:
    return SCREEN.sub(lambda m: f"```console\n$ {m[1]}\n{screen(m[1])}```", text)


def shortened(text: str, width: int = 96) -> str:
    """Each screen as long as it was."""
    return SCREEN.sub(
        lambda m: f"```console\n$ {m[1]}\n{screen(m[1], width, len(m[2].strip(chr(10)).splitlines()))}```", text
    )


if __name__ == "__main__":
    for path in FILES:
        path.write_text(refreshed(path.read_text()))
    README.write_text(shortened(README.read_text(), 80))
    SEEDS.write_text(shortened(SEEDS.read_text()))
