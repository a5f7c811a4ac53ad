"""One engine's run: a folder that all of its processes share. Every process writes a file of its own.

The group of processes travels in an environment variable, which vLLM's children inherit; an engine is told from others
by the `instance_id` of vLLM's configuration and its replica's number, which every process of it has, Ray's workers too.
Where nothing can be written the run goes on without records.
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from oomph_vllm.config import value_at

VARIABLE = "OOMPH_VLLM_RUN"
KEPT_RUNS = 20


class Run:
    """The folder of one engine."""

    def __init__(self, name: str) -> None:
        self.name = Path(name).name

    @property
    def folder(self) -> Path:
        return cache_folder() / self.name

    def write(self, name: str, record: Mapping[str, Any]) -> Path | None:
        """The file, or None where it cannot be written. A reader never sees half of one."""
        target = self.folder / f"{name}.json"
        with contextlib.suppress(OSError):
            target.parent.mkdir(parents=True, exist_ok=True)
            beside = target.with_suffix(f".{os.getpid()}.part")
            beside.write_text(json.dumps(record, indent=1, default=str), encoding="utf-8")
            beside.replace(target)
            return target
        return None

    def read(self, name: str) -> dict[str, Any]:
        """Empty where there is none."""
        with contextlib.suppress(OSError, ValueError):
            record = json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))
            return record if isinstance(record, dict) else {}
        return {}

    def claim(self, name: str, otherwise: bool) -> bool:
        """Whether this process is the first to ask; `otherwise` where nothing can be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / name).touch(exist_ok=False)
        except FileExistsError:
            return False
        except OSError:
            return otherwise
        return True

    def has_death(self) -> bool:
        """A worker of this run, in whichever process, has written down how it died."""
        return any(self.folder.glob("death-*.json"))

    def lost(self, pattern: str = "*.json") -> list[dict[str, Any]]:
        """What processes have written that are gone, by the names of the files."""
        records = [self.read(file.stem) for file in sorted(self.folder.glob(pattern))]
        return [record for record in records if "pid" in record and not is_alive(int(record["pid"]))]


def cache_folder() -> Path:
    """The folder of `oomph learn`'s store."""
    base = os.environ.get("OOMPH_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "oomph")
    return Path(os.path.expanduser(base), "runs")


def join() -> None:
    """The first process of a group names it; its children inherit the name."""
    if os.environ.get(VARIABLE):
        return
    os.environ[VARIABLE] = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def group() -> str:
    return Path(os.environ.get(VARIABLE) or f"alone-{os.getpid()}").name


def replica(config: Any) -> int:
    """Replicas of dense models believe that they are alone, except for their index (core.py run_engine_core)."""
    names = ("data_parallel_index", "data_parallel_rank")
    return next((int(found) for name in names if (found := value_at(config, f"parallel_config.{name}"))), 0)


def of(config: Any) -> Run:
    """The run of this configuration's engine: the folder that another process of it has made, or a new one."""
    instance = re.sub(r"\W", "", str(value_at(config, "instance_id") or ""))
    name = "-".join([instance] * bool(instance) + [f"dp{replica(config)}"] * bool(replica(config)))
    with contextlib.suppress(OSError):
        if instance and (there := sorted(cache_folder().glob(f"*-{name}"))):
            return Run(there[-1].name)
    return Run(f"{group()}-{name}" if name else group())


def of_this_group() -> Iterator[Run]:
    with contextlib.suppress(OSError):
        yield from (Run(folder.name) for folder in sorted(cache_folder().glob(f"{group()}*")))


def of_instance(config: Any) -> Iterator[Run]:
    """The engines that a server with this configuration has started: one, or one for each replica."""
    instance = re.sub(r"\W", "", str(value_at(config, "instance_id") or ""))
    yield from (its_run for its_run in of_this_group() if f"-{instance}" in its_run.name)


def is_alive(pid: int) -> bool:
    """A child that was killed and not yet waited for is gone."""
    import psutil  # type: ignore[import-untyped]

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def forget_old() -> None:
    """The newest runs are kept, and those whose engine still runs."""
    with contextlib.suppress(OSError):
        runs = sorted(
            (path for path in cache_folder().iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime
        )
        for old in runs[:-KEPT_RUNS]:
            if (pid := Run(old.name).read("engine").get("pid")) and is_alive(int(pid)):
                continue
            for file in old.iterdir():
                file.unlink()
            old.rmdir()
