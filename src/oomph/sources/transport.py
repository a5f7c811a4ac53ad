"""HTTP as the hub needs it: byte ranges, redirects, bounded retries, one deadline. Nothing here knows a model.

urllib3 speaks HTTP (imported when the first question is asked). Ours is what a question may cost: `Patience` counts
from its first request to its last byte, whatever a server drips, repeats or leaves open. Each exchange runs in a thread
of its own, so that neither a silent server nor a slow one is waited for longer, and Ctrl-C ends it at any time.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit

from msgspec import Struct

from oomph.errors import HubError

if TYPE_CHECKING:
    import urllib3

BACKOFF = (0.2, 0.6, 1.8)  # seconds before each further attempt, where the server does not say
MAX_RETRY_AFTER = 8.0  # a longer wait is the user's to decide
MAX_REDIRECTS = 5
MAX_ERROR_BYTES = 1 << 16
MAX_SKIP_BYTES = 64 << 20  # how far to read on when a server ignores the range it was asked for
ANSWER_SECONDS = 10.0  # to the first byte of an answer
QUESTION_SECONDS = 60.0  # for all of a question, retries included; --timeout
_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,19})-(\d{1,19})|\*)/(\d{1,19}|\*)")
_RETRY = frozenset({408, 429, 500, 502, 503, 504})
_REDIRECT = frozenset({301, 302, 303, 307, 308})
_CONNECTIONS = 16  # kept for one host

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


class Cut(Exception):
    """The body ended before its length."""


class BadAnswer(Exception):
    """What came is not HTTP."""


class OutOfTime(Exception):
    """The question's time is over; `first`: without any answer."""

    def __init__(self, seconds: float, *, first: bool) -> None:
        self.seconds, self.first = seconds, first


class Patience:
    """How long one question may take, all its requests together. The clock starts with the first."""

    def __init__(self, answer: float | None = None, whole: float | None = None) -> None:
        self.whole = QUESTION_SECONDS if whole is None else whole
        self.answer = min(ANSWER_SECONDS if answer is None else answer, self.whole)
        self._end = 0.0

    def left(self) -> float:
        now = time.monotonic()
        self._end = self._end or now + self.whole
        return self._end - now


class Transport:
    def __init__(
        self,
        *,
        token: str | None = None,
        trusted: str = "",
        timeout: float | None = None,
        whole: float | None = None,
    ) -> None:
        """`timeout`: seconds to the first byte of an answer; `whole`: for all requests together."""
        self._authorization = f"Bearer {token}" if token else ""
        self._trusted = urlsplit(trusted).netloc  # the only host that the token is sent to
        self._patience = Patience(timeout, whole)
        self._managers: dict[str, Any] = {}  # by proxy
        self._lock = threading.Lock()

    def get(self, url: str, *, limit: int, start: int = 0, length: int | None = None) -> Reply:
        """The whole body up to `limit`, or with `length` that many bytes from `start`. Other statuses than 2xx come
        back as they are; a server that cannot be reached is an error."""
        for delay in (*BACKOFF, None):
            try:
                reply = self._follow(url, start, length, limit)
                wait = _retry_after(reply)
                if reply.status not in _RETRY or delay is None:
                    return reply
                delay = delay if wait is None else wait
                if delay > min(MAX_RETRY_AFTER, self._patience.left()):
                    return reply
                time.sleep(delay)
            except (OSError, Cut, BadAnswer, OutOfTime, ValueError, _http_error()) as error:
                if delay is None or _is_final(error):
                    raise Unreachable(f"{_host(url)} {_reason(error)}") from None
                if delay < self._patience.left():
                    time.sleep(delay)
        raise AssertionError

    def close(self) -> None:
        managers, self._managers = self._managers, {}
        for manager in managers.values():
            manager.clear()

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
            if _is_private(target) and not _is_private(url):
                raise HubError(f"{_host(url)} redirects to an address of this network")
            url = target
        raise HubError(f"{_host(url)} redirects in a circle")

    def _exchange(self, parts: SplitResult, start: int, length: int | None, limit: int) -> Reply:
        """One request and its answer, in a thread that is left alone when the time is over."""
        headers = {"Accept-Encoding": "identity", "User-Agent": "oomph"}
        if self._authorization and parts.netloc == self._trusted:
            headers["Authorization"] = self._authorization
        if length is not None:
            headers["Range"] = f"bytes={start}-{start + length - 1}"
        exchange = _Exchange()

        def ask() -> Reply:
            answer = self._manager(parts).request(
                "GET",
                parts._replace(fragment="").geturl(),
                headers=headers,
                redirect=False,
                retries=False,
                preload_content=False,
                timeout=self._timeout(),
            )
            exchange.answer = answer
            exchange.answered.set()
            try:
                return _receive(answer, parts, start, length, limit)
            except ValueError as wrong:  # of http.client: a chunk of -5 bytes
                answer.close()
                raise BadAnswer(str(wrong)) from None
            except BaseException:
                answer.close()
                raise

        return exchange.run(ask, self._patience)

    def _timeout(self) -> urllib3.Timeout:
        import urllib3

        seconds = max(0.1, min(self._patience.answer, self._patience.left()))
        return urllib3.Timeout(connect=seconds, read=seconds)

    def _manager(self, parts: SplitResult) -> Any:
        """Kept connections: directly, or through the environment's proxy."""
        proxy = _proxy(parts)
        with self._lock:
            if proxy not in self._managers:
                self._managers[proxy] = _new_manager(proxy)
            return self._managers[proxy]


class _Exchange:
    """A thread that asks, and how long its answer is waited for."""

    def __init__(self) -> None:
        self.answered = threading.Event()
        self.answer: Any = None
        self._finished = threading.Event()
        self._reply: Reply | None = None
        self._error: BaseException | None = None

    def run(self, ask: Callable[[], Reply], patience: Patience) -> Reply:
        left = patience.left()
        if left <= 0:
            raise OutOfTime(patience.whole, first=False)

        def work() -> None:
            try:
                self._reply = ask()
            except BaseException as error:
                self._error = error
            self.answered.set()
            self._finished.set()

        threading.Thread(target=work, daemon=True).start()
        if not self.answered.wait(min(patience.answer, left)):
            raise OutOfTime(min(patience.answer, left), first=True)
        if not self._finished.wait(max(0.0, patience.left())):
            self._hang_up()
            raise OutOfTime(patience.whole, first=False)
        if self._error is not None:
            raise self._error
        assert self._reply is not None
        return self._reply

    def _hang_up(self) -> None:
        """So that the thread ends too: a socket that is closed is not read any more."""
        with contextlib.suppress(Exception):
            self.answer.shutdown()


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
            except BaseException as error:
                failed.append(error)

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


def _new_manager(proxy: str) -> Any:
    import urllib3

    options: dict[str, Any] = {"num_pools": 8, "maxsize": _CONNECTIONS, "ssl_context": _tls()}
    if not proxy:
        return urllib3.PoolManager(**options)
    parts = urlsplit(proxy)
    secret = None
    if parts.username:
        from urllib.parse import unquote

        secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return urllib3.ProxyManager(address, proxy_headers=urllib3.make_headers(proxy_basic_auth=secret), **options)


def _tls() -> Any:
    import ssl

    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    bundle = next((os.environ[n] for n in names if os.environ.get(n)), None)
    context = ssl.create_default_context(cafile=bundle)
    if not bundle and not context.cert_store_stats()["x509_ca"]:
        with contextlib.suppress(ImportError):
            import certifi  # comes with huggingface_hub's own client

            context.load_verify_locations(cafile=certifi.where())
    return context


def _receive(answer: Any, parts: SplitResult, start: int, length: int | None, limit: int) -> Reply:
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


def _proxy(parts: SplitResult) -> str:
    """The environment's proxy for an address, "" where there is none."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return ""
    from urllib.request import getproxies, proxy_bypass

    address = getproxies().get(parts.scheme)
    if not address or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return ""
    return address if "//" in address else f"http://{address}"


def _is_private(url: str) -> bool:
    """Whether an address is one of this machine or its network. A name is not looked up."""
    from ipaddress import ip_address

    host = (urlsplit(url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith((".localhost", ".internal", ".local")):
        return True
    try:
        return not ip_address(host).is_global
    except ValueError:
        return False


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2] or repr(url[:100])
    except ValueError:
        return repr(url[:100])


def _without_query(url: str) -> str:
    """As it is shown: a signed address has its secret behind the question mark."""
    return url.partition("?")[0]


def _http_error() -> type[Exception]:
    from urllib3.exceptions import HTTPError

    return HTTPError


def _is_final(error: BaseException) -> bool:
    """Trying again would not help: an unknown name, a refused certificate, an address that is none, no time left."""
    from urllib3 import exceptions

    if isinstance(error, OutOfTime):
        return True
    if isinstance(error, exceptions.SSLError):
        return "certificate" in str(error).lower()
    return isinstance(error, (exceptions.NameResolutionError, exceptions.LocationValueError, ValueError))


def _reason(error: BaseException) -> str:
    from urllib3 import exceptions

    if isinstance(error, OutOfTime):
        if error.first:
            return f"does not answer within {error.seconds:.0f} s"
        return f"does not answer to the end within {error.seconds:.0f} s (--timeout SECONDS waits longer)"
    if isinstance(error, Cut | exceptions.IncompleteRead | ConnectionError):
        return "ends its answer before it is complete"
    if isinstance(error, exceptions.NameResolutionError):
        return "cannot be found: there is no network, or no host of that name"
    if isinstance(error, exceptions.ProxyError):
        return f"cannot be reached through its proxy: {_own_words(error)}"
    if isinstance(error, exceptions.NewConnectionError | exceptions.SSLError):
        return f"cannot be reached: {_own_words(error)}"
    if isinstance(error, exceptions.TimeoutError | TimeoutError):
        return "does not answer in time"
    if isinstance(error, exceptions.ProtocolError | BadAnswer):
        inner = error.args[-1] if error.args else error
        cut = isinstance(inner, ConnectionError) or type(inner).__name__ in ("IncompleteRead", "InvalidChunkLength")
        if cut and type(inner).__name__ != "BadStatusLine":
            return "ends its answer before it is complete"
        return f"does not answer as HTTP: {_own_words(error)}"
    if isinstance(error, exceptions.LocationValueError | ValueError):
        return "is not an address that can be asked"
    return f"cannot be reached: {_own_words(error)}"


def _own_words(error: BaseException) -> str:
    """What went wrong, without the names of a library's objects around it."""
    while error.args and isinstance(error.args[-1], BaseException):
        error = error.args[-1]
    if type(error).__name__ in ("BadStatusLine", "UnknownProtocol"):
        return "no status line"
    message = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or str(error)
    return " ".join(message.rpartition("] ")[2].rstrip("')").split()).lower()[:160]
