"""An SGLang deployment as something to start: its container, and what a host must have for it."""

from __future__ import annotations

from oomph.emit.resources import Host, Part
from oomph.engines.protocol import Container
from oomph.engines.sglang.command import to_words
from oomph.facts.vllm.host import NCCL_SHM, PROCESS
from oomph.ir.deployment import Deployment
from oomph.ir.plan import Plan
from oomph.sources.load import load_once
from oomph.units import GIB, cdiv

PORT = 30000  # server_args.py
_CACHES = 10 * GIB  # assumed: Triton, FlashInfer and DeepGEMM keep what they build


def container(deployment: Deployment) -> Container:
    """SGLang listens on 127.0.0.1 unless it is told otherwise, and nobody outside the container would reach it."""
    port = deployment.flags.get("port")
    everywhere = () if "host" in deployment.flags else ("--host", "0.0.0.0")
    return Container(
        image=f"lmsysorg/sglang:v{deployment.engine.version}",
        entry_point=("python3", "-m", "sglang.launch_server"),
        arguments=(*to_words(deployment)[3:], *everywhere),
        port=port if isinstance(port, int) else PORT,
    )


def host_needs(plan: Plan, nodes: int = 1) -> Host:
    """Processes talk over ZeroMQ: only NCCL needs /dev/shm."""
    ranks = cdiv(max(1, len(plan.ranks)), nodes)
    shm = (Part(NCCL_SHM, "for NCCL between GPUs without peer-to-peer access"),) if len(plan.ranks) > 1 else ()
    processes = 2 + ranks
    what = f"for {processes} processes (tokenizer, detokenizer and a scheduler for each GPU)"
    disk = (
        Part(load_once(plan.deployment.model).nbytes, "for the checkpoint"),
        Part(_CACHES, "for compiled kernels and logs"),
    )
    return Host(shm, (Part(processes * PROCESS, what), *shm), cpus=processes + 2, disk=disk)
