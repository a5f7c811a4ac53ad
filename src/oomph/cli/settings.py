"""Options that every command has: --debug, --quiet, --no-color, --width, --timeout.

They may stand before the command or among its own options; behind a serve command they are the engine's.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from oomph.cli.plain import takes_value
from oomph.cli.table import COMMANDS, INTERSPERSED
from oomph.errors import CommandError

_VALUES = ("--width", "--timeout")  # those that take one
_NAMES = ("--debug", "--quiet", "-q", "--no-color", *_VALUES)
_TALKERS = frozenset(("run", "ui", "mcp"))  # their output is another program's, or an address


class Settings:
    """What was asked for; plain attributes, because this is imported by every call."""

    def __init__(self) -> None:
        self.debug = self.quiet = self.no_color = False
        self.width = self.timeout = ""

    def take(self, name: str, value: str) -> None:
        if name in _VALUES:
            setattr(self, name[2:], value or "?")
        else:
            setattr(self, {"-q": "quiet"}.get(name, name[2:].replace("-", "_")), True)

    def check(self) -> None:
        """A value that cannot be meant is refused as everything else is; one that can is put in force."""
        if self.width and not (self.width.isascii() and self.width.isdigit() and 40 <= int(self.width[:6]) <= 400):
            raise CommandError(f"--width {self.width[:40]!r} is not a number of columns from 40 to 400")
        if self.timeout:
            _set_timeout(self.timeout)


def take_settings(args: list[str]) -> Settings:
    """The options of every command, taken out of `args`."""
    settings, at, name = Settings(), 0, ""
    while at < len(args) and args[at] != "--":
        word = args[at]
        key, equals, value = word.partition("=")
        if not word.startswith("-"):
            if name not in INTERSPERSED and (name or word not in COMMANDS):
                break
            name = name or word
        elif key in _NAMES and (key in _VALUES or not equals):
            separate = key in _VALUES and not equals
            settings.take(key, "".join(args[at + 1 : at + 2]) if separate else value)
            del args[at : at + (2 if separate else 1)]
            continue
        elif not equals and takes_value(word, args):
            at += 1
        at += 1
    if name in _TALKERS:
        settings.quiet = False
    return settings


@contextmanager
def in_force(settings: Settings) -> Iterator[None]:
    """For as long as a command runs. Environment variables, because every module that prints looks there."""
    variables = {"NO_COLOR": "1"} if settings.no_color else {}
    if settings.width:
        variables |= {"OOMPH_WIDTH": settings.width, "COLUMNS": settings.width}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        if settings.quiet:
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
                yield
        else:
            yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _set_timeout(value: str) -> None:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3600:
        raise CommandError(f"--timeout {value[:40]!r} is not a number of seconds up to 3600")
    from oomph.sources.hub import transport

    transport.QUESTION_SECONDS = seconds
