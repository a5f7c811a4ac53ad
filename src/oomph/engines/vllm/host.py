"""What vLLM's processes hold of the host's memory on one node."""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from oomph.engines.common.checkpoint import load_checkpoint
from oomph.facts import unified
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.host import (
    ASLEEP,
    CALL_BYTES,
    GROUP_BYTES,
    GROUP_CHUNKS,
    LMCACHE_GB,
    MM_CACHE_GB,
    NCCL_SHM,
    PINNED,
    PROCESS,
    QUEUE_CHUNKS,
)
from oomph.ir import HostPart, HostPlan, Model, Plan
from oomph.units import GIB, MIB, cdiv, power_of_two


def host_plan(plan: Plan, model: Model | None = None, nodes: int = 0) -> HostPlan:
    """Of the node with the API server and the engine core. `nodes`: 0 = as many as the GPUs are on."""
    nodes = nodes or len({device.node for device in plan.deployment.gpus}) or 1
    replicas = int(plan.resolved.get("data_parallel_size") or 1)
    local = cdiv(replicas, nodes)
    workers = cdiv(cdiv(max(1, len(plan.ranks)) * replicas, nodes), local)  # of one replica
    shm = tuple(_times(part, local) for part in _shm(plan, workers))
    parts = (
        *_processes(plan, workers, local),
        *(_times(part, local) for part in _kept(plan, workers)),
        *shm,
        _page_cache((model or load_checkpoint(plan.deployment.model)).nbytes),
    )
    later = tuple(_times(part, local) for part in _asleep(plan, workers))
    return HostPlan(parts, sum(part.bytes for part in shm), later=later)


def _times(part: HostPart, replicas: int) -> HostPart:
    """A part that every data-parallel replica on the node has."""
    if replicas == 1:
        return part
    low, usual, high = (replicas * n for n in (part.low, part.bytes, part.high))
    return replace(part, bytes=usual, low=low, high=high, why=f"{part.why}, {replicas} times")


def _exact(name: str, n: int, why: str) -> HostPart:
    return HostPart(name, n, n, n, why)


def _processes(plan: Plan, workers: int, replicas: int) -> Iterator[HostPart]:
    """core.py: every data-parallel replica has an engine core of its own, and workers where it has several GPUs."""
    several = len(plan.ranks) > 1
    count = 1 + replicas * (1 + (workers if several else 0))
    low, usual, high = (count * n for n in PROCESS)
    cores = f"{replicas} engine cores" if replicas > 1 else "engine core"
    who = f"API server, {cores}{f', {replicas * workers} workers' if several else ''}"
    yield HostPart("processes", usual, low, high, f"for {count} processes ({who})")


def _kept(plan: Plan, workers: int) -> Iterator[HostPart]:
    """Weights and caches that flags put into host memory."""
    flags = plan.deployment.flags
    offloaded = sum(-rank.terms["weights"].parts.get("kept in host memory", 0) for rank in plan.ranks[:workers])
    if offloaded:
        yield _pinned("offloaded weights", offloaded, "for offloaded weights, each tensor rounded up when it is pinned")
    cache = flags.get("mm_processor_cache_gb")
    images = "multimodal" in plan.ranks[0].terms["weights"].parts
    if images and cache != 0:
        size = round(2 * float(MM_CACHE_GB if cache is None else cache) * GIB)
        why = "for processed images, kept by API server and engine core (--mm-processor-cache-gb)"
        yield HostPart("image cache", size, 0, size, why)
    yield from _kv_tiers(plan, workers)


def _kv_tiers(plan: Plan, workers: int) -> Iterator[HostPart]:
    flags, environment = plan.deployment.flags, plan.deployment.environment
    pool = flags.get("kv_offloading_size")
    connector = flags.get("kv_transfer_config")
    extra = connector.get("kv_connector_extra_config") if isinstance(connector, Mapping) else None
    name = str(connector.get("kv_connector") or "") if isinstance(connector, Mapping) else ""
    if isinstance(extra, Mapping) and isinstance(extra.get("cpu_bytes_to_use"), (int, float)):
        pool = float(extra["cpu_bytes_to_use"]) / GIB
    if isinstance(pool, (int, float)) and pool > 0:
        yield _offload_pool(plan, round(pool * GIB), workers)
    if name.startswith("LMCache"):
        size = _number(environment.get("LMCACHE_MAX_LOCAL_CPU_SIZE"), LMCACHE_GB)
        n = round(size * GIB) * workers
        why = f"for LMCache, {size:g} GB in each of {workers} workers (LMCACHE_MAX_LOCAL_CPU_SIZE)"
        yield HostPart("LMCache", n, n, round(n * 1.1), why)


def _number(text: str | None, default: float) -> float:
    try:
        return max(0.0, float(text)) if text else default
    except ValueError:
        return default


def _offload_pool(plan: Plan, pool: int, workers: int) -> HostPart:
    """--kv-offloading-size is the sum over all ranks (config/vllm.py). Until 0.26.0 every rank pins its share as one
    tensor, and PyTorch rounds that up to a power of two: 80 GiB over two ranks took 128. Later releases share one file
    in /dev/shm of just that size."""
    why = "for the KV cache in host memory (--kv-offloading-size)"
    ranks = max(1, len(plan.ranks))
    own = pool * min(workers, ranks) // ranks
    if at(plan.deployment.engine.version).queues.offload_region:
        return HostPart("KV cache in host memory", own, own, round(own * 1.05), why)
    rounded = min(workers, ranks) * power_of_two(pool // ranks)
    return HostPart("KV cache in host memory", rounded, own, 2 * own, f"{why}, rounded up to a power of two per rank")


def _pinned(name: str, n: int, why: str) -> HostPart:
    low, usual, high = (round(n * factor) for factor in PINNED)
    return HostPart(name, usual, low, high, why)


def _page_cache(size: int) -> HostPart:
    """Safetensors are mapped: the kernel keeps what it read as long as nobody needs the memory."""
    return HostPart(
        "page cache", size, 0, size, "while the checkpoint is read; given back when needed", True, reclaimable=True
    )


def _asleep(plan: Plan, workers: int) -> Iterator[HostPart]:
    """device_allocator/cumem.py: sleep level 1 copies the weights into pinned host memory, block by block."""
    if plan.deployment.flags.get("enable_sleep_mode"):
        weights = sum(rank.terms["weights"].bytes for rank in plan.ranks[:workers])
        low, usual, high = (round(weights * factor) for factor in ASLEEP)
        yield HostPart(
            "sleep level 1", usual, low, high, "for the weights while the server sleeps (level 2 keeps none)"
        )


def _shm(plan: Plan, workers: int) -> Iterator[HostPart]:
    if len(plan.ranks) == 1:
        return
    reply_bytes = at(plan.deployment.engine.version).queues.reply_bytes
    calls, replies = QUEUE_CHUNKS * CALL_BYTES, QUEUE_CHUNKS * reply_bytes * workers
    groups = GROUP_CHUNKS * GROUP_BYTES * max(1, workers // max(1, int(plan.resolved["tensor_parallel_size"])))
    queues = (
        f"for the executor's queues ({calls // MIB} MiB of calls, {workers} x {replies // workers // MIB} of answers)"
    )
    yield _exact("queues in /dev/shm", calls + replies + groups, queues)
    yield HostPart("NCCL in /dev/shm", NCCL_SHM, 0, NCCL_SHM, "for NCCL where GPUs have no peer-to-peer access")


def uncounted_share(plan: Plan) -> float:
    """Of a memory that CPU and GPU share: what compilers and tuning take, and before 0.24.0 what the load of quantised
    weights leaves in PyTorch's cache while the next module is converted."""
    eager = bool(plan.deployment.flags.get("enforce_eager"))
    share = unified.UNCOUNTED_EAGER if eager else unified.UNCOUNTED_COMPILED
    converted = plan.resolved.get("quantization") is not None
    if converted and plan.ranks and not at(plan.deployment.engine.version).queues.frees_cache_while_loading:
        rank = plan.ranks[0]
        share += rank.terms["weights"].bytes / rank.total_bytes
    return share
