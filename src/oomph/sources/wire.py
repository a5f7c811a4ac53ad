"""HTTP/1.1 GET over one kept connection: bounded headers, three ways to frame a body, nothing else.

By hand, because `import http.client` takes 20 ms (it brings email and ssl), a fifth of what `inspect` takes in all.
TLS is Python's own, imported only for https.
"""

from __future__ import annotations

import socket
from typing import Any

MAX_HEADER_BYTES = 1 << 16
MAX_CHUNK_LINE = 1 << 10


class ProtocolError(Exception):
    """What came is not HTTP."""


class Closed(ConnectionError):
    """The other side hung up before it answered."""


class Cut(Exception):
    """The body ended before its length."""


class Connection:
    def __init__(self, host: str, port: int, timeout: float) -> None:
        # Bytes, because for a str the resolver first imports the machinery of international names.
        name = host.encode("ascii") if host.isascii() else host.encode("idna")
        self._socket: socket.socket = socket.create_connection((name, port), timeout)  # type: ignore[arg-type]
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def tunnel(self, host: str, port: int, headers: dict[str, str]) -> None:
        """Through an HTTP proxy (RFC 9110, CONNECT)."""
        answer = self.ask("CONNECT", f"{host}:{port}", {"Host": f"{host}:{port}", **headers})
        if answer.status != 200:
            raise OSError(None, f"its proxy answers with status {answer.status}")

    def secure(self, context: Any, host: str) -> None:
        self._file.close()
        self._socket = context.wrap_socket(self._socket, server_hostname=host)
        self._file = self._socket.makefile("rb")

    def ask(self, method: str, target: str, headers: dict[str, str]) -> Answer:
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        if not all(line.isascii() and line.isprintable() for line in lines) or " " in target:
            raise ProtocolError("an address with characters that HTTP has not")
        self._socket.sendall("\r\n".join((*lines, "", "")).encode("ascii"))
        status, found = self._read_head()
        while 100 <= status < 200:
            status, found = self._read_head()
        return Answer(self._file, status, found, bodiless=method == "CONNECT")

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _read_head(self) -> tuple[int, dict[str, str]]:
        left = MAX_HEADER_BYTES
        first = self._file.readline(left)
        if not first:
            raise Closed
        version, _, rest = first.partition(b" ")
        if version not in (b"HTTP/1.1", b"HTTP/1.0") or not rest[:3].isdigit():
            raise ProtocolError("no status line")
        headers = {"connection": "close"} if version == b"HTTP/1.0" else {}
        while True:
            left -= len(first)
            first = self._file.readline(max(left, 0))
            if not first.endswith(b"\n"):
                raise ProtocolError("headers without end")
            if not first.strip():
                return int(rest[:3]), headers
            name, _, value = first.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()


class Answer:
    """A status, headers and a body that is read piece by piece."""

    def __init__(self, file: Any, status: int, headers: dict[str, str], *, bodiless: bool = False) -> None:
        self.status, self.headers, self._file = status, headers, file
        self.length: int | None = None  # what is declared
        self._left = 0  # of the body, or of the chunk
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        self._framed = True  # False: the body ends where the connection does
        self.finished = bodiless or status in (204, 304)
        if self.finished:
            self._chunked = False
        elif not self._chunked:
            declared = headers.get("content-length")
            if declared is None:
                self._framed = False
            elif declared.isascii() and declared.isdigit() and len(declared) < 19:
                self.length = self._left = int(declared)
                self.finished = self._left == 0
            else:
                raise ProtocolError("a length that is no number")

    @property
    def reusable(self) -> bool:
        return self.finished and self._framed and "close" not in self.headers.get("connection", "").lower()

    def read(self, most: int) -> bytes:
        """What has arrived, at most `most` bytes; nothing at the end."""
        if self._chunked and not self.finished and not self._left:
            self._next_chunk()
        if self.finished:
            return b""
        piece: bytes = self._file.read1(min(most, self._left) if self._framed else most)
        if not piece:
            if self._framed:
                raise Cut
            self.finished = True
        self._left -= len(piece)
        if self._framed and not self._left:
            if self._chunked:
                self._line()
            else:
                self.finished = True
        return piece

    def _next_chunk(self) -> None:
        size = self._line().partition(b";")[0].strip()
        try:
            self._left = int(size, 16)
        except ValueError:
            raise ProtocolError("a chunk without a length") from None
        if not 0 <= self._left < 1 << 60:
            raise ProtocolError("a chunk longer than any file")
        if not self._left:
            trailers = 0
            while self._line().strip():
                trailers += 1
                if trailers > 100:
                    raise ProtocolError("trailers without end")
            self.finished = True

    def _line(self) -> bytes:
        line: bytes = self._file.readline(MAX_CHUNK_LINE)
        if not line.endswith(b"\n"):
            raise Cut
        return line
