"""HTTP as the hub needs it: byte ranges, redirects, bounded retries, kept connections. Nothing here knows a model."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit

from msgspec import Struct

from oomph.errors import HubError
from oomph.sources.wire import Answer, Closed, Connection, Cut, ProtocolError

BACKOFF = (0.2, 0.6, 1.8)  # seconds before each further attempt, where the server does not say
MAX_RETRY_AFTER = 8.0  # a longer wait is the user's to decide
MAX_REDIRECTS = 5
MAX_ERROR_BYTES = 1 << 16
MAX_SKIP_BYTES = 64 << 20  # how far to read on when a server ignores the range it was asked for
DEADLINE = 60.0  # seconds for one body, however slowly it drips
_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,19})-(\d{1,19})|\*)/(\d{1,19}|\*)")
_RETRY = frozenset({408, 429, 500, 502, 503, 504})
_REDIRECT = frozenset({301, 302, 303, 307, 308})

T = TypeVar("T")
R = TypeVar("R")


class Unreachable(HubError):
    """Nobody answered, or not to the end: a cached copy may do instead."""


class Reply(Struct, frozen=True):
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes
    url: str  # after redirects
    total: int | None = None  # bytes of the whole file, where the server says it


class Transport:
    def __init__(self, *, token: str | None = None, trusted: str = "", timeout: float = 10.0) -> None:
        self._idle: dict[tuple[str, str], list[Connection]] = {}
        self._authorization = f"Bearer {token}" if token else ""
        self._trusted = urlsplit(trusted).netloc  # the only host that the token is sent to
        self._timeout = timeout
        self._lock = threading.Lock()
        self._context: Any = None

    def get(self, url: str, *, limit: int, start: int = 0, length: int | None = None) -> Reply:
        """The whole body up to `limit`, or with `length` that many bytes from `start`. Other statuses than 2xx come
        back as they are; a server that cannot be reached is an error."""
        for delay in (*BACKOFF, None):
            try:
                reply = self._follow(url, start, length, limit)
            except (OSError, ProtocolError, Cut, ValueError) as e:
                if delay is None or _final(e):
                    raise Unreachable(f"{_host(url)} {_reason(e, self._timeout)}") from None
                time.sleep(delay)
                continue
            wait = _retry_after(reply)
            if reply.status not in _RETRY or delay is None or (wait is not None and wait > MAX_RETRY_AFTER):
                return reply
            time.sleep(delay if wait is None else wait)
        raise AssertionError

    def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    __del__ = close  # a file that is open for a header reader has nobody to close it

    def _follow(self, url: str, start: int, length: int | None, limit: int) -> Reply:
        for _ in range(MAX_REDIRECTS + 1):
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise HubError(f"{url[:200]!r} is not an http or https address")
            reply = self._exchange(parts, start, length, limit)
            target = reply.headers.get("location")
            if reply.status not in _REDIRECT or not target:
                return reply
            target = urljoin(url, target)
            if parts.scheme == "https" and not target.startswith("https:"):
                raise HubError(f"{parts.netloc} redirects from https to http")
            url = target
        raise HubError(f"{_host(url)} redirects in a circle")

    def _exchange(self, parts: SplitResult, start: int, length: int | None, limit: int) -> Reply:
        headers = {"Accept-Encoding": "identity", "User-Agent": "oomph", "Host": parts.netloc.rpartition("@")[2]}
        if self._authorization and parts.netloc == self._trusted:
            headers["Authorization"] = self._authorization
        if length is not None:
            headers["Range"] = f"bytes={start}-{start + length - 1}"
        connection, answer = self._send(parts, headers)
        try:
            reply = _receive(answer, parts, start, length, limit)
        except BaseException:
            connection.close()
            raise
        if answer.reusable:
            with self._lock:
                self._idle.setdefault((parts.scheme, parts.netloc), []).append(connection)
        else:
            connection.close()
        return reply

    def _send(self, parts: SplitResult, headers: dict[str, str]) -> tuple[Connection, Answer]:
        proxy = _proxy(parts)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        if proxy and parts.scheme == "http":
            target = parts.geturl()
        with self._lock:
            idle = self._idle.get((parts.scheme, parts.netloc))
            kept = idle.pop() if idle else None
        if kept is not None:
            try:
                return kept, kept.ask("GET", target, headers)
            except BaseException as e:
                kept.close()
                if not isinstance(e, ConnectionError):  # hung up on meanwhile: that is no failure
                    raise
        connection = self._connect(parts, proxy)
        try:
            return connection, connection.ask("GET", target, headers)
        except BaseException:
            connection.close()
            raise

    def _connect(self, parts: SplitResult, proxy: SplitResult | None) -> Connection:
        """Directly, or through the environment's proxy."""
        host, secure = parts.hostname or "", parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        context = self._tls() if secure else None
        via = (proxy.hostname or "", proxy.port or 80) if proxy else (host, port)
        connection = Connection(*via, self._timeout)
        try:
            if secure and proxy:
                connection.tunnel(host, port, _proxy_authorization(proxy))
            if secure:
                connection.secure(context, host)
        except BaseException:
            connection.close()
            raise
        return connection

    def _tls(self) -> Any:
        with self._lock:
            if self._context is None:
                import ssl

                names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
                bundle = next((os.environ[n] for n in names if os.environ.get(n)), None)
                self._context = ssl.create_default_context(cafile=bundle)
                if not bundle and not self._context.cert_store_stats()["x509_ca"]:
                    with contextlib.suppress(ImportError):
                        import certifi  # comes with huggingface_hub's own client

                        self._context.load_verify_locations(cafile=certifi.where())
            return self._context


def in_parallel(work: Callable[[T], R], items: Iterable[T], workers: int) -> list[R]:
    """`work` of every item, in their order, by a few threads. The first failure ends it and is raised."""
    todo = list(enumerate(items))
    done: dict[int, R] = {}
    failed: list[BaseException] = []
    todo.reverse()

    def worker() -> None:
        while todo and not failed:
            try:
                number, item = todo.pop()
            except IndexError:
                return
            try:
                done[number] = work(item)
            except BaseException as e:
                failed.append(e)

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(min(workers, len(todo)) - 1)]
    for thread in threads:
        thread.start()
    worker()
    for thread in threads:
        if any(isinstance(e, KeyboardInterrupt) for e in failed):
            break  # nobody waits for an answer any more; the threads end with the process
        thread.join()
    if failed:
        raise failed[0]
    return [done[n] for n in sorted(done)]


def _receive(answer: Answer, parts: SplitResult, start: int, length: int | None, limit: int) -> Reply:
    headers, status, url, declared = answer.headers, answer.status, parts.geturl(), answer.length
    if not 200 <= status < 300:
        _read(answer, MAX_ERROR_BYTES)  # so that the connection can be used again
        return Reply(status, headers, b"", url, _content_range(headers)[1])
    if length is None:
        if (declared or 0) > limit:
            raise HubError(f"{url} has {declared:,} bytes, more than the {limit:,} that such a file can have")
        body = _read(answer, limit + 1)
        if len(body) > limit:
            raise HubError(f"{url} has more than the {limit:,} bytes that such a file can have")
        return Reply(status, headers, body, url, len(body))
    skip, total = 0, declared
    if status == 206:
        first, total = _content_range(headers)
        if first != start:
            raise HubError(f"{url} answers with other bytes than it was asked for")
    else:  # the server ignores ranges: read as far as needed, then hang up
        skip = start
        if skip > MAX_SKIP_BYTES:
            raise HubError(f"{url} cannot be read in parts: its server ignores ranges")
    body = _read(answer, skip + length)[skip:]
    if total is not None and len(body) < min(length, total - start):
        raise Cut
    return Reply(status, headers, body, url, total)


def _read(answer: Answer, length: int) -> bytes:
    """At most `length` bytes, in whatever pieces they come, within the deadline."""
    end = time.monotonic() + DEADLINE
    pieces: list[bytes] = []
    while length > 0:
        piece = answer.read(min(length, 1 << 20))
        if not piece:
            break
        pieces.append(piece)
        length -= len(piece)
        if time.monotonic() > end:
            raise TimeoutError
    return b"".join(pieces)


def _content_range(headers: dict[str, str]) -> tuple[int | None, int | None]:
    match = _CONTENT_RANGE.fullmatch(headers.get("content-range", "").strip())
    if match is None:
        return None, None
    return int(match[1]) if match[1] else None, int(match[3]) if match[3] != "*" else None


def _retry_after(reply: Reply) -> float | None:
    value = reply.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit() and len(value) < 10:
        return float(value)
    if value:
        from email.utils import parsedate_to_datetime

        try:
            return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
        except (ValueError, TypeError, OverflowError):
            return None
    return None


def _proxy(parts: SplitResult) -> SplitResult | None:
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass

    address = getproxies().get(parts.scheme)
    if not address or proxy_bypass(parts.netloc):
        return None
    return urlsplit(address if "//" in address else f"//{address}")


def _proxy_authorization(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    from base64 import b64encode
    from urllib.parse import unquote

    secret = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(secret.encode()).decode()}"}


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or repr(url[:100])
    except ValueError:
        return repr(url[:100])


def _final(e: Exception) -> bool:
    """Trying again would not help: an unknown name, a refused certificate, an address that is none."""
    return isinstance(e, (socket.gaierror, ValueError)) or type(e).__name__.startswith("SSLCert")


def _reason(e: Exception, timeout: float) -> str:
    if isinstance(e, (Cut, Closed)):
        return "ends its answer before it is complete"
    if isinstance(e, TimeoutError):
        return f"does not answer within {timeout:.0f} s"
    if isinstance(e, socket.gaierror):
        return "cannot be found: there is no network, or no host of that name"
    if isinstance(e, OSError):
        return f"cannot be reached: {getattr(e, 'verify_message', '') or (e.strerror or str(e)).lower()}"
    if isinstance(e, ValueError):
        return "is not an address that can be asked"
    return f"does not answer as HTTP: {e}"
