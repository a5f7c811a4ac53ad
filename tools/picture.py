"""picture.py: the picture of the README, docs/screens/plan.svg, from what the program prints on a terminal."""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMAND = 'oomph --gpu "2x RTX 5070 Ti" vllm serve nvidia/Gemma-4-31B-IT-NVFP4 -tp 2'
WIDTH = 96


def terminal(command: str) -> str:
    """What a command prints on a terminal, colours included."""
    words = [sys.executable, "-m", "oomph", "--width", str(WIDTH), *shlex.split(command)[1:]]
    parts: list[bytes] = []

    def read(descriptor: int) -> bytes:
        parts.append(os.read(descriptor, 65536))
        return b""

    os.environ.pop("NO_COLOR", None)
    os.environ["TERM"] = "xterm-256color"
    pty.spawn(words, read)
    return b"".join(parts).decode().replace("\r\n", "\n")


def picture(command: str, printed: str) -> str:
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=WIDTH + 2, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(printed.rstrip()))
    svg = console.export_svg(title="oomph", unique_id="oomph")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # no font of another site


if __name__ == "__main__":
    (ROOT / "docs" / "screens" / "plan.svg").write_text(picture(COMMAND, terminal(COMMAND)))
