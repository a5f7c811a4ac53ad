"""screens.py: run the `$ oomph ...` commands of README.md and docs/fit.md and put what they print under them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = (ROOT / "README.md", ROOT / "docs" / "fit.md")
SCREEN = re.compile(r"```console\n\$ (oomph [^\n]*)\n(.*?)```", re.DOTALL)


def screen(command: str) -> str:
    words = shlex.split(command)
    done = subprocess.run(
        [sys.executable, "-m", "oomph", *words[1:]],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "80", "NO_COLOR": "1"},
    )
    lines = done.stdout.strip("\n").splitlines()
    return "\n".join(["", *(line.rstrip() for line in lines), ""])


def refreshed(text: str) -> str:
    return SCREEN.sub(lambda m: f"```console\n$ {m[1]}\n{screen(m[1])}```", text)


if __name__ == "__main__":
    for path in FILES:
        path.write_text(refreshed(path.read_text()))
