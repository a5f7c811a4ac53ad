"""What vLLM's processes take of the host: shared memory of their queues, caches, and what a process is."""

from __future__ import annotations

from oomph.facts.changes import Facts, changes
from oomph.units import GIB, MIB


class Queues(Facts):
    """shm_broadcast.py: a ring of chunks in /dev/shm for each queue."""

    reply_bytes = changes(10 * MIB, ("0.11.1", 24 * MIB))  # one chunk of a worker's answers: MessageQueue's default


QUEUE_CHUNKS = 10
CALL_BYTES = 16 * MIB  # one chunk of the executor's calls: VLLM_MQ_MAX_CHUNK_BYTES_MB
GROUP_CHUNKS, GROUP_BYTES = 6, 4 * MIB  # parallel_state.py: the tensor-parallel group's own queue
# NCCL's user guide, "Troubleshooting, Docker": --shm-size=1g for its segments between GPUs without peer-to-peer access.
NCCL_SHM = GIB
# Assumed: Python, PyTorch and the CUDA libraries of one process.
PROCESS = 3 * GIB
# config/multimodal.py mm_processor_cache_gb: kept by each API process and each engine core.
MM_CACHE_GB = 4.0
# While offloaded weights are repacked there are two copies of them (1.9 times measured, vllm#56410).
OFFLOAD_COPIES = 2
