"""One HTTP answer, read no further than was asked for."""

import re
from typing import Any
from urllib.parse import SplitResult

from msgspec import Struct

from oomph.errors import HubError
from oomph.sources.hub.failures import BadAnswer, Cut

MAX_ERROR_BYTES = 1 << 16
MAX_SKIP_BYTES = 64 << 20  # how far to read on when a server ignores the range it was asked for
_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,19})-(\d{1,19})|\*)/(\d{1,19}|\*)")


class Reply(Struct, frozen=True):
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes
    url: str  # after redirects
    total: int | None = None  # bytes of the whole file, where the server says it


def receive(answer: Any, parts: SplitResult, start: int, length: int | None, limit: int) -> Reply:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    status, url = answer.status, parts.geturl()
    if not 200 <= status < 300:
        _read(answer, MAX_ERROR_BYTES)  # so that the connection can be used again
        return Reply(status, headers, b"", url, _content_range(headers)[1])
    declared = _declared(headers)
    if length is None:
        if (declared or 0) > limit:
            where = _without_query(url)
            raise HubError(f"{where} has {declared:,} bytes, more than the {limit:,} that such a file can have")
        body = _read(answer, limit + 1)
        if len(body) > limit:
            raise HubError(f"{_without_query(url)} has more than the {limit:,} bytes that such a file can have")
        return Reply(status, headers, body, url, len(body))
    skip, total = 0, declared
    if status == 206:
        first, total = _content_range(headers)
        if first != start:
            raise HubError(f"{_without_query(url)} answers with other bytes than it was asked for")
    else:  # the server ignores ranges: read as far as needed, then hang up
        skip = start
        if skip > MAX_SKIP_BYTES:
            raise HubError(f"{_without_query(url)} cannot be read in parts: its server ignores ranges")
    body = _read(answer, skip + length)[skip:]
    if total is not None and len(body) < min(length, total - start):
        raise Cut
    return Reply(status, headers, body, url, total)


def _read(answer: Any, length: int) -> bytes:
    """At most `length` bytes, in whatever pieces they come. A connection with more to say is not used again."""
    pieces: list[bytes] = []
    while length > 0:
        piece = answer.read(min(length, 1 << 20), decode_content=False)
        if not piece:
            answer.release_conn()
            return b"".join(pieces)
        pieces.append(piece)
        length -= len(piece)
    if answer.length_remaining == 0:
        answer.read(decode_content=False)
        answer.release_conn()
    else:
        answer.close()
    return b"".join(pieces)


def _declared(headers: dict[str, str]) -> int | None:
    """The body's length, where it is declared and not chunked."""
    value = headers.get("content-length", "").strip()
    if "transfer-encoding" in headers or not value:
        return None
    if not (value.isascii() and value.isdigit() and len(value) < 19):
        raise BadAnswer("a length that is no number")
    return int(value)


def _content_range(headers: dict[str, str]) -> tuple[int | None, int | None]:
    match = _CONTENT_RANGE.fullmatch(headers.get("content-range", "").strip())
    if match is None:
        return None, None
    return int(match[1]) if match[1] else None, int(match[3]) if match[3] != "*" else None


def _without_query(url: str) -> str:
    """As it is shown: a signed address has its secret behind the question mark."""
    return url.partition("?")[0]
