"""The release of an engine that runs on this machine: the package beside the program of its process (Linux)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from oomph import boundary

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


def _folders(programs: tuple[str, ...], proc: str) -> Iterator[str]:
    """The site-packages beside each program that runs; a container's process is seen through its own root."""
    try:
        processes = [name for name in os.listdir(proc) if name.isdigit()][:_MOST]
    except OSError:
        return
    for process in processes:
        place = os.path.join(proc, process)
        try:
            with open(os.path.join(place, "cmdline"), "rb") as file:
                words = file.read(_LONGEST).decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        for word in words[:3]:
            if word.startswith("/") and word.rpartition("/")[2] in programs:
                lib = f"{place}/root{os.path.dirname(os.path.dirname(word))}/lib"
                try:
                    versions = [name for name in os.listdir(lib) if name.startswith("python")]
                except OSError:
                    continue
                yield from (f"{lib}/{name}/site-packages" for name in versions)
