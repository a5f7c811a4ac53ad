"""A Hugging Face hub on 127.0.0.1: real HTTP, ranges, large files from a second host, and every way to fail.

    with LoopbackHub() as hub:
        hub.add("org/name", {"config.json": b"{}", "model.safetensors": Sparse(header, size)})
        hub.fail("config.json", Fault(status=503), times=2)

Small files come from the hub itself, files of LFS_BYTES and more from the "CDN" (another port), as on the real one.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit

LFS_BYTES = 1 << 14
REVISION_PATHS = re.compile(r"/api/models/(?P<repo>[^/]+/[^/]+)(?:/(?P<what>revision|tree)/(?P<revision>[^/]+))?")
FILE_PATHS = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")


@dataclass(frozen=True)
class Sparse:
    """A file of `size` bytes of which only the beginning is not zero."""

    head: bytes
    size: int

    def __len__(self) -> int:
        return self.size

    def slice(self, begin: int, end: int) -> bytes:
        part = self.head[begin:end]
        return part + bytes(end - begin - len(part))


@dataclass(frozen=True)
class Fault:
    """What to do instead of answering."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    cut: int | None = None  # send only that many bytes of the true body, then hang up
    ignore_range: bool = False  # answer 200 with everything
    hang_up: bool = False  # close without a word
    shift: int = 0  # answer another range than asked for
    garbage: bytes = b""  # not HTTP at all
    chunked: bool = False  # no Content-Length


@dataclass
class Repo:
    files: dict[str, Sparse]
    commit: str
    branches: dict[str, str]
    gated: bool = False
    token: str = ""  # private: only with this token


@dataclass(frozen=True)
class Seen:
    host: str  # "hub" or "cdn"
    path: str
    range: str | None
    authorization: str | None


class LoopbackHub:
    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.moved: dict[str, str] = {}
        self.seen: list[Seen] = []
        self.sent = 0  # bytes of bodies
        self.connections = 0
        self._faults: list[tuple[str, Fault, list[int]]] = []
        self._lock = threading.Lock()
        self._servers = {name: self._serve(name) for name in ("hub", "cdn")}
        self.url = self._address("hub")

    def add(self, repo: str, files: dict[str, bytes | Sparse], **options: object) -> str:
        commit = hashlib.sha1(repo.encode()).hexdigest()
        stored = {n: f if isinstance(f, Sparse) else Sparse(f, len(f)) for n, f in files.items()}
        self.repos[repo] = Repo(stored, commit, {"main": commit, commit: commit}, **options)  # type: ignore[arg-type]
        return commit

    def fail(self, path: str, fault: Fault, times: int = 1 << 30) -> None:
        """The next `times` requests whose path contains `path` get `fault`."""
        self._faults.append((path, fault, [times]))

    def close(self) -> None:
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def __enter__(self) -> LoopbackHub:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _address(self, name: str) -> str:
        return f"http://127.0.0.1:{self._servers[name].server_address[1]}"

    def _serve(self, name: str) -> ThreadingHTTPServer:
        hub = self

        class Handler(_Handler):
            def setup(self) -> None:
                hub.connections += 1
                super().setup()

            host = name

            def route(self) -> None:
                hub.handle(self)

        server = _Server(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    def handle(self, request: _Handler) -> None:
        quoted = urlsplit(request.path).path
        path = unquote(quoted)
        with self._lock:
            authorization = request.headers.get("Authorization")
            self.seen.append(Seen(request.host, path, request.headers.get("Range"), authorization))
            fault = self._fault(path)
        if fault.garbage or fault.hang_up:
            request.wfile.write(fault.garbage)
            request.close_connection = True
        elif fault.status:
            request.answer(fault.status, fault.body, fault.headers)
        elif match := REVISION_PATHS.fullmatch(quoted):
            self._api(request, match["repo"], match["what"] or "revision", unquote(match["revision"] or "main"))
        elif match := FILE_PATHS.fullmatch(quoted):
            self._file(request, match["repo"], unquote(match["revision"]), unquote(match["file"]), fault)
        else:
            request.answer(404, b"")

    def _fault(self, path: str) -> Fault:
        for part, fault, times in self._faults:
            if part in path and times[0] > 0:
                times[0] -= 1
                return fault
        return Fault()

    def _repo(self, request: _Handler, name: str, revision: str) -> Repo | None:
        if name in self.moved:
            new = request.path.replace(f"/{name}", f"/{self.moved[name]}", 1)
            request.answer(307, b"", {"Location": new})
            return None
        repo = self.repos.get(name)
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if repo is None or (repo.token and bearer != repo.token and not repo.gated):
            code = {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}
            request.answer(404 if bearer else 401, b"", code)
        elif revision not in repo.branches:
            request.answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
        else:
            return repo
        return None

    def _api(self, request: _Handler, name: str, what: str, revision: str) -> None:
        repo = self._repo(request, name, revision)
        if repo is None:
            return
        if what == "tree":
            listing: object = [{"type": "file", "path": n, "size": len(f)} for n, f in repo.files.items()]
        else:
            blobs = "blobs" in parse_qs(urlsplit(request.path).query)
            siblings = [{"rfilename": n, **({"size": len(f)} if blobs else {})} for n, f in repo.files.items()]
            listing = {"id": name, "modelId": name, "sha": repo.commit, "gated": repo.gated, "siblings": siblings}
        request.answer(200, json.dumps(listing).encode(), {"Content-Type": "application/json"})

    def _file(self, request: _Handler, name: str, revision: str, file: str, fault: Fault) -> None:
        if request.host == "cdn":
            self._send(request, self.repos[name].files[file], fault)
            return
        repo = self._repo(request, name, revision)
        if repo is None:
            return
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if repo.gated and bearer != repo.token:
            status = 403 if bearer else 401
            request.answer(status, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"})
        elif file not in repo.files:
            request.answer(404, b"", {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
        elif len(repo.files[file]) >= LFS_BYTES:
            target = f"{self._address('cdn')}/{name}/resolve/{repo.commit}/{quote(file)}?signature=x"
            request.answer(302, b"", {"Location": target, "X-Repo-Commit": repo.commit})
        else:
            self._send(request, repo.files[file], fault, {"X-Repo-Commit": repo.commit})

    def _send(self, request: _Handler, file: Sparse, fault: Fault, headers: dict[str, str] | None = None) -> None:
        size, asked = len(file), re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("Range", ""))
        begin, end, status, more = 0, size, 200, dict(headers or {})
        if asked and not fault.ignore_range:
            begin, end = int(asked[1]) + fault.shift, min(size, int(asked[2] or size) + 1)
            if begin >= size:
                request.answer(416, b"", {"Content-Range": f"bytes */{size}"})
                return
            status, more["Content-Range"] = 206, f"bytes {begin}-{end - 1}/{size}"
        self.sent += request.answer_file(status, file, begin, end, more, fault)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Clients hang up in the middle: that is what half of the tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    host = ""

    def route(self) -> None:
        raise NotImplementedError

    def do_GET(self) -> None:
        try:
            self.route()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def answer_file(
        self, status: int, file: Sparse, begin: int, end: int, headers: dict[str, str], fault: Fault
    ) -> int:
        length = {"Transfer-Encoding": "chunked"} if fault.chunked else {"Content-Length": str(end - begin)}
        self.send_response(status)
        for name, value in {**length, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        stop = end if fault.cut is None else min(end, begin + fault.cut)
        for at in range(begin, stop, 1 << 16):
            piece = file.slice(at, min(stop, at + (1 << 16)))
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if fault.chunked else piece)
        if fault.chunked and fault.cut is None:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = self.close_connection or stop < end
        return stop - begin
