"""A file behind HTTP as ranges, and a sentence for every way in which the hub says no."""

from typing import NoReturn
from urllib.parse import quote

from msgspec import Struct, structs

from oomph.errors import HubError
from oomph.sources.hub.reply import Reply
from oomph.sources.hub.transport import Transport

FIRST_READ = 1 << 20


class Asked(Struct, frozen=True):
    """What was asked for, so that the answer can be explained."""

    repo: str
    revision: str
    file: str = ""
    token: bool = False
    endpoint: str = ""


class RemoteFile:
    """Ranges over HTTP. The first request tells the size and brings the beginning, which nearly always suffices."""

    def __init__(self, transport: Transport, url: str, name: str, request: Asked | None) -> None:
        self.name, self._transport, self._url, self._asked = name, transport, url, request
        reply = self._get(0, FIRST_READ)
        if reply.total is None:
            raise HubError(f"{name}: its server does not say how long it is")
        self.size = reply.total
        self._first = reply.body

    def read(self, offset: int, length: int) -> bytes:
        if offset + length <= len(self._first):
            return self._first[offset : offset + length]
        return self._get(offset, length).body

    def sibling(self, name: str) -> "RemoteFile":
        url, mark, query = self._url.partition("?")
        url = f"{url.rpartition('/')[0]}/{quote(name)}{mark}{query}"
        request = self._asked and structs.replace(self._asked, file=name)
        return RemoteFile(self._transport, url, f"{self.name.rpartition('/')[0]}/{name}", request)

    def _get(self, offset: int, length: int) -> Reply:
        reply = self._transport.get(self._url, start=offset, length=length, limit=length)
        if reply.status == 416:
            return Reply(206, reply.headers, b"", reply.url, reply.total or 0)
        if reply.status not in (200, 206):
            refuse(reply, self._asked, self.name)
        return reply


def refuse(reply: Reply, request: Asked | None, where: str) -> NoReturn:
    """One sentence per way in which the hub says no (huggingface_hub/utils/_http.py, hf_raise_for_status)."""
    status, code = reply.status, reply.headers.get("x-error-code", "")
    reason = reply.headers.get("x-error-message", "").lower()
    if status == 429:
        wait = reply.headers.get("retry-after", "")
        later = f"in {wait} s" if wait.isdigit() and len(wait) < 7 else "later"
        raise HubError(f"the hub limits how often it may be asked: try {where} again {later}", hint="set HF_TOKEN")
    if status >= 500:
        raise HubError(f"the hub fails with status {status} when asked for {where}; it was asked four times")
    if request is None:
        raise HubError(f"{where} answers with status {status}")
    if code == "GatedRepo":
        page = f"accept its terms at {request.endpoint or 'https://huggingface.co'}/{request.repo}"
        if request.token:
            raise HubError(f"{request.repo} is gated, and this token's account has no access to it", hint=page)
        raise HubError(f"{request.repo} is gated, and no token is set", hint=f"{page}, then set HF_TOKEN")
    if code == "RevisionNotFound":
        raise HubError(f"{request.repo} has no revision {request.revision!r}")
    if code == "EntryNotFound":
        raise HubError(f"{request.repo} has no file {request.file!r} at {request.revision}")
    if "disabled" in reason:
        raise HubError(f"{request.repo} has been disabled by the hub")
    if status == 401 and request.token and "invalid" in reason:
        raise HubError("the hub does not know the token that is set", hint="check HF_TOKEN, or: hf auth login")
    if code == "RepoNotFound" or status in (401, 404):
        private = "this token cannot see it" if request.token else "or it is private and no token is set (HF_TOKEN)"
        raise HubError(f"the hub has no repository {request.repo}, {private}")
    raise HubError(f"the hub answers with status {status} when asked for {where}")
