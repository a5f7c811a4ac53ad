"""The application and its server: loopback only, static files from the package, a handful of endpoints."""

import os
import re
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from oomph.errors import CommandError
from oomph.web.api import Job, Workers, endpoint, progress_endpoint, upload_endpoint
from oomph.web.guard import Guard
from oomph.web.public import without_belongings
from oomph.web.style import stylesheet

if TYPE_CHECKING:
    import uvicorn

END_SECONDS = 1  # that requests in progress have after Ctrl-C
MOST_CONNECTIONS = 1000
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_SCRIPTS = (
    "main.js", "ask.js", "box.js", "charts.js", "controls.js", "dom.js", "forms.js", "kept.js", "place.js", "plots.js",
    "read.js", "readings.js", "refusals.js", "releases.js", "save.js", "share.js", "tables.js", "tabs.js", "theme.js",
    "tips.js", "turn.js", "view.js", "words.js",
)  # fmt: skip
_PAGES = {
    "/": "index.html",
    "/file.html": "file.html",
    "/icon.svg": "icon.svg",
    **{f"/{name}": name for name in (*_SCRIPTS, "vendor/uplot.js", "vendor/uplot.css")},
}
STYLE = "/style.css"  # the table of colours is a part of it
JOBS = (
    Job("plan", 30), Job("what_if", 60), Job("diff", 60), Job("inspect", 30), Job("compare", 90, slow=True),
    Job("simulate", 60, slow=True), Job("fit", 120, slow=True), Job("cards", 120, slow=True),
    Job("models", 120, slow=True),
)  # fmt: skip
UPLOADS = (Job("read", 120), Job("explain", 120, slow=True))


def application(port: int, *, token: str, root: str = ".", public: str = "") -> Guard:
    """`token`: what the browser must show; `root`: the folder that it may look at; `public`: see web/public.py."""
    static = {path: _static(name) for path, name in _PAGES.items()}
    static[STYLE] = (stylesheet().encode(), _TYPES[".css"])
    started: list[Workers] = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        started[:] = [Workers(os.path.realpath(root))]
        async with anyio.create_task_group() as group:
            group.start_soon(_warm, started[0])
            yield
            group.cancel_scope.cancel()

    async def page(request: Request) -> Response:
        body, kind = static[request.url.path]
        return Response(body, media_type=kind)

    def workers() -> Workers:
        return started[0]

    async def catalog(request: Request) -> Response:
        return await workers().answer(request, Job("catalog", 30), {})

    routes: list[Any] = [Route(path, page) for path in static]
    routes += [
        Route("/api/catalog", catalog),
        Route("/api/progress", progress_endpoint(workers)),
        *[Route(f"/api/{job.name}", endpoint(workers, job), methods=["POST"]) for job in JOBS],
        *[Route(f"/api/{job.name}", upload_endpoint(workers, job), methods=["POST"]) for job in UPLOADS],
    ]
    return Guard(Starlette(routes=routes, lifespan=lifespan), port, token, public)


async def _warm(workers: Workers) -> None:
    with suppress(Exception):  # the first request will say what is wrong
        await workers.warm()


def _static(name: str) -> tuple[bytes, str]:
    return files("oomph.web").joinpath("static").joinpath(name).read_bytes(), _TYPES[os.path.splitext(name)[1]]


def listen(port: int) -> socket.socket:
    """A socket on the loopback address; port 0 takes a free one."""
    # asyncio turns Nagle off only where the protocol is named; without it every answer waits 40 ms for an ACK
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        sock.close()
        raise CommandError(f"port {port} on 127.0.0.1: {error}") from None
    sock.listen(1024)
    return sock


def make_server(port: int, *, token: str, public: str = "") -> "uvicorn.Server":
    import uvicorn

    from oomph.web.patience import PatientProtocol

    config = uvicorn.Config(
        application(port, token=token, public=public),
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=END_SECONDS,
    )
    return uvicorn.Server(config)


def serve_publicly(port: int, name: str) -> None:
    """Behind a reverse proxy that answers to this name."""
    if not re.fullmatch(r"[\w.-]{1,200}(:\d{1,5})?", name):
        raise CommandError(f"--public {name[:100]!r} is no host's name, such as oomph.example.org")
    os.chdir(without_belongings())
    sock = listen(port)
    at = sock.getsockname()[1]
    print(f"oomph serves https://{name} at 127.0.0.1:{at} (Ctrl-C ends it)", flush=True)
    make_server(at, token=secrets.token_urlsafe(24), public=name).run(sockets=[sock])


def serve(port: int, *, browser: bool, root: str = ".") -> None:
    try:
        os.chdir(root)  # names without a folder mean its files
    except (OSError, ValueError) as error:
        raise CommandError(f"--root {root[:200]!r}: {getattr(error, 'strerror', None) or error}") from None
    sock = listen(port)
    at = sock.getsockname()[1]
    token = secrets.token_urlsafe(24)
    address = f"http://127.0.0.1:{at}/?token={token}"
    # Not through the guarded stream: this secret is for the one who reads it.
    out = getattr(_stdout(), "unguarded", _stdout())
    print(f"oomph is at {address} (Ctrl-C ends it)", file=out, flush=True)
    if browser:
        import threading
        import webbrowser

        threading.Timer(0.5, webbrowser.open, (address,)).start()
    make_server(at, token=token).run(sockets=[sock])


def _stdout() -> Any:
    import sys

    return sys.stdout
