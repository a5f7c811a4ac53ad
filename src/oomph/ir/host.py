"""What a deployment takes of its host's memory, part by part, and what the host has."""

from __future__ import annotations

from msgspec import Struct

from oomph.ir.timeline import Margin


class HostPart(Struct, frozen=True):
    """One thing that lives in host memory, on one node."""

    name: str  # "weights while loading"
    bytes: int
    low: int
    high: int
    why: str = ""
    after_start: bool = True  # False: only while the server starts
    reclaimable: bool = False  # page cache: the kernel gives it back, and reads it again from disk


class HostPlan(Struct, frozen=True):
    """Of the busiest node."""

    parts: tuple[HostPart, ...]
    shm_bytes: int = 0  # of it, in /dev/shm
    ram_bytes: int = 0  # what the node has; 0 = nobody said
    ram_from: str = ""  # "--ram", "this machine", "the container's limit", "shared with the GPU"
    available_bytes: int = 0  # of it, not in use by others
    margin: Margin | None = None  # what is left of `available_bytes`; None where it is not known
    later: tuple[HostPart, ...] = ()  # what a later event takes: sleep level 1

    @property
    def need_bytes(self) -> int:
        """At the highest point: what is there at once, page cache left out."""
        return sum(part.bytes for part in self.parts if not part.reclaimable)

    @property
    def serving_bytes(self) -> int:
        return sum(part.bytes for part in self.parts if not part.reclaimable and part.after_start)
