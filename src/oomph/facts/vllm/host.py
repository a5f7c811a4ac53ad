"""What vLLM's processes take of the host: shared memory of their queues, caches, and what a process is."""

from oomph.facts.changes import Facts, changes, since
from oomph.units import GIB, MIB


class Queues(Facts):
    """shm_broadcast.py: a ring of chunks in /dev/shm for each queue."""

    reply_bytes = changes(10 * MIB, ("0.11.1", 24 * MIB))  # one chunk of a worker's answers: MessageQueue's default
    # v1/kv_offload/cpu/spec.py: the pool of --kv-offloading-size is one file in /dev/shm (0.26.0 pins tensors)
    offload_region = since("0.27.0")
    # utils/mem_utils.py:50 (PR 45179): on memory shared with the CPU cached blocks are given back while weights load.
    # Of two starts with Qwen3-Coder-Next NVFP4 on a GB10 the one with 0.23.0 died while loading, that with 0.24.0 ran.
    frees_cache_while_loading = since("0.24.0")


QUEUE_CHUNKS = 10
CALL_BYTES = 16 * MIB  # one chunk of the executor's calls: VLLM_MQ_MAX_CHUNK_BYTES_MB
GROUP_CHUNKS, GROUP_BYTES = 6, 4 * MIB  # parallel_state.py: the tensor-parallel group's own queue
# NCCL's user guide, "Troubleshooting, Docker": --shm-size=1g for its segments between GPUs without peer-to-peer access.
NCCL_SHM = GIB
# Python, PyTorch and the CUDA libraries of one process: low, usual, high. Assumed; 35 GiB of anonymous memory were
# posted for a node of four ranks, six processes, beside its caches (vllm#53042).
PROCESS = (2 * GIB, 3 * GIB, 6 * GIB)
# config/multimodal.py mm_processor_cache_gb: kept by each API process and each engine core.
MM_CACHE_GB = 4.0
# PyTorch's CachingHostAllocator rounds every pinned tensor up to a power of two: 1.15, 1.18 and 1.9 times the weights
# were measured for --cpu-offload-gb (vllm#56410). Low, usual, high.
PINNED = (1.1, 1.5, 2.0)
# The same rounding of the pieces that sleep level 1 keeps: 1.1 to 1.52 times on an H200
# (tests/truth/h200-served.jsonl, h200-newest.jsonl). It is not given back when the server wakes up.
ASLEEP = (1.05, 1.3, 1.6)
# LMCACHE_MAX_LOCAL_CPU_SIZE, in GB, for every worker (lmcache/v1/config.py).
LMCACHE_GB = 5.0
