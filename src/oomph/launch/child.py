"""A child process whose output passes through us untouched, while somebody reads along.

The child gets its own process group, so that signals reach the whole tree (vLLM forks workers), and its standard input
is ours. Its output is copied byte for byte as it comes; what is kept of it is bounded.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import BinaryIO

from oomph.errors import CommandError

_CHUNK = 64 << 10
_LINE = 256 << 10  # a longer line is cut for the reader; it is still passed through whole
HEAD_BYTES, TAIL_BYTES = 4 << 20, 8 << 20
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class Kept:
    """The beginning and the end of a log, in bounded memory."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._room, self._limit, self._size = head, tail, 0

    def add(self, line: bytes) -> None:
        if self._room > 0:
            self._head.append(line)
            self._room -= len(line)
            return
        self._tail.append(line)
        self._size += len(line)
        while self._size > self._limit:
            self._size -= len(self._tail.popleft())

    def text(self) -> str:
        return b"".join([*self._head, *self._tail]).decode("utf-8", "replace")


def run_child(words: Sequence[str], on_line: Callable[[bytes], None], *, out: BinaryIO | None = None) -> int:
    """Run to the end; the exit code as a shell shows it (128 + signal for a killed child)."""
    sink = out or sys.stdout.buffer
    try:
        child = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0, start_new_session=True
        )
    except FileNotFoundError:
        raise CommandError(f"{words[0]}: there is no such program on this machine") from None
    except (OSError, ValueError) as e:
        raise CommandError(f"{words[0]}: {e}") from None
    restore = _forward(child)
    try:
        _copy(child, on_line, sink)
        code = child.wait()
    finally:
        for number, handler in restore.items():
            signal.signal(number, handler)
        if child.poll() is None:
            _send(child, signal.SIGKILL)
            child.wait()
    return 128 - code if code < 0 else code


def _forward(
    child: subprocess.Popen[bytes],
) -> dict[int, signal.Handlers | Callable[[int, FrameType | None], None] | int | None]:
    def pass_on(number: int, _: FrameType | None) -> None:
        _send(child, number)

    restore = {}
    for number in _FORWARDED:
        try:
            restore[int(number)] = signal.signal(number, pass_on)
        except ValueError:  # not in the main thread: the caller has the signals
            break
    return restore


def _send(child: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def _copy(child: subprocess.Popen[bytes], on_line: Callable[[bytes], None], sink: BinaryIO) -> None:
    """Ends when the child has ended and its pipe is empty, even if a grandchild still holds the pipe open."""
    import selectors

    assert child.stdout is not None
    pipe = child.stdout
    os.set_blocking(pipe.fileno(), False)
    rest = b""
    with selectors.DefaultSelector() as ready:
        ready.register(pipe, selectors.EVENT_READ)
        while True:
            over = child.poll() is not None
            if ready.select(0.0 if over else 0.2):
                chunk = os.read(pipe.fileno(), _CHUNK)
                if not chunk:
                    break
                sink.write(chunk)
                sink.flush()
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    on_line(line[:_LINE] + b"\n")
                rest = rest[:_LINE]
            elif over:
                break
    if rest:
        on_line(rest)
