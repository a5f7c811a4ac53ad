"""The page for everybody, behind a reverse proxy: no folder, no hub token, and so many questions per client.

The proxy ends TLS, and says in X-Forwarded-For who asks; its last entry is the one that the proxy itself wrote. There
is no token in the address: Host and Origin must be the public name, and what a client may ask is bounded.
"""

import os
import tempfile
import time
from collections import OrderedDict

from starlette.types import Scope

MOST_CLIENTS = 10_000  # whose allowance is remembered
BURST, PER_SECOND = 40.0, 1.0  # questions at once, and how fast the allowance comes back
_SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN")


class Allowance:
    """A bucket of questions per client, which fills again with time."""

    def __init__(self) -> None:
        self.clients: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def is_spent(self, client: bytes, now: float) -> bool:
        left, since = self.clients.pop(client, (BURST, now))
        left = min(BURST, left + (now - since) * PER_SECOND)
        self.clients[client] = (max(0.0, left - 1.0), now)
        if len(self.clients) > MOST_CLIENTS:
            self.clients.popitem(last=False)
        return left < 1.0

    def refuses(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        return scope["path"].startswith("/api/") and self.is_spent(client_of(scope, headers), time.monotonic())


def client_of(scope: Scope, headers: dict[bytes, bytes]) -> bytes:
    """As the proxy says; what a client itself wrote into the header stands before that."""
    sender = headers.get(b"x-forwarded-for", b"").rpartition(b",")[2].strip()[:60]
    return sender or str((scope.get("client") or ("",))[0]).encode()


def without_belongings() -> str:
    """An empty folder to look at, and no token of the one who starts the page. Returns the folder."""
    folder = tempfile.mkdtemp(prefix="oomph-public-")
    for name in _SECRETS:
        os.environ.pop(name, None)
    os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"  # sources/hub/home.py: neither a variable's nor a file's
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    return folder
