"""A GPU as an engine sees it, and the machine's memory where the GPU's is a part of that."""

from typing import Literal

from msgspec import Struct

from oomph.errors import CommandError
from oomph.ir.ledger import Term
from oomph.ir.printed import Printed


class SystemMemory(Struct, frozen=True):
    """The memory that CPU and GPU share, and what the system and other programs hold before the engine starts."""

    total_bytes: int  # MemTotal
    used_bytes: int  # MemTotal - MemAvailable
    used_low: int
    used_high: int

    @property
    def is_assumed(self) -> bool:
        return self.used_low != self.used_high


MOST_GPUS = 1024  # of a command; a larger number is a slip of the keyboard
Vendor = Literal["nvidia", "amd", "intel", "apple"]


class Device(Struct, frozen=True):
    name: str  # as people write it: "RTX 5070 Ti"
    total_bytes: int  # what the driver reports (cudaMemGetInfo total)
    capability: tuple[int, int] = (0, 0)  # compute capability; (0, 0) = not known
    is_capability_assumed: bool = False  # only a size was named: a usual capability stands for the card's
    vendor: Vendor = "nvidia"
    driver_name: str = ""  # as nvidia-smi prints it: "NVIDIA GeForce RTX 5070 Ti"
    used_bytes: int = 0  # held by other processes
    bandwidth: int = 0  # bytes per second
    sm_count: int = 0
    unified: bool = False  # GB10, Jetson: memory shared with the CPU
    total_basis: Literal["exact", "measured", "assumed"] = "measured"
    system: SystemMemory | None = None  # where the memory is shared with the CPU
    largest_allocation: int = 0  # bytes that one allocation may have; 0 = no limit below the total
    node: int = 0  # the machine that it is in, where there are several
    host_bytes: int = 0  # memory of that machine, where it is told beside the card; 0 = not known
    is_slice: bool = False  # a MIG device: CUDA shows a process no more than one (NVIDIA's MIG guide, CUDA devices)

    def __post_init__(self) -> None:
        if self.total_bytes < 1:
            raise CommandError(f"GPU {self.name!r} with {self.total_bytes} bytes of memory")
        if not 0 <= self.used_bytes <= self.total_bytes:
            raise CommandError(f"GPU {self.name!r}: {self.used_bytes} bytes used of {self.total_bytes}")

    @property
    def sees_system(self) -> bool:
        """Whether the GPU's total is the machine's own: what the system holds is then used memory of the GPU."""
        return self.system is not None and self.system.total_bytes == self.total_bytes

    @property
    def used_before(self) -> Term:
        """What is in use before the engine starts. A figure that somebody read off the machine has no interval."""
        system = self.system
        if system is None or not self.sees_system or self.used_bytes != system.used_bytes:
            return Term("system", self.used_bytes, self.used_bytes, self.used_bytes, "given")
        return Term("system", system.used_bytes, system.used_low, system.used_high, "assumed")

    @property
    def reading(self) -> int:
        """What somebody read off the machine as in use; 0 where it is only what such a machine usually holds."""
        before = self.used_before
        return before.bytes if before.low == before.high else 0

    @property
    def sm(self) -> int:
        """90 for compute capability 9.0, the way engines number it."""
        return self.capability[0] * 10 + self.capability[1]


class GpuList(Printed, frozen=True):
    """What `oomph gpus` without a model prints: cards, with the bytes that their driver reports."""

    gpus: tuple[Device, ...]

    def in_short(self) -> str:
        return f"{len(self.gpus)} GPUs"
