"""A terminal: its width, its colours, and lines that are broken between words, whatever is painted on them."""

import os
import re
import sys
from typing import TextIO

from oomph.text.late import late_pattern

_PAINT = late_pattern(r"\033[0-9a-f]{0,16}\[[0-9;]{0,20}m")
_WORDS = late_pattern(r"(?:'[^']*'|\"[^\"]*\"|\S)+")  # of a shell: what is quoted is not torn
_FLAG = late_pattern(r"--?[A-Za-z]")
TONES = {"fits": "1;32", "at_risk": "1;33", "close": "1;33", "fails": "1;31", "bold": "1"}  # a verdict's colours
INDENT = 11  # where the text of a "  Weights  ..." line begins


class Style:
    """Colours where a terminal shows them."""

    def __init__(self, out: TextIO | None = None) -> None:
        """`out`: where it is printed; None is a text without colours."""
        self._mark = getattr(out, "paint_mark", "")  # cli/output.py lets through what has it
        self.on = out is not None and out.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"

    def paint(self, text: str, code: str) -> str:
        return f"\033{self._mark}[{code}m{text}\033{self._mark}[0m" if self.on else text

    def bold(self, text: str) -> str:
        return self.paint(text, "1")

    def good(self, text: str) -> str:
        return self.paint(text, "1;32")

    def bad(self, text: str) -> str:
        return self.paint(text, "1;31")

    def dim(self, text: str) -> str:
        return self.paint(text, "2")


def columns() -> int:
    """A screen of text is not read across more than 110 columns, unless somebody asks for it."""
    wish = os.environ.get("OOMPH_WIDTH", "")
    if wish.isascii() and wish.isdigit():
        return max(40, min(int(wish[:6]), 400))
    return max(40, min(_terminal_columns() or 100, 110))


def _terminal_columns() -> int:
    """As shutil.get_terminal_size, whose module takes longer to import than a plan to print; 0 = not known."""
    width = os.environ.get("COLUMNS", "")
    if width.isascii() and width.isdigit() and int(width[:6]):
        return int(width[:6])
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ else 0
    except (OSError, ValueError):
        return 0


def length(text: str) -> int:
    """What is seen of a text: without its colours."""
    return len(_PAINT.sub("", text) if "\033" in text else text)


def wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Broken at spaces only: a flag is never cut at its hyphens, and a word that is too long keeps its line."""
    lines: list[str] = []
    line = first
    for number, word in enumerate(re.split(r"(?<! ) (?=\S)", text.strip(" "))):
        if number == 0:
            line += word
        elif length(line) + 1 + length(word.rstrip()) > width and line != (rest or first):
            lines.append(line.rstrip())
            line = (rest or first) + word.lstrip()
        else:
            line += " " + word
    return [*lines, line.rstrip()]


def folded(line: str, width: int) -> str:
    """A whole line of the screen, its indentation kept, what does not fit below its text."""
    if length(line) <= width:
        return line
    text = line.lstrip(" ")
    return "\n".join(wrap(text, width, " " * (len(line) - len(text)), " " * INDENT))


def title(parts: list[str], width: int) -> list[str]:
    """The model, the engine and the GPUs: in one line, or as many as they need, none of them torn."""
    lines: list[str] = []
    for part in parts:
        if lines and length(lines[-1]) + 3 + length(part) <= width:
            lines[-1] += "   " + part
        else:
            lines.append("  " + part)
    return lines


def clean(text: str) -> str:
    """A name from a stranger as a terminal may show it: one line, nothing that moves the cursor or the colours."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _torn(piece: str) -> list[str]:
    """Words that are more than a line: variables before a command, several values of a flag."""
    words = _WORDS.findall(piece)
    return [" ".join(words[:2]), *words[2:]] if _FLAG.match(piece) else words


def command_lines(command: str, width: int, indent: int) -> list[str]:
    """Over several lines, ready to be pasted: flags stay with their values."""
    pieces: list[str] = []
    for word in _WORDS.findall(clean(command)):
        if pieces and not _FLAG.match(word):
            pieces[-1] += f" {word}"
        else:
            pieces.append(word)
    room = width - indent - 4
    pieces = [part for piece in pieces for part in (_torn(piece) if len(piece) > room else [piece])]
    rows = pieces[:1]
    for piece in pieces[1:]:
        if indent + len(rows[-1]) + len(piece) + 3 <= width:
            rows[-1] += f" {piece}"
        else:
            rows.append(f"  {piece}")
    return [" " * indent + row + (" \\" if i < len(rows) - 1 else "") for i, row in enumerate(rows)]
