"""How far a job is, from its process to whoever asks: one line of JSON in a file that the server made for it."""

import os
import re
import time
from collections.abc import Callable
from typing import Any

import msgspec

Step = Callable[[str, int, int], None]  # (what is tried, how many are done, of how many; 0 = nobody knows)
NAME = re.compile(r"[\w-]{8,40}")
_SECONDS = 0.2  # between two lines


def reporter(case: dict[str, Any]) -> Step:
    """What a job calls when it gets further. Without a file it does nothing."""
    path = case.get("progress_file")
    last = 0.0

    def step(what: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if not path or now - last < _SECONDS:
            return
        last = now
        line = msgspec.json.encode({"what": what[:80], "done": done, "total": total})
        file = os.open(path, os.O_WRONLY)
        try:
            os.pwrite(file, line.ljust(256), 0)
        finally:
            os.close(file)

    return step


def read_progress(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            line = file.read(4096).strip()
    except OSError:
        return b"{}"
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:  # nothing yet, or just being written
        return b"{}"
    return line
