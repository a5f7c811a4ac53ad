"""Where the hub is, who we are and where its cache is, by the variables and files of huggingface_hub.

They are read here (its constants.py and utils/_auth.py say how): the library would be 13 of 25 packages of an install.
Where it is installed, it is asked for the tokens that only it can get.
"""

import contextlib
import os
import re
import sys
from pathlib import Path

from msgspec import Struct

from oomph.errors import HubError, InputError
from oomph.sources.hub.transport import Transport

_INSTALL = 'pip install "oomph[hub]"'
COMMIT = re.compile(r"[0-9a-f]{40}")


class Hub(Struct, frozen=True):
    endpoint: str
    cache: str
    offline: bool
    token: str | None
    timeout: float

    def transport(self) -> Transport:
        return Transport(token=self.token, trusted=self.endpoint, timeout=self.timeout)


def hub() -> Hub:
    """Read anew each time: a test, a notebook or a page may change its variables."""
    home = _path("HF_HOME", os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache")), "huggingface"))
    cache = os.environ.get("HUGGINGFACE_HUB_CACHE", os.path.join(home, "hub"))
    timeout = os.environ.get("HF_HUB_DOWNLOAD_TIMEOUT", "")
    return Hub(
        endpoint=os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/"),
        cache=_path("HF_HUB_CACHE", cache),
        offline=_is_set("HF_HUB_OFFLINE") if os.environ.get("HF_HUB_OFFLINE") else _is_set("TRANSFORMERS_OFFLINE"),
        token=_token(_path("HF_TOKEN_PATH", os.path.join(home, "token"))),
        timeout=float(timeout) if timeout.isdecimal() and 0 < int(timeout) < 10**6 else 10.0,
    )


def _path(name: str, default: str) -> str:
    return os.path.expandvars(os.path.expanduser(os.environ.get(name, default)))


def _is_set(name: str) -> bool:
    return os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")


def _token(path: str) -> str | None:
    """The variable's, else the file's. What only the library can get, it is asked for: a short-lived token of a CI
    job, Colab's vault, a browser login that is to be refreshed."""
    if _is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN"):
        return None
    token = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or ""
    is_exchanged = "HF_OIDC_RESOURCE" in os.environ
    if is_exchanged or (not token and ("google.colab" in sys.modules or _is_refreshed(path))):
        token = _librarys_token(is_exchanged) or token
    if not token:
        with contextlib.suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:
            token = file.read(10_000)
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        raise InputError("HF_TOKEN contains characters that no token has")
    return token or None


def _is_refreshed(path: str) -> bool:
    return os.path.exists(os.path.join(os.path.dirname(path), "stored_tokens"))


def _librarys_token(is_needed: bool) -> str:
    try:
        from huggingface_hub import get_token
    except ImportError:
        if is_needed:
            raise HubError("HF_OIDC_RESOURCE is set, and only huggingface_hub can exchange it", hint=_INSTALL) from None
        return ""
    try:
        return get_token() or ""
    except Exception as error:  # it may ask the network for a token, and fails in its own ways
        raise HubError(f"huggingface_hub cannot get the token: {type(error).__name__}") from None


def snapshot_folder(where: Hub, repo: str, revision: str) -> Path | None:
    """huggingface_hub's cache: models--org--name/{refs/<revision> -> commit, snapshots/<commit>/files}."""
    base = Path(where.cache, "models--" + repo.replace("/", "--"))
    commit = revision
    with contextlib.suppress(OSError, UnicodeDecodeError):
        commit = (base / "refs" / revision).read_bytes()[:64].decode("ascii").strip()
    folder = base / "snapshots" / commit
    return folder if COMMIT.fullmatch(commit) and folder.is_dir() else None
