"""Bytes of a log -> the lines worth looking at, in bounded memory.

A paste or a start-up log is kept whole. Of a longer log the head and the tail are kept, and some lines around what is
loud in between (`sift.py`); the rest is searched as raw bytes only, so that a gigabyte of request lines costs seconds.
"""

import codecs
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from oomph.errors import InputError
from oomph.logs.sift import Sift
from oomph.text.late import late_pattern

CHUNK = 1 << 20
LONGEST = 256 << 10  # of one line; the engine config line is about 10 KiB
TAIL = 16 << 10  # of a longer line, its end
_ENDLESS_FROM, _DIGITS = 200, 40  # digits in a row that no figure has: Python reads 4,300 of them, a double 308
_ENDLESS = late_pattern(rf"\d{{{_ENDLESS_FROM},}}")
LIMIT = 64 << 30  # decompressed: beyond it something other than a log is being read


class RawLine(Struct, frozen=True):
    number: int  # 1-based, counted through all files
    text: str


class RawLog(Struct, frozen=True):
    lines: tuple[RawLine, ...]
    total_lines: int
    total_bytes: int
    source: str  # for messages: the path, "standard input", "the text"
    whole: bool  # nothing was skipped
    notes: tuple[str, ...] = ()  # files that could not be read beside those that could


def read_text(text: str, source: str = "the text") -> RawLog:
    whole = text.encode("utf-8", "surrogatepass")
    return _read((whole[start : start + CHUNK] for start in range(0, len(whole), CHUNK)), source)


def read_paths(paths: Iterable[str]) -> RawLog:
    """Files in the order given, as one log; `-` is standard input."""
    names = list(paths)
    if not names:
        raise InputError("no log given: name a file, or - for standard input")
    source = ", ".join("standard input" if name == "-" else name for name in names)
    readable, refused = [], []
    for name in names:
        if (error := _unreadable(name)) is None:
            readable.append(name)
        else:
            refused.append(error)
    if not readable:
        raise refused[0]
    log = _read(_chunks_of(readable), source)
    notes = tuple(f"{error.message}: left out" for error in refused)
    return RawLog(log.lines, log.total_lines, log.total_bytes, source, log.whole, notes) if notes else log


def _unreadable(name: str) -> InputError | None:
    if name == "-":
        return None
    if Path(name).is_dir():
        return InputError(f"{name} is a folder, not a log")
    try:
        with Path(name).open("rb"):
            return None
    except OSError as error:
        return InputError(f"{name} cannot be read: {error.strerror or error}")
    except ValueError as error:  # a null byte in a name
        return InputError(f"{name!r} cannot be read: {error}")


def read_stream(stream: BinaryIO, source: str = "standard input") -> RawLog:
    return _read(_chunks(stream, source), source)


def _chunks_of(names: list[str]) -> Iterator[bytes]:
    for name in names:
        last = b"\n"
        try:
            for chunk in _chunks_of_one(name):
                last = chunk[-1:] or last
                yield chunk
        except OSError as error:
            raise InputError(f"{name} cannot be read: {error.strerror or error}") from None
        if last != b"\n":
            yield b"\n"


def _chunks_of_one(name: str) -> Iterator[bytes]:
    if name == "-":
        yield from _chunks(sys.stdin.buffer, "standard input")
        return
    path = Path(name)
    if path.is_dir():
        raise InputError(f"{name} is a folder, not a log")
    with path.open("rb") as stream:
        yield from _chunks(stream, name)


def _chunks(stream: BinaryIO, source: str) -> Iterator[bytes]:
    first = stream.read(CHUNK)
    if first[:2] == b"\x1f\x8b":
        yield from _gunzip(first, stream, source)
        return
    for magic, (name, unpack) in _PACKED.items():
        if first.startswith(magic):
            raise InputError(f"{source} is packed by {name}: only gzip is read", hint=f"{unpack} | oomph explain -")
    decoder = _wide_decoder(first)
    chunk = first
    while chunk:
        yield decoder.decode(chunk).encode("utf-8", "replace") if decoder else chunk
        chunk = stream.read(CHUNK)


# how a file of each packer begins -> its name, and the command that prints what is in it
_PACKED = {
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -dc FILE"),
    b"\xfd7zXZ\0": ("xz", "xz -dc FILE"),
    b"BZh": ("bzip2", "bzip2 -dc FILE"),
    b"PK\3\4": ("zip", "unzip -p FILE"),
}


def _wide_decoder(first: bytes) -> codecs.IncrementalDecoder | None:
    """PowerShell writes `> server.log` as UTF-16."""
    if first[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return codecs.getincrementaldecoder("utf-16")(errors="replace")
    return None


def _gunzip(first: bytes, stream: BinaryIO, source: str) -> Iterator[bytes]:
    """Members one after the other; a rotated log that was still being written is read as far as it goes."""
    packed, unpack = first, zlib.decompressobj(31)
    while packed:
        try:
            out = unpack.decompress(packed, CHUNK)
        except zlib.error as error:
            raise InputError(f"{source} is not a readable gzip file: {error}") from None
        if out:
            yield out
        packed = unpack.unconsumed_tail
        if unpack.eof:
            packed = unpack.unused_data.lstrip(b"\0")
            unpack = zlib.decompressobj(31)
        if not packed:
            packed = stream.read(CHUNK)


def _read(chunks: Iterator[bytes], source: str) -> RawLog:
    sift = Sift()
    number, total, rest, skipping, tail = 1, 0, b"", False, b""
    for chunk in chunks:
        if total < CHUNK:
            _refuse_binary(chunk, source)
        total += len(chunk)
        if total > LIMIT:
            raise InputError(f"{source} is more than {LIMIT >> 30} GiB: too long for a log")
        if skipping:  # inside a line longer than LONGEST: its end is read as the rest of it
            end = chunk.find(b"\n")
            tail = (tail + (chunk if end < 0 else chunk[:end]))[-TAIL:]
            if end < 0:
                continue
            chunk, skipping, tail = tail + chunk[end:], False, b""
        block = rest + chunk if rest else chunk
        cut = block.rfind(b"\n")
        if cut < 0 or len(block) - cut > LONGEST:
            head_end = cut + 1
            if len(block) - head_end > LONGEST:
                tail = block[head_end + LONGEST :][-TAIL:]
                block, rest, skipping = block[: head_end + LONGEST], b"", True
            else:
                rest = block
                continue
        else:
            block, rest = block[:cut], block[cut + 1 :]
        sift.take(number, block)
        number += block.count(b"\n") + (0 if skipping else 1)
    if rest := rest or tail:
        sift.take(number, rest)
        number += 1
    lines = tuple(RawLine(at, _text(raw)) for at, raw in sift.lines())
    return RawLog(lines, number - 1, total, source, not sift.long)


def _text(raw: bytes) -> str:
    if len(raw) > LONGEST:
        raw = raw[:LONGEST]
    text = raw.decode("utf-8", "replace")
    return _ENDLESS.sub(lambda digits: digits[0][:_DIGITS], text) if len(text) > _ENDLESS_FROM else text


def _refuse_binary(chunk: bytes, source: str) -> None:
    sample = chunk[: 64 << 10]
    odd = len(sample) - len(sample.translate(None, _ODD))
    if sample and odd > len(sample) // 20:
        raise InputError(f"{source} is not text: {odd} of its first {len(sample)} bytes are control characters")


_ODD = bytes(set(range(32)) - set(b"\t\n\r\x0c\x08\x1b\x07"))
