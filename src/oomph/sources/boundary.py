"""What a process that works for others may look at: the files of one folder, and no address but the hub's.

The command line has no boundary: its user may read and ask whatever he names. The page has one (`oomph ui --root DIR`),
because what it is asked to read may come from a pasted command. A path outside is neither read nor said to exist.
"""

import os
from typing import NoReturn

from oomph.errors import InputError

_root = ""


def confine(root: str) -> None:
    """From now on this process looks at nothing that its user names outside of `root`."""
    global _root
    _root = os.path.realpath(root)


def is_confined() -> bool:
    return bool(_root)


def may_look(path: str | os.PathLike[str]) -> bool:
    """Whether a path that somebody named may be looked at. Links are followed first."""
    if not _root:
        return True
    try:
        there = os.path.realpath(os.path.expanduser(path))
    except (OSError, ValueError):
        return False
    return there == _root or there.startswith(_root.rstrip(os.sep) + os.sep)


def exists(path: str | os.PathLike[str]) -> bool:
    return may_look(path) and os.path.exists(path)


def is_file(path: str | os.PathLike[str]) -> bool:
    return may_look(path) and os.path.isfile(path)


def require(path: str | os.PathLike[str]) -> None:
    if not may_look(path):
        refuse_path(path)


def refuse_path(path: str | os.PathLike[str]) -> NoReturn:
    name = os.fspath(path)
    raise InputError(
        f"{(name if len(name) <= 120 else name[:117] + '...')!r} is outside of the folder that may be looked at here",
        hint="start oomph ui or oomph mcp with --root DIR",
    )


def require_address(url: str, endpoint: str) -> None:
    """Only the hub is asked: an address in a pasted command could be a service of this network."""
    from urllib.parse import urlsplit

    place = urlsplit(url).netloc.rpartition("@")[2].lower()
    if _root and place not in ("huggingface.co", "hf.co", "www.huggingface.co", urlsplit(endpoint).netloc.lower()):
        raise InputError(
            f"this page asks nobody but the hub, and {place[:100]!r} is not it",
            hint="the command line reads any address: oomph inspect ADDRESS",
        )
