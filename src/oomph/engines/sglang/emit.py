"""An SGLang deployment as something to start: its container, and what a host must have for it."""

from oomph.emit.resources import Host, needs_of
from oomph.engines.common.checkpoint import load_checkpoint
from oomph.engines.sglang.command.serve import to_words
from oomph.engines.values import Container
from oomph.errors import CannotPlan
from oomph.facts.vllm.host import NCCL_SHM, PROCESS
from oomph.ir import Deployment, HostPart, HostPlan, Model, Plan
from oomph.units import GIB, cdiv

PORT = 30000  # server_args.py


def container(deployment: Deployment) -> Container:
    """SGLang listens on 127.0.0.1 unless it is told otherwise, and nobody outside the container would reach it."""
    if any(gpu.vendor != "nvidia" for gpu in deployment.gpus):
        raise CannotPlan(
            "which of SGLang's images is for these cards is not known: https://hub.docker.com/r/lmsysorg/sglang"
        )
    port = deployment.flags.get("port")
    everywhere = () if "host" in deployment.flags else ("--host", "0.0.0.0")
    return Container(
        image=f"lmsysorg/sglang:v{deployment.engine.version}",
        entry_point=("python3", "-m", "sglang.launch_server"),
        arguments=(*to_words(deployment)[3:], *everywhere),
        port=port if isinstance(port, int) else PORT,
    )


def host_plan(plan: Plan, model: Model | None = None, nodes: int = 0) -> HostPlan:
    """Processes talk over ZeroMQ: only NCCL needs /dev/shm."""
    nodes = nodes or len({device.node for device in plan.deployment.gpus}) or 1
    ranks = cdiv(max(1, len(plan.ranks)), nodes)
    processes = 2 + ranks
    low, usual, high = (processes * n for n in PROCESS)
    why = f"for {processes} processes (tokenizer, detokenizer and a scheduler for each GPU)"
    parts = [HostPart("processes", usual, low, high, why), *_hierarchical_cache(plan, ranks), *_offloaded(plan)]
    shm = 0
    if len(plan.ranks) > 1:
        shm = NCCL_SHM
        parts.append(HostPart("NCCL in /dev/shm", shm, 0, shm, "for NCCL between GPUs without peer-to-peer access"))
    size = (model or load_checkpoint(plan.deployment.model)).nbytes
    why = "while the checkpoint is read; given back when needed"
    parts.append(HostPart("page cache", size, 0, size, why, True, reclaimable=True))
    return HostPlan(tuple(parts), shm)


def _hierarchical_cache(plan: Plan, ranks: int) -> list[HostPart]:
    """--hicache-size is in GB for each rank; else --hicache-ratio times the pool on the GPU (2.0, server_args.py)."""
    flags = plan.deployment.flags
    if not flags.get("enable_hierarchical_cache"):
        return []
    size = flags.get("hicache_size")
    ratio = flags.get("hicache_ratio")
    pool = plan.kv.available_bytes if plan.kv is not None else 0
    own = round(size * 1e9) if isinstance(size, (int, float)) and size > 0 else round(float(ratio or 2.0) * pool)
    why = f"for the KV cache in host memory, {ranks} x {own / GIB:.1f} GiB (--enable-hierarchical-cache)"
    return [HostPart("KV cache in host memory", own * ranks, own * ranks, round(1.05 * own * ranks), why)]


def _offloaded(plan: Plan) -> list[HostPart]:
    own = sum(-rank.terms["weights"].parts.get("kept in host memory", 0) for rank in plan.ranks)
    why = "for weights in host memory (--cpu-offload-gb)"
    return [HostPart("weights in host memory", own, own, own, why)] if own else []


def host_needs(plan: Plan, nodes: int = 1) -> Host:
    return needs_of(plan, host_plan(plan, nodes=nodes), 2 + cdiv(max(1, len(plan.ranks)), nodes))
