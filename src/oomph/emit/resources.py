"""What a node must have for a deployment: host memory, /dev/shm, processors and disk, each part with its reason."""

from __future__ import annotations

from msgspec import Struct

from oomph.units import GIB, cdiv, human


class Part(Struct, frozen=True):
    bytes: int
    why: str


class Host(Struct, frozen=True):
    """Of one node."""

    shm: tuple[Part, ...]
    memory: tuple[Part, ...]  # /dev/shm included: a container's limit counts it
    cpus: int
    disk: tuple[Part, ...] = ()

    @property
    def shm_gib(self) -> int:
        return cdiv(sum(p.bytes for p in self.shm), GIB)

    @property
    def memory_gib(self) -> int:
        return cdiv(sum(p.bytes for p in self.memory), GIB)

    @property
    def disk_gib(self) -> int:
        return cdiv(sum(p.bytes for p in self.disk), GIB)

    def reasons(self) -> list[str]:
        lines = [f"/dev/shm {self.shm_gib} GiB: " + "; ".join(f"{human(p.bytes)} {p.why}" for p in self.shm)]
        if not self.shm:
            lines = ["/dev/shm: one process and one GPU, the default is enough"]
        parts = "; ".join(f"{human(p.bytes)} {p.why}" for p in self.memory)
        return [*lines, f"host memory {self.memory_gib} GiB: {parts}"]
