"""The release of an engine that runs on this machine: the package beside the program of its process (Linux)."""

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from oomph.sources import boundary

_MOST = 4096  # processes that are looked at
_LONGEST = 4096  # bytes of a command line


def running_version(package: str, programs: Sequence[str], proc: str = "/proc") -> str:
    """ "" where none runs, or where this process may not look (the page)."""
    return "" if boundary.is_confined() else _found(package, tuple(programs), proc)


@lru_cache(maxsize=8)
def _found(package: str, programs: tuple[str, ...], proc: str) -> str:
    for folder in _folders(programs, proc):
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            match = re.fullmatch(rf"{re.escape(package)}-([0-9][^-]*)\.dist-info", name)
            if match:
                return match[1]
    return ""


def _command_line(path: str) -> bytes:
    """Without a file object: there are hundreds of processes, and every plan that names no release looks at them."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(file, _LONGEST)
    except OSError:
        return b""
    finally:
        os.close(file)


def _folders(programs: tuple[str, ...], proc: str) -> Iterator[str]:
    """The site-packages beside each program that runs; a container's process is seen through its own root."""
    try:
        processes = [name for name in os.listdir(proc) if name.isdigit()][:_MOST]
    except OSError:
        return
    named = [name.encode() for name in programs]
    for process in processes:
        place = os.path.join(proc, process)
        line = _command_line(os.path.join(place, "cmdline"))
        if not any(name in line for name in named):
            continue
        for word in line.decode("utf-8", "replace").split("\0")[:3]:
            if word.startswith("/") and word.rpartition("/")[2] in programs:
                lib = f"{place}/root{os.path.dirname(os.path.dirname(word))}/lib"
                try:
                    versions = [name for name in os.listdir(lib) if name.startswith("python")]
                except OSError:
                    continue
                yield from (f"{lib}/{name}/site-packages" for name in versions)
