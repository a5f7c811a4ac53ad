"""How many worker processes an SGLang command starts, on which GPUs, and what it prints where it has too few."""

from collections.abc import Sequence
from math import prod

from oomph.ir import Deployment, Device
from oomph.ir.world import Shortage, World
from oomph.units import cdiv


def world(deployment: Deployment) -> World:
    """Replicas that share their attention's ranks need no GPUs of their own."""
    flags = deployment.flags
    groups = bool(flags.get("enable_dp_attention") or flags.get("attn_dp_size"))
    sizes = [flags.get(field) for field in ("tp_size", "pp_size", *(() if groups else ("dp_size",)))]
    total = prod(size for size in sizes if isinstance(size, int) and size > 0)
    nodes = flags.get("nnodes")
    nodes = nodes if isinstance(nodes, int) and nodes > 1 else 1
    here = cdiv(total, nodes)
    first, step = _first_and_step(deployment)
    return World(here, total, nodes, reach=first + (here - 1) * step + 1 if first or step > 1 else 0)


def own_gpus(deployment: Deployment) -> Sequence[Device]:
    """The GPUs that its ranks are put on, in their order (entrypoints/engine.py _launch_scheduler_processes, 0.5.9):
    base_gpu_id + rank * gpu_id_step on each node."""
    first, step = _first_and_step(deployment)
    gpus = deployment.gpus
    nodes = sorted({device.node for device in gpus})
    return [device for node in nodes for device in [one for one in gpus if one.node == node][first::step]]


def _first_and_step(deployment: Deployment) -> tuple[int, int]:
    first, step = (deployment.flags.get(field) for field in ("base_gpu_id", "gpu_id_step"))
    return (
        first if isinstance(first, int) and first > 0 else 0,
        step if isinstance(step, int) and step > 1 else 1,
    )


def too_few_gpus(deployment: Deployment, short: Shortage) -> str:
    """Each rank sets its device before anything else (model_runner.py init_torch_distributed)."""
    driver = "HIP" if deployment.gpus[0].vendor == "amd" else "CUDA"
    values = {name: deployment.flags.get(name.replace("-", "_")) for name in ("base-gpu-id", "gpu-id-step")}
    flags = " ".join(f"--{name} {value}" for name, value in values.items() if value is not None)
    why = f"{short.words}: {flags}" if short.reach else short.words
    return f"torch.AcceleratorError: {driver} error: invalid device ordinal ({why})"
