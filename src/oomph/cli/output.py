"""What the command line prints: without secrets, and without a character that a terminal acts on.

`guarded()` puts both over standard output and standard error, so that no command has to think of it. The bytes of a
child process pass below (`sys.stdout.buffer`), untouched.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from oomph.text.late import late_pattern
from oomph.text.output_file import hidden_json
from oomph.text.printable import printable, without_commands
from oomph.text.redaction import Secrets, start_session

_MOST = 1 << 16  # characters held back, so that a flag and its value on the next line are seen together


class Guarded:
    """A text stream around another. What is not defined here is the other's."""

    def __init__(self, stream: TextIO, secrets: Secrets) -> None:
        self._stream, self._secrets = stream, secrets
        self._held: list[str] = []
        self._size = 0
        self._clean: set[str] = set()  # texts of JSON lines that were looked at and hold no secret
        # Stands in our own colours behind the escape character: nobody else can write one that is let through.
        self.paint_mark = os.urandom(8).hex()
        self._paint = late_pattern(rf"\x1b{self.paint_mark}(\[[0-9;]{{0,20}}m)")

    def write(self, text: str) -> int:
        if not isinstance(text, str):  # click asks a stream whether it takes bytes
            raise TypeError("this stream takes text")
        self._held.append(text)
        self._size += len(text)
        if self._size > _MOST and not self._held[0].startswith(("{", "[")):  # JSON is looked at as a whole
            self._release(whole=False)
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self._release(whole=True)
        self._stream.flush()

    def write_line(self, line: str) -> None:
        """One line of JSON, at once. Of thousands of plans most texts are the same: each is looked at one time."""
        self._release(whole=True)
        if not self._is_clean(line):
            line = printable((hidden_json(line, self._secrets) or self._secrets.hide(line)).rstrip("\n"), lines=False)
            line = without_commands(line)
        self._stream.write(_encodable(line, self._stream) + "\n")
        self._stream.flush()

    def write_own(self, text: str) -> None:
        """A text of this program's source: no pattern of a secret has to be compiled for it."""
        self._release(whole=True)
        self._stream.write(_encodable(text, self._stream))

    def write_commands(self, text: str) -> None:
        """Our own commands to the runner of a workflow; everywhere else such lines are a stranger's."""
        self._release(whole=True)
        self._stream.write(_encodable(printable(self._secrets.hide(text)), self._stream))

    def _is_clean(self, line: str) -> bool:
        """No text in it is a secret, the name of one, or holds what a terminal or a workflow's runner acts on."""
        if not line.isascii() or "\x7f" in line or "\\" in line or self._secrets.knows_part_of(line):
            return False
        new = set(line.split('"')[1::2]) - self._clean
        if any(self._secrets.is_about(text) or without_commands(text) is not text for text in new):
            return False
        if len(self._clean) < _MOST:
            self._clean |= new
        return True

    def _release(self, *, whole: bool) -> None:
        text, self._held, self._size = "".join(self._held), [], 0
        if not whole:  # the last lines wait for what follows them
            end = text.rfind("\n", 0, len(text) - 4096) + 1 or len(text) - 4096
            text, rest = text[:end], text[end:]
            self._held, self._size = [rest], len(rest)
        if text:
            hidden = hidden_json(text, self._secrets)
            text = self._secrets.hide(text) if hidden is None else hidden
            parts = self._paint.split(text) if "\x1b" in text else [text]
            parts[::2] = map(printable, parts[::2])
            parts = without_commands("\0".join(parts)).split("\0")
            parts[1::2] = ["\x1b" + colour for colour in parts[1::2]]
            self._stream.write(_encodable("".join(parts), self._stream))

    @property
    def unguarded(self) -> TextIO:
        """For what moves the cursor and quotes nobody: a progress bar."""
        return self._stream

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            self.flush()
        return getattr(self._stream, name)


@contextmanager
def guarded(words: Sequence[str]) -> Iterator[None]:
    """Both streams, for as long as a command runs. The user's own secrets are known from the start."""
    secrets = start_session(words)
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Guarded(sys.stdout, secrets), Guarded(sys.stderr, secrets)
    try:
        yield
    finally:
        after = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = before
        for stream in after:
            stream.flush()


def _encodable(text: str, stream: TextIO) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.encode("ascii", "replace").decode()
    return text
