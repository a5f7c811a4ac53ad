"""A GPU as an engine sees it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from oomph.errors import CommandError
from oomph.ir.printed import Printed


class Device(Struct, frozen=True):
    name: str  # as people write it: "RTX 5070 Ti"
    total_bytes: int  # what the driver reports (cudaMemGetInfo total)
    capability: tuple[int, int] = (0, 0)  # compute capability; (0, 0) = not known
    vendor: Literal["nvidia", "amd"] = "nvidia"
    driver_name: str = ""  # as nvidia-smi prints it: "NVIDIA GeForce RTX 5070 Ti"
    used_bytes: int = 0  # held by other processes
    bandwidth: int = 0  # bytes per second
    sm_count: int = 0
    unified: bool = False  # GB10, Jetson: memory shared with the CPU
    total_basis: Literal["exact", "measured", "assumed"] = "measured"

    def __post_init__(self) -> None:
        if self.total_bytes < 1:
            raise CommandError(f"GPU {self.name!r} with {self.total_bytes} bytes of memory")
        if not 0 <= self.used_bytes <= self.total_bytes:
            raise CommandError(f"GPU {self.name!r}: {self.used_bytes} bytes used of {self.total_bytes}")

    @property
    def sm(self) -> int:
        """90 for compute capability 9.0, the way engines number it."""
        return self.capability[0] * 10 + self.capability[1]


class GpuList(Printed, frozen=True):
    """What `oomph gpus` without a model prints: cards, with the bytes that their driver reports."""

    gpus: tuple[Device, ...]

    def in_short(self) -> str:
        return f"{len(self.gpus)} GPUs"
