"""The oomph command in this process: what it prints and its exit code, without the time that a start takes."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from msgspec import Struct

from oomph.cli.main import main


class Answer(Struct):
    stdout: str
    stderr: str
    returncode: int


def call(
    *words: str, folder: Path | None = None, variables: Mapping[str, str] | None = None, together: bool = False
) -> Answer:
    """`variables` are the whole environment; `together` puts both streams into stdout, as `2>&1` does."""
    out = io.StringIO()
    err = out if together else io.StringIO()
    code: object = 0
    surroundings = surrounded_by(os.environ if variables is None else variables)
    with surroundings, at(folder or Path.cwd()), redirect_stdout(out), redirect_stderr(err):
        try:
            main(words)
        except SystemExit as left:
            code = left.code
    return Answer(out.getvalue(), "" if together else err.getvalue(), code if isinstance(code, int) else 0)


@contextmanager
def surrounded_by(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    now = dict(variables)
    os.environ.clear()
    os.environ.update(now)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def at(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
