"""Random access to a file that may be far away, and a cursor that reads a header from it front to back."""

import os
import struct
from typing import NoReturn, Protocol

from oomph.errors import HeaderError
from oomph.sources.json_input import open_regular, reason

MAX_HEADER_BYTES = 128 << 20  # the longest real GGUF header is about 20 MB

_u32 = struct.Struct("<I").unpack_from
_u64 = struct.Struct("<Q").unpack_from


class Ranges(Protocol):
    """Random access to a file that is somewhere: what a header reader needs of it."""

    name: str  # as messages name it
    size: int

    def read(self, offset: int, length: int) -> bytes: ...

    def sibling(self, name: str) -> "Ranges": ...


class LocalFile:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        self.size = 0
        try:
            with open_regular(self.name, HeaderError) as file:
                self.size = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise HeaderError(f"{self.name} cannot be read: {reason(error)}") from None

    def read(self, offset: int, length: int) -> bytes:
        try:
            with open_regular(self.name, HeaderError) as file:
                file.seek(offset)
                return file.read(length)
        except OSError as error:
            raise HeaderError(f"{self.name} cannot be read: {reason(error)}") from None

    def sibling(self, name: str) -> "LocalFile":
        return LocalFile(os.path.join(os.path.dirname(self.name), name))


class Cursor:
    """A position in the header, and the bytes from there on that have been read so far."""

    FIRST_WINDOW = 1 << 20
    MAX_WINDOW = 8 << 20

    def __init__(self, source: Ranges) -> None:
        self.source = source
        self.buffer = b""
        self.base = 0  # where the buffer begins in the file
        self.at = 0  # position in the buffer; beyond its end after a long step
        self.window = self.FIRST_WINDOW
        self.fetched = 0
        self.strings = 0  # in arrays so far

    @property
    def position(self) -> int:
        return self.base + self.at

    @property
    def left(self) -> int:
        return self.source.size - self.position

    def refuse(self, what: str) -> NoReturn:
        raise HeaderError(f"{self.source.name}: {what}")

    def need(self, length: int) -> None:
        """Have `length` bytes at the position."""
        if len(self.buffer) - self.at >= length:
            return
        if self.left < length:
            self.refuse(f"cut off inside its header, at byte {min(self.position, self.source.size):,}")
        rest = self.buffer[self.at :]
        begin = self.position + len(rest)
        more = min(max(self.window, length - len(rest)), self.source.size - begin)
        self.fetched += more
        if self.fetched > MAX_HEADER_BYTES:
            self.refuse(f"its header does not end within {MAX_HEADER_BYTES >> 20} MiB")
        read = self.source.read(begin, more)
        if len(read) < more:
            self.refuse(f"ends at byte {begin + len(read):,} of {self.source.size:,}")
        self.base, self.at, self.buffer = self.position, 0, rest + read
        self.window = min(self.window * 2, self.MAX_WINDOW)

    def u32(self) -> int:
        self.need(4)
        value: int = _u32(self.buffer, self.at)[0]
        self.at += 4
        return value

    def u64(self) -> int:
        self.need(8)
        value: int = _u64(self.buffer, self.at)[0]
        self.at += 8
        return value

    def string(self, limit: int, what: str) -> str | None:
        """None for a string longer than `limit`, which is stepped over."""
        length = self.u64()
        if length > self.left:
            self.refuse(f"{what} claims {length:,} characters, with {self.left:,} bytes left in the file")
        if length > limit:
            self.at += length
            return None
        self.need(length)
        raw = self.buffer[self.at : self.at + length]
        self.at += length
        return raw.decode("utf-8", "replace")

    def step_over_strings(self, count: int) -> None:
        """The vocabulary: several hundred thousand strings, of which only the lengths are looked at."""
        at, buffer = self.at, self.buffer
        while count:
            done = 0
            try:
                for done in range(count):  # noqa: B007 - how far this window reached
                    at += 8 + _u64(buffer, at)[0]
                count = 0
            except (struct.error, OverflowError):
                self.at, count = at, count - done
                self.need(8)
                at, buffer = self.at, self.buffer
        self.at = at
        if self.left < 0:
            self.refuse("a string of its vocabulary reaches beyond the end of the file")
