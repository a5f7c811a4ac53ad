"""`oomph plan --batch FILE`: one JSON case a line in, one plan a line out, each as soon as it is there.

A case that cannot be planned does not end the batch: its line has an `error`. The exit code is that of the worst line.
"""

import sys
from collections.abc import Iterator
from typing import BinaryIO

from oomph.answers.check import EXIT_CODES, Outcome, worst
from oomph.errors import InputError
from oomph.report.many import answer_lines

_MAX_LINE = 8 << 20


def run_batch(path: str, workers: int = 1) -> int:
    write_line = getattr(sys.stdout, "write_line", None) or _write_line
    outcomes: set[Outcome] = set()
    with _open(path) as file:
        for answer, outcome in answer_lines(_lines(file), workers=workers):
            write_line(answer.decode())
            outcomes.add(outcome)
    return EXIT_CODES[worst(outcomes)]


def _write_line(line: str) -> None:
    print(line, flush=True)


def _open(path: str) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    try:
        return open(path, "rb")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def _lines(file: BinaryIO) -> Iterator[bytes]:
    number = 0
    while line := file.readline(_MAX_LINE):
        number += 1
        if len(line) == _MAX_LINE:
            raise InputError(f"line {number} of the batch is over {_MAX_LINE} bytes: it is no case")
        if line.strip():
            yield line
