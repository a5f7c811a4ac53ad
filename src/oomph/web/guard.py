"""Who may talk to the page's server: this machine's browser, from the page itself, and nobody else.

A page elsewhere can make the browser send requests here (cross-site posts) or point its own name at 127.0.0.1 (DNS
rebinding). The first is stopped by Origin and by a header that a form cannot send, the second by Host.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"x-oomph"
_NAMES = ("127.0.0.1", "localhost", "[::1]")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ANSWER_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class Guard:
    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self.hosts = {f"{name}:{port}".encode() for name in _NAMES} | {n.encode() for n in _NAMES if port == 80}
        self.origins = {b"http://" + host for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        refusal = self._refusal(scope["method"], headers)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_ANSWER_HEADERS]
            await send(message)

        if refusal:
            await answer({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": refusal.encode()})
            return
        await self.app(scope, receive, answer)

    def _refusal(self, method: str, headers: dict[bytes, bytes]) -> str:
        if headers.get(b"host", b"").lower() not in self.hosts:
            return "this server answers to 127.0.0.1 and localhost only"
        origin = headers.get(b"origin")
        if origin is not None and origin.lower() not in self.origins:
            return "requests from other pages are refused"
        if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
            return "requests from other sites are refused"
        if method not in ("GET", "HEAD") and HEADER not in headers:
            return "this request did not come from the page"
        return ""
