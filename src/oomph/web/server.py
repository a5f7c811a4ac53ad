"""The application and its server: loopback only, static files from the package, a handful of endpoints."""

from __future__ import annotations

import os
import socket
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from oomph.errors import CommandError
from oomph.web import api
from oomph.web.guard import Guard

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_PAGES = {
    "/": "index.html",
    "/app.js": "app.js",
    "/charts.js": "charts.js",
    "/style.css": "style.css",
    "/icon.svg": "icon.svg",
}


def application(port: int) -> Guard:
    static = {path: _static(name) for path, name in _PAGES.items()}

    async def page(request: Request) -> Response:
        body, kind = static[request.url.path]
        return Response(body, media_type=kind)

    async def catalog(_: Request) -> Response:
        return api.answer(api.catalog_of())

    routes: list[Any] = [Route(path, page) for path in _PAGES]
    routes += [
        Route("/api/catalog", catalog),
        Route("/api/plan", api.endpoint(api.plan_of), methods=["POST"]),
        Route("/api/levers", api.endpoint(api.levers_of, slow=True), methods=["POST"]),
        Route("/api/diff", api.endpoint(api.diff_of, slow=True), methods=["POST"]),
        Route("/api/simulate", api.endpoint(api.simulate_of, slow=True), methods=["POST"]),
        Route("/api/explain", api.explain_endpoint, methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes), port)


def _static(name: str) -> tuple[bytes, str]:
    return files("oomph.web").joinpath("static").joinpath(name).read_bytes(), _TYPES[os.path.splitext(name)[1]]


def listen(port: int) -> socket.socket:
    """A socket on the loopback address; port 0 takes a free one."""
    # asyncio turns Nagle off only where the protocol is named; without it every answer waits 40 ms for an ACK
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as e:
        sock.close()
        raise CommandError(f"port {port} on 127.0.0.1: {e}") from None
    sock.listen(128)
    return sock


def serve(port: int, *, browser: bool) -> None:
    import uvicorn

    sock = listen(port)
    at = sock.getsockname()[1]
    address = f"http://127.0.0.1:{at}/"
    print(f"oomph is at {address} (Ctrl-C ends it)", flush=True)
    if browser:
        import threading
        import webbrowser

        threading.Timer(0.5, webbrowser.open, (address,)).start()
    config = uvicorn.Config(
        application(at), log_level="warning", access_log=False, server_header=False, date_header=False
    )
    uvicorn.Server(config).run(sockets=[sock])
