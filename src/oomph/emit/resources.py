"""Host memory and /dev/shm of a deployment, each part with its reason."""

from __future__ import annotations

from msgspec import Struct

from oomph.facts.vllm.facts import at
from oomph.facts.vllm.host import (
    CALL_BYTES,
    GROUP_BYTES,
    GROUP_CHUNKS,
    MM_CACHE_GB,
    NCCL_SHM,
    OFFLOAD_COPIES,
    PROCESS,
    QUEUE_CHUNKS,
)
from oomph.ir.plan import Plan
from oomph.units import GIB, MIB, cdiv, human

_CACHES = 10 * GIB  # assumed: torch.compile, Triton and FlashInfer keep what they build


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


def host(plan: Plan, nodes: int = 1) -> Host:
    """What one node needs, the first one's API server and engine core included."""
    flags = plan.deployment.flags
    workers = cdiv(max(1, len(plan.ranks)), nodes)
    shm = tuple(_shm(plan, workers, len(plan.ranks)))
    processes = 2 + (workers if len(plan.ranks) > 1 else 0)
    memory = [Part(processes * PROCESS, f"for {processes} processes (API server, engine core{_and(workers, plan)})")]
    offloaded = sum(-r.terms["weights"].parts.get("kept in host memory", 0) for r in plan.ranks[:workers])
    if offloaded:
        memory.append(Part(OFFLOAD_COPIES * offloaded, "for offloaded weights, twice while they are repacked"))
    cache = flags.get("mm_processor_cache_gb")
    images = "multimodal" in plan.ranks[0].terms["weights"].parts if plan.ranks else False
    if images and cache != 0:
        size = round(2 * float(MM_CACHE_GB if cache is None else cache) * GIB)
        memory.append(Part(size, "for processed images, kept by API server and engine core (--mm-processor-cache-gb)"))
    pool = flags.get("kv_offloading_size")
    if isinstance(pool, (int, float)) and pool > 0:
        memory.append(Part(round(pool * GIB), "for the KV cache in host memory"))
    memory += shm
    return Host(shm, tuple(memory), cpus=processes + 2, disk=_disk(plan))


def _disk(plan: Plan) -> tuple[Part, ...]:
    from oomph.plan import load

    return (
        Part(load(plan.deployment.model).nbytes, "for the checkpoint"),
        Part(_CACHES, "for compiled kernels and logs"),
    )


def _and(workers: int, plan: Plan) -> str:
    return f", {workers} workers" if len(plan.ranks) > 1 else ""


def _shm(plan: Plan, workers: int, world: int) -> list[Part]:
    if world == 1:
        return []
    reply_bytes = at(plan.deployment.engine.version).queues.reply_bytes
    calls, replies = QUEUE_CHUNKS * CALL_BYTES, QUEUE_CHUNKS * reply_bytes * workers
    groups = GROUP_CHUNKS * GROUP_BYTES * max(1, workers // max(1, int(plan.resolved["tensor_parallel_size"])))
    queues = (
        f"for the executor's queues ({calls // MIB} MiB of calls, {workers} x {replies // workers // MIB} of answers)"
    )
    return [Part(calls + replies + groups, queues), Part(NCCL_SHM, "for NCCL where GPUs have no peer-to-peer access")]
