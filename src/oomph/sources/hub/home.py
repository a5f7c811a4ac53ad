"""Where the hub is, who we are and where its cache is, as huggingface_hub says.

HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE are its words. Of its modules only `constants` is
imported (12 ms): its client, API and downloader cost ten times that.
"""

import contextlib
import os
import re
import sys
from pathlib import Path

from msgspec import Struct

from oomph.errors import HubError, InputError
from oomph.sources.hub.transport import Transport

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
    from huggingface_hub import constants

    return Hub(
        endpoint=constants.ENDPOINT.rstrip("/"),
        cache=constants.HF_HUB_CACHE,
        offline=bool(constants.HF_HUB_OFFLINE),
        token=_token(constants.HF_TOKEN_PATH, bool(constants.HF_HUB_DISABLE_IMPLICIT_TOKEN)),
        timeout=float(constants.HF_HUB_DOWNLOAD_TIMEOUT),
    )


def _token(path: str, never: bool) -> str | None:
    """As huggingface_hub.get_token, which is imported (95 ms) only where it could find what the environment has not."""
    if never:
        return None
    token = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or ""
    special = "HF_OIDC_RESOURCE" in os.environ or "google.colab" in sys.modules
    if special or (not token and os.path.exists(path)):
        from huggingface_hub import get_token

        try:
            token = get_token() or ""
        except Exception as error:  # it may ask the network for a token, and fails in its own ways
            raise HubError(f"huggingface_hub cannot get the token: {type(error).__name__}") from None
    token = token.strip()
    if not (token.isascii() and token.isprintable()):
        raise InputError("HF_TOKEN contains characters that no token has")
    return token or None


def snapshot_folder(where: Hub, repo: str, revision: str) -> Path | None:
    """huggingface_hub's cache: models--org--name/{refs/<revision> -> commit, snapshots/<commit>/files}."""
    base = Path(where.cache, "models--" + repo.replace("/", "--"))
    commit = revision
    with contextlib.suppress(OSError, UnicodeDecodeError):
        commit = (base / "refs" / revision).read_bytes()[:64].decode("ascii").strip()
    folder = base / "snapshots" / commit
    return folder if COMMIT.fullmatch(commit) and folder.is_dir() else None
