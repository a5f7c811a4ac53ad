"""Who may talk to the page's server: the browser that was given its address, from the page itself, and nobody else.

A page elsewhere can make the browser send requests here (cross-site posts) or point its own name at 127.0.0.1 (DNS
rebinding). The first is stopped by Origin and by a header that a form cannot send, the second by Host. Another user of
this machine can reach the port, but does not know the token of the address that was printed. The token is exchanged for
a cookie at the first visit and taken out of the address, so that neither the history nor a screenshot has it.
"""

import hmac
from urllib.parse import parse_qs, quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oomph.text.tables import first_that_holds
from oomph.web.public import Allowance

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
    def __init__(self, app: ASGIApp, port: int, token: str, public: str = "") -> None:
        """`public`: the name of a page for everybody, which has no token."""
        self.app = app
        self.allowance = Allowance() if public else None
        self.hosts = {f"{name}:{port}".encode() for name in _NAMES} | {n.encode() for n in _NAMES if port == 80}
        self.origins = {b"http://" + host for host in self.hosts}
        if public:
            self.hosts, self.origins = {public.lower().encode()}, {b"https://" + public.lower().encode()}
        self.cookie = f"oomph-{port}"  # a browser sends the cookies of one port to all ports of a host
        self.token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_ANSWER_HEADERS]
            await send(message)

        async def say(status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
            head = [(b"content-type", b"text/plain; charset=utf-8"), *headers]
            await answer({"type": "http.response.start", "status": status, "headers": head})
            await send({"type": "http.response.body", "body": text.encode()})

        headers = dict(scope["headers"])
        refusal = self._refusal(scope["method"], headers)
        if refusal:
            await say(403, refusal)
        elif self.allowance is not None and self.allowance.refuses(scope, headers):
            await say(429, '{"error": "so many questions at once: wait a moment", "kind": "slow"}')
        elif self.allowance is not None:
            await self.app(scope, receive, answer)
        elif scope["method"] == "GET" and self._is_token(_query_token(scope)):
            cookie = f"{self.cookie}={self.token.decode()}; HttpOnly; SameSite=Strict; Path=/"
            await say(303, "", (b"location", _place(scope["path"])), (b"set-cookie", cookie.encode()))
        elif not self._is_token(self._shown_token(headers)):
            await say(403, "open the address that `oomph ui` printed: it holds the token of this page")
        else:
            await self.app(scope, receive, answer)

    def _is_token(self, shown: bytes) -> bool:
        return hmac.compare_digest(shown, self.token)

    def _shown_token(self, headers: dict[bytes, bytes]) -> bytes:
        """The cookie's, or for a script `Authorization: Bearer TOKEN`."""
        if (shown := headers.get(b"authorization", b"")).startswith(b"Bearer "):
            return shown.removeprefix(b"Bearer ")
        for pair in headers.get(b"cookie", b"").split(b";"):
            name, _, value = pair.strip().partition(b"=")
            if name == self.cookie.encode():
                return value
        return b""

    def _refusal(self, method: str, headers: dict[bytes, bytes]) -> str:
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site", b"same-origin")
        is_other_host = headers.get(b"host", b"").lower() not in self.hosts
        return first_that_holds(
            (is_other_host, "this server answers to its own name only"),
            (origin is not None and origin.lower() not in self.origins, "requests from other pages are refused"),
            (site not in (b"same-origin", b"none"), "requests from other sites are refused"),
            (method not in ("GET", "HEAD") and HEADER not in headers, "this request did not come from the page"),
        )


def _place(path: str) -> bytes:
    """The same page without the token. `//host` and `/\\host` would be another site's address to a browser."""
    return b"/" + quote(path.lstrip("/\\"), safe="/").encode()


def _query_token(scope: Scope) -> bytes:
    try:
        query: dict[str, list[str]] = parse_qs(scope["query_string"][:2000].decode("latin-1"), max_num_fields=20)
    except ValueError:
        return b""
    return query.get("token", [""])[0].encode("utf-8", "surrogateescape")
