"""JSON from strangers: bounded in size and depth, and whatever is wrong with it is one sentence.

The fast path is msgspec. Python's own reader is asked only about what msgspec refuses and real configs contain:
`Infinity` (`"time_step_limit": [0.0, Infinity]` of the Mamba families).
"""

import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import msgspec

from oomph.errors import ConfigError, InputError
from oomph.text.nesting import DEEPEST, bounded

MAX_CONFIG_BYTES = 16 << 20  # the largest real config.json is about 100 KB, nearly all of it an ignore list
MAX_DEPTH = DEEPEST
# Integers up to here become a double and back unharmed in every reader; no field of a model is larger.
MAX_INTEGER = 1 << 63

_decoder = msgspec.json.Decoder()


def read_file(path: str | os.PathLike[str], *, limit: int, error: type[InputError] = InputError) -> bytes:
    """A regular file's bytes, at most `limit`. Pipes, devices and folders are refused before they can block."""
    where = os.fspath(path)
    try:
        with open_regular(where, error) as fd:
            size = os.fstat(fd.fileno()).st_size
            if size > limit:
                raise error(f"{where} has {size:,} bytes, more than the {limit:,} that such a file can have")
            raw = fd.read(limit + 1)
    except OSError as cause:
        raise error(f"{where} cannot be read: {reason(cause)}") from None
    if len(raw) > limit:
        raise error(f"{where} grew beyond {limit:,} bytes while it was read")
    return raw


def open_regular(path: str, error: type[InputError]) -> BinaryIO:
    """O_NONBLOCK so that a named pipe answers instead of waiting for a writer."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise error(f"{path} is not a regular file")
    return os.fdopen(fd, "rb")


def reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def read_object(path: str | os.PathLike[str], *, error: type[InputError] = ConfigError) -> dict[str, Any]:
    """A JSON object from a file: a model's config.json and its like."""
    return parse_object(read_file(path, limit=MAX_CONFIG_BYTES, error=error), os.fspath(path), error=error)


def parse_object(raw: bytes, where: str | Path, *, error: type[InputError] = ConfigError) -> dict[str, Any]:
    """A JSON object from bytes. `where` names it in the sentence that refuses it."""
    if len(raw) > MAX_CONFIG_BYTES:
        raise error(f"{where} has {len(raw):,} bytes, more than the {MAX_CONFIG_BYTES:,} that such a file can have")
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        value = _decoder.decode(bounded(raw))
    except (msgspec.MsgspecError, UnicodeDecodeError) as cause:
        value = _parse_python(raw, where, error) if b"Infinity" in raw else _refuse(raw, where, cause, error)
    except RecursionError:
        raise error(f"{where} is nested more than {MAX_DEPTH} levels deep") from None
    if not isinstance(value, dict):
        raise error(f"{where} holds {_kind(value)} where an object belongs")
    _check(value, where, error)
    return value


def _parse_python(raw: bytes, where: str | Path, error: type[InputError]) -> Any:
    import json

    def constant(name: str) -> float:
        if name == "NaN":
            raise ValueError("NaN is not a number that can be meant")
        return float(name)

    try:
        value = json.loads(raw.decode(), parse_constant=constant)
        msgspec.json.encode(value)  # refuses half characters ("\ud800"), which nothing could print
    except RecursionError:
        raise error(f"{where} is nested more than {MAX_DEPTH} levels deep") from None
    except (ValueError, msgspec.MsgspecError) as cause:
        raise error(f"{where} is not JSON: {_one_line(cause)}") from None
    return value


def _refuse(raw: bytes, where: str | Path, cause: Exception, error: type[InputError]) -> NoReturn:
    if not raw.strip():
        raise error(f"{where} is empty") from None
    if raw.startswith(b"version https://git-lfs"):
        raise error(f"{where} is a Git LFS pointer, not the file itself", hint="git lfs pull") from None
    if b"NaN" in raw and not isinstance(cause, UnicodeDecodeError):
        raise error(f"{where} contains NaN, which is not a number that can be meant") from None
    raise error(f"{where} is not JSON: {_one_line(cause)}") from None


def _one_line(error: Exception) -> str:
    text = str(error).removeprefix("JSON is malformed: ").splitlines()
    return text[0] if text else type(error).__name__


def _kind(value: object) -> str:
    return {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}.get(type(value), "a number")


def _check(value: dict[str, Any], where: str | Path, error: type[InputError]) -> None:
    """Depth and integer range, level by level, without recursion."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            children = item.values() if isinstance(item, dict) else item
            for child in children:
                if isinstance(child, (dict, list)):
                    below.append(child)
                elif type(child) is int and not -MAX_INTEGER <= child < MAX_INTEGER:
                    raise error(f"{where} contains an integer of {child.bit_length()} bits, larger than 64 bits")
        if not below:
            return
        level = below
    raise error(f"{where} is nested more than {MAX_DEPTH} levels deep")
