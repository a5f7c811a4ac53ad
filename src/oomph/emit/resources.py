"""What a node must have for a deployment: host memory, /dev/shm, processors and disk, each part with its reason."""

from msgspec import Struct

from oomph.ir import HostPlan, Plan
from oomph.units import GIB, cdiv, human

_CACHES = 10 * GIB  # assumed: torch.compile, Triton, FlashInfer, DeepGEMM and autotuners keep what they build


class Part(Struct, frozen=True):
    bytes: int
    why: str


class Host(Struct, frozen=True):
    """Of one node."""

    shm: tuple[Part, ...]
    memory: tuple[Part, ...]  # /dev/shm included: a container's limit counts it
    cpus: int
    disk: tuple[Part, ...]
    limit_bytes: int  # every part at the upper end of its interval: beyond it something else is wrong

    @property
    def shm_gib(self) -> int:
        return cdiv(sum(p.bytes for p in self.shm), GIB)

    @property
    def memory_gib(self) -> int:
        return cdiv(sum(p.bytes for p in self.memory), GIB)

    @property
    def limit_gib(self) -> int:
        return cdiv(self.limit_bytes, GIB)

    @property
    def disk_gib(self) -> int:
        return cdiv(sum(p.bytes for p in self.disk), GIB)

    def reasons(self) -> list[str]:
        lines = [f"/dev/shm {self.shm_gib} GiB: " + "; ".join(f"{human(p.bytes)} {p.why}" for p in self.shm)]
        if not self.shm:
            lines = ["/dev/shm: one process and one GPU, the default is enough"]
        parts = "; ".join(f"{human(p.bytes)} {p.why}" for p in self.memory)
        return [*lines, f"host memory {self.memory_gib} GiB, at most {self.limit_gib} GiB: {parts}"]


def needs_of(plan: Plan, host: HostPlan, processes: int) -> Host:
    """What one node needs: the upper end of each part, and of processes what they usually have."""
    from oomph.sources.load import load_once

    lasting = [part for part in host.parts if not part.reclaimable]
    sizes = [(part.name, Part(part.bytes if part.name == "processes" else part.high, part.why)) for part in lasting]
    shm = tuple(part for name, part in sizes if name.endswith("/dev/shm"))
    checkpoint = Part(load_once(plan.deployment.model).nbytes, "for the checkpoint")
    disk = (checkpoint, Part(_CACHES, "for compiled kernels and logs"))
    limit = max(sum(part.high for part in lasting), sum(part.bytes for _, part in sizes))
    return Host(shm, tuple(part for _, part in sizes), cpus=processes + 2, disk=disk, limit_bytes=limit)


def card_bytes(plan: Plan) -> int:
    """What one card must have for it: the stage that decides, at the unfavourable end of its interval."""
    rank = max(plan.ranks, key=lambda rank: rank.total_bytes)
    room = plan.verdict.margin.low if plan.verdict.margin is not None else 0
    return int(rank.total_bytes - rank.used_by_others_bytes - max(0, room))
