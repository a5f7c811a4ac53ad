"""PyTorch's memory snapshot (torch.cuda.memory._dump_snapshot): what was allocated where, read in a bounded child."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from oomph.errors import InputError
from oomph.facts.allocations import PARTS, REST, UNTRACED
from oomph.facts.loglines import compiled
from oomph.logs.unpickle import LARGEST
from oomph.text.nesting import bounded
from oomph.units import human

SECONDS: Final = 20
SMALL: Final = 16 << 20  # parts below it are told together
_HEAD: Final = 4096
Frame = tuple[str, int, str]  # file, line, function


class Group(Struct, frozen=True):
    """Allocations that the same code asked for."""

    bytes: int
    blocks: int
    frames: tuple[Frame, ...]  # innermost first
    private: bool = False  # in a pool of its own, as CUDA graphs have


class Oom(Struct, frozen=True):
    size: int  # that was asked for and not there
    frames: tuple[Frame, ...] = ()
    free: int | None = None  # on the device


class Snapshot(Struct, frozen=True):
    bytes: int  # of the file
    whole: bool  # its history was read too
    reserved: int
    allocated: int
    largest_free_block: int
    groups: tuple[Group, ...]
    failed: bool  # some allocation did
    oom: Oom | None = None  # the last that did, where the history was read

    @property
    def parts(self) -> dict[str, int]:
        """Allocated bytes by what they are for, the largest first."""
        sums: dict[str, int] = {}
        for group in self.groups:
            part = part_of(group)
            sums[part] = sums.get(part, 0) + group.bytes
        sums = {part: size for part, size in sums.items() if size >= SMALL}
        if (rest := self.allocated - sum(sums.values())) > 0:
            sums[REST] = sums.get(REST, 0) + rest
        return dict(sorted(sums.items(), key=lambda pair: -pair[1]))


def part_of(group: Group) -> str:
    if not group.frames:
        return UNTRACED
    places = [f"{file}:{function}" for file, _, function in group.frames]
    for part, pattern in PARTS:
        if any(compiled(pattern).search(place) for place in places):
            return part
    return "CUDA graphs" if group.private else REST


def is_snapshot(path: str) -> bool:
    """A pickle that begins as PyTorch's memory snapshots do."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(_HEAD)
    except (OSError, ValueError):
        return False
    return head[:1] == b"\x80" and b"segments" in head


def read_snapshot(path: str) -> Snapshot:
    size = Path(path).stat().st_size
    if size > LARGEST:
        raise InputError(
            f"{path} has {human(size)}; a memory snapshot is read up to {human(LARGEST)}",
            hint="record less: torch.cuda.memory._record_memory_history(max_entries=100000)",
        )
    try:
        child = subprocess.run(
            [sys.executable, "-m", "oomph.logs.unpickle", str(Path(path).absolute())],
            capture_output=True, timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InputError(f"{path} takes more than {SECONDS} s to be read") from None
    if child.returncode:
        reason = child.stderr.decode("utf-8", "replace").strip().splitlines()
        raise InputError(f"{path} cannot be read: {reason[-1] if reason else 'its reader was ended'}")
    return msgspec.json.decode(bounded(child.stdout), type=Snapshot)
