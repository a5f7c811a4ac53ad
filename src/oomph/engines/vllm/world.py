"""How many worker processes a vLLM command starts, on which nodes, and what vLLM prints where it has too few GPUs."""

from collections.abc import Mapping
from math import prod
from typing import Any

from oomph.facts.vllm.facts import at
from oomph.ir import Deployment
from oomph.ir.world import Shortage, World, visible
from oomph.units import cdiv

SIZES = ("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size")
REPLICAS = "data_parallel_size"


def size_of(flags: Mapping[str, Any], field: str) -> int:
    """What is no size counts as 1."""
    size = flags.get(field)
    return size if isinstance(size, int) and size > 0 else 1


def world_size(deployment: Deployment) -> int:
    """How many GPUs one replica needs."""
    return prod(size_of(deployment.flags, field) for field in SIZES)


def replicas_here(deployment: Deployment) -> int:
    """Data-parallel replicas that this command starts itself (engine/arg_utils.py:2401-2494, 0.32.0): all of them,
    those of its node, or the one of an external load balancer."""
    flags = deployment.flags
    local = flags.get("data_parallel_size_local")
    if isinstance(local, int) and local >= 0 and flags.get("data_parallel_rank") is None:
        return local
    if flags.get("data_parallel_rank") is not None or flags.get("data_parallel_external_lb"):
        return 1
    return size_of(flags, REPLICAS)


def world(deployment: Deployment) -> World:
    """Context parallelism while decoding and expert parallelism share the ranks that there are."""
    flags, replicas = deployment.flags, size_of(deployment.flags, REPLICAS)
    total = world_size(deployment) * replicas
    backend = flags.get("distributed_executor_backend")
    if backend in ("ray", "external_launcher") or flags.get("data_parallel_backend") == "ray":
        return World(0, total)
    if (nodes := size_of(flags, "nnodes")) > 1:
        return World(cdiv(total, nodes), total, nodes)
    here = replicas_here(deployment)
    return World(world_size(deployment) * here, total, elsewhere=here != replicas)


def too_few_gpus(deployment: Deployment, short: Shortage) -> str:
    """The check of the configuration compares one replica with the GPUs, on CUDA and where no backend is named
    (config/parallel.py); all else comes to light in the workers, or while Ray looks for room."""
    flags, texts = deployment.flags, at(deployment.engine.version).refusals
    one, present = world_size(deployment), sum(device.node == 0 for device in visible(deployment.gpus))
    if flags.get("data_parallel_backend") == "ray":
        fits = short.gpus // one
        return texts.ray_replicas.format(replicas=size_of(flags, REPLICAS), fits=fits)
    backend = flags.get("distributed_executor_backend")
    if world(deployment).here <= present and backend is None:
        return f"{short.ranks} ranks on all nodes need {short.ranks} GPUs, and there are {short.gpus}"
    if backend in ("ray", "external_launcher"):
        return texts.ray_ranks.format(ranks=short.ranks)
    vendor = deployment.gpus[0].vendor
    if one > present and backend is None and vendor == "nvidia" and size_of(flags, "nnodes") == 1:
        return texts.world_size.format(ranks=one, gpus=present)
    if size_of(flags, REPLICAS) == 1 and not texts.every_rank_is_checked:
        driver = "HIP" if vendor == "amd" else "CUDA"
        return f"torch.AcceleratorError: {driver} error: invalid device ordinal"
    return texts.rank_out_of_bounds.format(rank=present, gpus=present)
