"""A vLLM deployment as something to start: its container, its config file, its nodes and what they must have."""

from __future__ import annotations

import json
from typing import Any

from oomph.commands.shell import quote
from oomph.emit.resources import Host, Part
from oomph.emit.yaml_text import dump
from oomph.engines.protocol import Container
from oomph.engines.vllm.command import to_words
from oomph.errors import CannotPlan
from oomph.facts.vllm.facts import at
from oomph.facts.vllm.flags import options_of
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
from oomph.ir.deployment import Deployment
from oomph.ir.plan import Plan
from oomph.sources.load import load_once
from oomph.units import GIB, MIB, cdiv

RAY_PORT = 6379
PORT = 8000
_CACHES = 10 * GIB  # assumed: torch.compile, Triton and FlashInfer keep what they build


def container(deployment: Deployment) -> Container:
    """With the entry point named: it changed between releases."""
    image = f"vllm/vllm-openai:v{deployment.engine.version}"
    return Container(image, ("vllm", "serve"), tuple(to_words(deployment)[2:]), PORT)


def config_file(deployment: Deployment) -> str:
    """Flags that are false are written as their --no- form, and mappings as JSON text: every release reads those."""
    if deployment.usage != "serve":
        raise CannotPlan("a --config file is for vllm serve, not for LLM(...)")
    values: dict[str, Any] = {"model": deployment.model}
    for field, value in deployment.flags.items():
        key = field.replace("_", "-")
        if value is False:
            values["no-" + key] = True
        elif isinstance(value, (dict, list)):
            values[key] = json.dumps(value) if isinstance(value, dict) else value
        else:
            values[key] = value
    lines = ["# vllm serve --config FILE"]
    lines += [f"# with {name}={value} in the environment" for name, value in deployment.environment.items()]
    return "\n".join(lines) + "\n" + dump(values)


def node_commands(plan: Plan, nodes: int) -> tuple[list[str], list[str]]:
    """(leader's, worker's) words: multiprocessing where the release can span nodes with it (--nnodes), Ray otherwise.

    LeaderWorkerSet gives every pod LWS_LEADER_ADDRESS and LWS_WORKER_INDEX.
    """
    serve = ["vllm", "serve", *to_words(plan.deployment)[2:]]
    if nodes == 1:
        return serve, serve
    if options_of(plan.deployment.engine.version).status("nnodes").state == "known":
        address = ["--nnodes", str(nodes), "--master-addr", "$(LWS_LEADER_ADDRESS)"]
        leader = [*serve, *address, "--node-rank", "0"]
        return leader, [*serve, *address, "--node-rank", "$(LWS_WORKER_INDEX)", "--headless"]
    line = " ".join([*map(quote, serve), "--distributed-executor-backend", "ray"])
    head = f"ray start --head --port={RAY_PORT} --num-gpus={len(plan.ranks) // nodes}"
    worker = f"exec ray start --address=$(LWS_LEADER_ADDRESS):{RAY_PORT} --block"
    return ["sh", "-c", f"{head} && exec {line}"], ["sh", "-c", worker]


def host_needs(plan: Plan, nodes: int = 1) -> Host:
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
    return (
        Part(load_once(plan.deployment.model).nbytes, "for the checkpoint"),
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
