"""A child process whose output passes through us untouched, while somebody reads along.

The child gets its own session, so that signals reach the whole tree (vLLM forks workers), and its standard input is
ours. It lives as we do: a signal is passed on, Ctrl-Z stops both, and where we die it is told to end (Linux). Its
output is copied byte for byte as it comes; what is kept of it is bounded.
"""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import BinaryIO

from oomph.errors import CommandError

_CHUNK = 64 << 10
_LINE = 256 << 10  # a longer line is cut for the reader; it is still passed through whole
HEAD_BYTES, TAIL_BYTES = 4 << 20, 8 << 20
PATIENCE = 10.0  # seconds between asking a child to end and killing it
QUIET = 8.0  # seconds that a silent grandchild is waited for once the child has ended
QUIET_WRITER = 60.0  # the same where it has written since: a server that a script left behind
_PDEATHSIG = 1  # prctl(2), PR_SET_PDEATHSIG
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


def run_child(words: Sequence[str], on_line: Callable[[bytes], None]) -> int:
    """Run to the end; the exit code as a shell shows it (128 + signal for a killed child)."""
    sink = sys.stdout.buffer
    try:
        child = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            preexec_fn=_end_with_parent(),
        )
    except FileNotFoundError:
        raise CommandError(f"{words[0]}: there is no such program on this machine") from None
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise CommandError(f"{words[0]}: {error}") from None
    restore = _forward(child)
    try:
        _copy(child, on_line, sink)
        code = child.wait()
    finally:
        if child.poll() is None:
            _end(child)
        for number, handler in restore.items():
            signal.signal(number, handler)
    return 128 - code if code < 0 else code


def _end_with_parent() -> Callable[[], None] | None:
    """What the child does before it becomes the server: ask the kernel for SIGTERM when we die, however we die."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl, parent = ctypes.CDLL(None, use_errno=True).prctl, os.getpid()

    def ask() -> None:
        prctl(_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # we died in between
            os.kill(os.getpid(), signal.SIGTERM)

    return ask


def _end(child: subprocess.Popen[bytes]) -> None:
    """Nobody reads any more: the tree is asked to end, and killed only if it does not. Its output is thrown away
    meanwhile, for a child that waits for a full pipe hears no signal."""
    assert child.stdout is not None
    _send(child, signal.SIGTERM)
    _send(child, signal.SIGCONT)
    end = time.monotonic() + PATIENCE
    while child.poll() is None and time.monotonic() < end:
        with suppress(OSError, ValueError):
            while os.read(child.stdout.fileno(), _CHUNK):
                pass
        time.sleep(0.02)
    if child.poll() is None:
        _send(child, signal.SIGKILL)
        child.wait()


def _forward(
    child: subprocess.Popen[bytes],
) -> dict[int, signal.Handlers | Callable[[int, FrameType | None], None] | int | None]:
    ends = 0

    def pass_on(number: int, _: FrameType | None) -> None:
        nonlocal ends
        _send(child, number)
        if number in (signal.SIGINT, signal.SIGTERM):
            ends += 1
            if ends > 1:  # os.write: a signal may come inside a print
                text = f"waits for the server, which was asked to end; kill -9 -{child.pid} ends it at once"
                os.write(2, f"oomph: {text}\n".encode())

    def stop(number: int, _: FrameType | None) -> None:
        """Ctrl-Z: the child first, which has a session of its own and heard nothing; then we, until both go on.

        SIGSTOP, for the kernel drops SIGTSTP in a process group that no shell looks after.
        """
        _send(child, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)  # here we are stopped
        _send(child, signal.SIGCONT)

    restore = {}
    for number, handler in (*((n, pass_on) for n in _FORWARDED), (signal.SIGTSTP, stop)):
        try:
            restore[int(number)] = signal.signal(number, handler)
        except ValueError:  # not in the main thread: the caller has the signals
            break
    return restore


def _send(child: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)


def _copy(child: subprocess.Popen[bytes], on_line: Callable[[bytes], None], sink: BinaryIO) -> None:
    """Ends with the pipe. A grandchild may hold it open when the child has ended: what it writes is copied, and it is
    waited for until it has been silent for a while."""
    import selectors

    assert child.stdout is not None
    pipe = child.stdout
    os.set_blocking(pipe.fileno(), False)
    rest = b""
    quiet, silent_since = QUIET, 0.0
    with selectors.DefaultSelector() as ready:
        ready.register(pipe, selectors.EVENT_READ)
        while True:
            over = child.poll() is not None
            if ready.select(0.2):
                chunk = os.read(pipe.fileno(), _CHUNK)
                if not chunk:
                    break
                sink.write(chunk)
                sink.flush()
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    on_line(line[:_LINE] + b"\n")
                rest = rest[:_LINE]
                if silent_since:
                    quiet, silent_since = QUIET_WRITER, time.monotonic()
            elif over:
                silent_since = silent_since or time.monotonic()
                if time.monotonic() - silent_since > quiet:
                    break
    if rest:
        on_line(rest)
