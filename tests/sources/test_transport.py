"""HTTP against raw bytes: whatever a server sends, and however slowly, ends in a reply or in one sentence."""

import contextlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from oomph.errors import HubError
from oomph.sources.hub import transport
from oomph.sources.hub.reply import Reply


class RawServer:
    """Answers every connection with the same bytes, then hangs up."""

    def __init__(self) -> None:
        self.answer = b""
        self.asked: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/x"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.asked.append(connection.recv(1 << 16))
                connection.sendall(self.answer)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def server() -> Iterator[RawServer]:
    backoff, transport.BACKOFF = transport.BACKOFF, ()
    raw = RawServer()
    yield raw
    raw.close()
    transport.BACKOFF = backoff


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def get(server: RawServer, answer: bytes, **options: int) -> Reply:
    server.answer = answer
    client = transport.Transport(timeout=2)
    try:
        return client.get(server.url, limit=1000, **options)
    finally:
        client.close()


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (OK + b"content-length:5\n\nhello and more", b"hello"),
        (OK + b"\r\nhello", b"hello"),
        (b"HTTP/1.0 200 OK\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: 1\r\n\r\n", b"hello"),
        (OK + b"Transfer-Encoding: chunked\r\nContent-Length: 9\r\n\r\n0\r\n\r\n", b""),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (OK + b"Content-Length: 0\r\n\r\n", b""),
    ],
)
def test_ways_to_frame_a_body(server: RawServer, answer: bytes, body: bytes) -> None:
    assert get(server, answer).body == body


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "ends its answer"),
        (b"\r\n\r\n", "not answer as HTTP: no status line"),
        (b"SSH-2.0-OpenSSH\r\n", "no status line"),
        (b"HTTP/1.1 abc\r\n\r\n", "no status line"),
        (b"HTTP/2 200\r\n\r\n", "no status line"),
        (OK + b"a: " + b"x" * 70_000 + b"\r\n\r\n", "not answer as HTTP"),
        (OK + b"a: b\r\n" * 20_000, "not answer as HTTP"),
        (OK + b"Content-Length: -1\r\n\r\n", "a length that is no number"),
        (OK + b"Content-Length: 99999999999999999999\r\n\r\n", "a length that is no number"),
        (OK + b"Content-Length: \xb2\r\n\r\n", "a length that is no number"),
        (OK + b"Content-Length: 9\r\n\r\nhello", "ends its answer"),
        (OK + b"Content-Length: 5000\r\n\r\n", "has 5,000 bytes, more than the 1,000"),
        (OK + b"\r\n" + b"x" * 2000, "has more than the 1,000 bytes"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", "ends its answer"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "ends its answer"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n", "not answer as HTTP"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n", "ends its answer"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhel", "ends its answer"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 3, "ends its answer"),
    ],
)
def test_answers_that_are_none(server: RawServer, answer: bytes, says: str) -> None:
    with pytest.raises(HubError, match=says) as e:
        get(server, answer)
    assert "\n" not in e.value.message


def test_ranges(server: RawServer) -> None:
    part = b"HTTP/1.1 206 Partial Content\r\nContent-Length: 3\r\nContent-Range: bytes 2-4/9\r\n\r\nllo"
    reply = get(server, part, start=2, length=3)
    assert (reply.body, reply.total) == (b"llo", 9)
    assert b"Range: bytes=2-4\r\n" in server.asked[-1]
    with pytest.raises(HubError, match="other bytes"):
        get(server, part, start=1, length=3)
    with pytest.raises(HubError, match="other bytes"):
        get(server, part.replace(b"2-4", b"x-y"), start=2, length=3)
    assert get(server, OK + b"Content-Length: 9\r\n\r\nhello you", start=6, length=3).body == b"you"
    with pytest.raises(HubError, match="its server ignores ranges"):
        get(server, OK + b"Content-Length: 9\r\n\r\nhello you", start=1 << 40, length=3)


def test_addresses_with_odd_characters() -> None:
    for url in (
        "http://127.0.0.1:9/a b",
        "http://127.0.0.1:9/\u00fc",
        "http://x" * 40,
        "http://127.0.0.1:99999/",
        "http://[::1",
    ):
        with pytest.raises(HubError):
            transport.Transport(timeout=1).get(url, limit=10)


@given(
    st.binary(max_size=200),
    st.sampled_from([b"", OK, OK + b"Transfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 206 x\r\n"]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes(server: RawServer, raw: bytes, start: bytes) -> None:
    for options in ({}, {"start": 0, "length": 50}):
        try:
            get(server, start + raw, **options)
        except HubError as e:
            assert "\n" not in e.message


class DrippingServer:
    """Sends a beginning, then the same piece again and again, until the other side has had enough."""

    def __init__(self, first: bytes, piece: bytes, pause: float) -> None:
        self.first, self.piece, self.pause = first, piece, pause
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/x"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(self.first)
            while self.piece:
                time.sleep(self.pause)
                connection.sendall(self.piece)
            time.sleep(30)

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize(
    ("first", "piece", "says"),
    [
        (b"", b"", "does not answer within 1 s"),  # silence
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", "does not answer within 1 s"),
        (b"", b"H", "does not answer within 1 s"),
        (OK, b"a", "does not answer within 1 s"),
        (OK + b"Content-Length: 500\r\n\r\n", b"a", "to the end within 2 s"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", "to the end within 2 s"),
        (OK + b"\r\n", b"a", "to the end within 2 s"),
    ],
)
def test_one_deadline_for_a_question(first: bytes, piece: bytes, says: str) -> None:
    server = DrippingServer(first, piece, 0.05)
    client = transport.Transport(timeout=1, whole=2)
    begin = time.monotonic()
    try:
        with pytest.raises(HubError, match=says):
            client.get(server.url, limit=1000)
        assert time.monotonic() - begin < 12
    finally:
        server.close()
        client.close()


def test_retries_end_with_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "BACKOFF", (0.2,) * 50)
    server = DrippingServer(
        b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", b"", 0
    )
    begin = time.monotonic()
    assert transport.Transport(timeout=1, whole=2).get(server.url, limit=1000).status == 503
    assert 0.9 < time.monotonic() - begin < 12
    server.close()


def test_an_interrupt_is_heard_at_once() -> None:
    """Ctrl-C while a server is silent."""
    server = DrippingServer(b"", b"", 0)
    script = (
        "from oomph.sources.hub.transport import Transport\n"
        f"print('asking', flush=True)\nTransport().get({server.url!r}, limit=10)\n"
    )
    # What a shell starts behind & ignores the signal, and children inherit that.
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline()
    time.sleep(1)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(10) != 0 and time.monotonic() - begin < 6
    server.close()


def test_no_redirect_into_this_network(server: RawServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def private(url: str) -> bool:
        return "169.254" in url

    assert transport._is_private("http://127.0.0.1/") and transport._is_private("http://[::1]/")
    assert transport._is_private("http://10.1.2.3/") and not transport._is_private("https://huggingface.co/")
    monkeypatch.setattr(transport, "_is_private", private)
    with pytest.raises(HubError, match="redirects to an address of this network"):
        get(server, b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/x\r\nContent-Length: 0\r\n\r\n")
