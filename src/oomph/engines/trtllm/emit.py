"""A TensorRT-LLM deployment as something to start: its container, its options file, and what a host must have."""

from oomph.emit.resources import Host, needs_of
from oomph.engines.trtllm.command.options_file import to_yaml
from oomph.engines.trtllm.command.serve import to_words
from oomph.engines.values import Container
from oomph.facts.trtllm.flags import FRONTEND
from oomph.facts.vllm.host import NCCL_SHM, PROCESS
from oomph.ir import Deployment, HostPart, HostPlan, Model, Plan
from oomph.sources.load import load_once
from oomph.units import cdiv

PORT = 8000  # commands/serve.py


def container(deployment: Deployment) -> Container:
    """trtllm-serve listens on localhost unless it is told otherwise: nobody outside the container would reach it."""
    from msgspec.structs import replace

    flags = deployment.flags if "host" in deployment.flags else {**deployment.flags, "host": "0.0.0.0"}
    words = to_words(replace(deployment, flags=flags))
    port = flags.get("port")
    entry = 2 if words[0] == "bash" else 1
    return Container(
        image=f"nvcr.io/nvidia/tensorrt-llm/release:{deployment.engine.version}",
        entry_point=tuple(words[:entry]),
        arguments=tuple(words[entry:]),
        port=port if isinstance(port, int) else PORT,
    )


def config_file(deployment: Deployment) -> str:
    """Everything that the options file can hold; the server's own options stay on the command line."""
    fields = {field: value for field, value in deployment.flags.items() if field not in FRONTEND and field != "backend"}
    return to_yaml(fields)


def host_plan(plan: Plan, model: Model | None = None, nodes: int = 0) -> HostPlan:
    """One process for the server and one for each GPU. Every rank reads all files: posted starts of several ranks had
    as many copies of the checkpoint in host memory as ranks (2.0 TB for 397 billion parameters on eight)."""
    nodes = nodes or len({device.node for device in plan.deployment.gpus}) or 1
    ranks = cdiv(max(1, len(plan.ranks)), nodes)
    processes = 1 + ranks
    low, usual, high = (processes * n for n in PROCESS)
    parts = [HostPart("processes", usual, low, high, f"for {processes} processes (the server, a worker for each GPU)")]
    host_cache = int(plan.deployment.flags.get("kv_cache_config.host_cache_size") or 0) * ranks
    if host_cache:
        why = f"for the KV cache in host memory, {ranks} ranks (kv_cache_config.host_cache_size)"
        parts.append(HostPart("KV cache in host memory", host_cache, host_cache, host_cache, why))
    shm = NCCL_SHM if len(plan.ranks) > 1 else 0
    if shm:
        parts.append(HostPart("NCCL in /dev/shm", shm, 0, shm, "for NCCL between GPUs without peer-to-peer access"))
    size = (model or load_once(plan.deployment.model)).nbytes
    why = "while the checkpoint is read and prefetched; given back when needed"
    parts.append(HostPart("page cache", size, 0, size, why, True, reclaimable=True))
    return HostPlan(tuple(parts), shm)


def host_needs(plan: Plan, nodes: int = 1) -> Host:
    return needs_of(plan, host_plan(plan, nodes=nodes), 1 + cdiv(max(1, len(plan.ranks)), nodes))
