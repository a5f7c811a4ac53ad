"""HTTP as the hub needs it: byte ranges, redirects, bounded retries, one deadline. Nothing here knows a model.

urllib3 speaks HTTP (imported when the first question is asked). Ours is what a question may cost: `Patience` counts
from its first request to its last byte, whatever a server drips, repeats or leaves open. Each exchange runs in a thread
of its own, so that neither a silent server nor a slow one is waited for longer, and Ctrl-C ends it at any time.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit

from oomph.errors import HubError
from oomph.sources.hub.failures import BadAnswer, Cut, OutOfTime, http_error, is_final, reason
from oomph.sources.hub.reply import Reply, receive

if TYPE_CHECKING:
    import urllib3

BACKOFF = (0.2, 0.6, 1.8)  # seconds before each further attempt, where the server does not say
MAX_RETRY_AFTER = 8.0  # a longer wait is the user's to decide
MAX_REDIRECTS = 5
ANSWER_SECONDS = 10.0  # to the first byte of an answer
QUESTION_SECONDS = 60.0  # for all of a question, retries included; --timeout
_RETRY = frozenset({408, 429, 500, 502, 503, 504})
_REDIRECT = frozenset({301, 302, 303, 307, 308})
_CONNECTIONS = 16  # kept for one host

T = TypeVar("T")
R = TypeVar("R")


class Unreachable(HubError):
    """Nobody answered, or not to the end: a cached copy may do instead."""


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
            except (OSError, Cut, BadAnswer, OutOfTime, ValueError, http_error()) as error:
                if delay is None or is_final(error):
                    raise Unreachable(f"{_host(url)} {reason(error)}") from None
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
                return receive(answer, parts, start, length, limit)
            except ValueError as wrong:  # of http.client: a chunk of -5 bytes
                answer.close()
                raise BadAnswer(str(wrong)) from None
            except BaseException:
                answer.close()
                raise

        return exchange.run(ask, self._patience)

    def _timeout(self) -> "urllib3.Timeout":
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
            import certifi  # where another package brought it

            context.load_verify_locations(cafile=certifi.where())
    return context


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
