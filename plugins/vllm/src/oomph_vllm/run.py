"""One run: a folder that all processes of one engine share. Every process writes a file of its own.

The folder's name travels in an environment variable, which vLLM's children inherit. Where nothing can be written the
run goes on without records.
"""

import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VARIABLE = "OOMPH_VLLM_RUN"
KEPT_RUNS = 20


def cache_folder() -> Path:
    """The folder of `oomph learn`'s store."""
    base = os.environ.get("OOMPH_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "oomph")
    return Path(os.path.expanduser(base), "runs")


def join() -> None:
    """The first process of an engine names the run; its children inherit the name."""
    if os.environ.get(VARIABLE):
        return
    os.environ[VARIABLE] = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def folder() -> Path:
    return cache_folder() / Path(os.environ.get(VARIABLE) or f"alone-{os.getpid()}").name


def write(name: str, record: Mapping[str, Any]) -> Path | None:
    """The file, or None where it cannot be written. A reader never sees half of one."""
    target = folder() / f"{name}.json"
    with contextlib.suppress(OSError):
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_suffix(f".{os.getpid()}.part")
        beside.write_text(json.dumps(record, indent=1, default=str), encoding="utf-8")
        beside.replace(target)
        return target
    return None


def read(name: str) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError):
        record = json.loads((folder() / f"{name}.json").read_text(encoding="utf-8"))
        return record if isinstance(record, dict) else None
    return None


def has_death() -> bool:
    """A worker of this run, in whichever process, has written down how it died."""
    return any(folder().glob("death-*.json"))


def forget_old() -> None:
    """The newest runs are kept."""
    with contextlib.suppress(OSError):
        runs = sorted(
            (path for path in cache_folder().iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime
        )
        for old in runs[:-KEPT_RUNS]:
            for file in old.iterdir():
                file.unlink()
            old.rmdir()
