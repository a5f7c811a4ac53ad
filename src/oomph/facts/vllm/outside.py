"""Memory that PyTorch's allocator does not hand out: CUDA context, kernels' code, communicators; and how a release
turns what profiling saw into KV memory.

An H200 was measured (tests/truth/h200.jsonl); for the other cards these are the figures that start-ups posted by
strangers printed (tests/truth/field-plans.jsonl), which round to 0.01 GiB.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from oomph.facts.changes import Dated, Facts, changes, since
from oomph.units import MIB, round_up


class Budget(Facts):
    """gpu_worker.py determine_available_memory."""

    # "everything": util x total - all that is in use on the card, others' memory and the CUDA context included
    # "terms": requested - weights - peak - what grew outside PyTorch since the first snapshot
    # "consumed": requested - (free before - free after) - headroom
    # 0.9.0.1 has the old sum and 0.9.1 the snapshot.
    formula: Dated[Literal["everything", "terms", "consumed"]] = changes(
        "everything", ("0.9.1", "terms"), ("0.27.0", "consumed")
    )
    # "measured": allocated and thrown away, not subtracted
    graph_estimate: Dated[Literal["none", "measured", "subtracted"]] = changes(
        "none", ("0.18.0", "measured"), ("0.20.0", "subtracted")
    )
    v2_estimates = since("0.29.0")  # gpu/model_runner.py profile_cudagraph_memory: the V2 runner returns 0 until 0.28.0
    profiles_per_sequence = since("0.26.0")  # graphs are profiled on one KV block per sequence, not per captured token
    # The first snapshot follows the communicators: they lie outside the budget. 0.10.2 takes it before
    # init_worker_distributed_environment, 0.11.0 after it.
    snapshot_after_nccl = since("0.11.0")
    # utils/mem_utils.py MemorySnapshot: on integrated GPUs free is what psutil calls available. Before (0.11.0) it is
    # what CUDA calls free: there the page cache counts as used.
    reads_available = since("0.11.1")


# --- CUDA context --------------------------------------------------------------------------------------------------

CONTEXT_H200 = 552_402_944  # total - free at the first snapshot, torch 2.11 and CUDA 13; an H100 printed 0.53 to 0.61
# Elsewhere total - free, over the multiprocessors: 0.23 GiB of 80 (A10G), 0.23 of 70 (Blackwell, 16 GB), 0.34 of 84
# (A6000), 0.41 and 0.49 of 108 (A100), 0.49 of 142 (L40S), 0.56 of 188 (RTX PRO 6000).
_CONTEXT_PER_SM = 3_600_000


def context_bytes(sm_count: int) -> int:
    """A CUDA context grows with the multiprocessors it keeps stacks for."""
    return CONTEXT_H200 if sm_count == 132 else _CONTEXT_PER_SM * (sm_count or 100)


# --- what grows outside PyTorch while profiling ---------------------------------------------------------------------

_SHARP = frozenset((90, 100, 103))  # Hopper, B200, B300


class NonTorch(Struct, frozen=True):
    """Kernels' code as it is loaded, libraries' own buffers: on Hopper and B200, and on the other cards."""

    large_eager: int
    large: int
    other: int


# of them, there before the first weight: 722,272,256 B beside the allocator then, 552,402,944 B at the first snapshot
NON_TORCH_BEFORE_LOAD = 162 * MIB


def non_torch_bytes(row: NonTorch, sm: int, *, eager: bool) -> int:
    if sm not in _SHARP:
        return row.other
    return row.large_eager if eager else row.large


# --- communicators -------------------------------------------------------------------------------------------------

# One more group of ranks: what is there at the first snapshot, and what the first large collectives add.
# Where NCCL has NVLink SHARP (Hopper, B200, B300): an H100 had 0.93 GiB less free at the start with two ranks than
# alone, and 0.42 GiB more outside PyTorch after profiling (0.11.0: 0.13 and 0.55). Elsewhere: with the context of a
# 70-SM RTX 5070 Ti NCCL_BYTES makes the 0.44 GiB that two of them printed; four L40S printed 0.21 GiB for all that was
# outside PyTorch (0.10.2). No A100 with several ranks was seen.
NCCL_BYTES = 200 * MIB
NCCL_BYTES_SHARP = 950 * MIB
_NCCL_GROWS = 100 * MIB
_NCCL_GROWS_SHARP = 430 * MIB


def nccl_bytes(sm: int) -> int:
    return NCCL_BYTES_SHARP if sm in _SHARP else NCCL_BYTES


def nccl_grows(sm: int) -> int:
    return _NCCL_GROWS_SHARP if sm in _SHARP else _NCCL_GROWS


FUSED = "all-reduce fusion"  # a part of the term


# cuMulticastGetGranularity(RECOMMENDED) on NVSwitch machines. Start-ups of four H200 and four B200 printed 1.5 GiB
# less KV memory with 0.18.0 than the sampler's change from 0.16.0 explains, whatever the buffers' own size.
MULTICAST_GRANULE = 512 * MIB
# allreduce_rms_fusion.py FI_ALLREDUCE_FUSION_MAX_SIZE_MB: the largest tensor by capability and ranks.
_MAX_TENSOR: Mapping[int, Mapping[int, int]] = {
    90: {2: 64 * MIB, 4: 2 * MIB, 8: MIB // 2},
    100: {2: 64 * MIB, 4: 32 * MIB, 8: MIB},
    103: {2: 64 * MIB, 4: 64 * MIB, 8: 2 * MIB},
}


def fused_all_reduce_bytes(buffers: int, sm: int, tp: int) -> int:
    largest = _MAX_TENSOR.get(sm, {}).get(tp)
    if largest is None or not buffers:
        return 0
    lamport = round_up(3 * tp * largest, MULTICAST_GRANULE)  # three times the other buffer; it may need two granules
    return (buffers - 1) * MULTICAST_GRANULE + lamport


def low_latency_bytes(tokens: int, hidden: int, experts: int) -> int:
    """DeepEP's get_low_latency_rdma_size_hint (csrc/config.hpp, LowLatencyLayout): for odd and even passes a send and a
    receive buffer with a slot for every expert and token, and a signal for every expert."""
    scales = hidden // 128
    dispatch = 16 + max(2 * hidden, hidden + 4 * scales)
    combine = 4 * scales + 2 * hidden
    send = max(tokens * dispatch, experts * tokens * combine)
    receive = experts * tokens * max(dispatch, combine)
    return 2 * (send + receive + round_up(4 * experts, 128))


class Outside(Facts):
    # tokens that a rank dispatches at once: VLLM_MOE_DP_CHUNK_SIZE; 0: max_num_batched_tokens (fused_moe/layer.py)
    dispatch_tokens = changes(256, ("0.20.0", 0))
    # Hopper since 0.17.0 (torch 2.10 and newer): measured on an H200 with 0.21.0, and what start-ups of four B200 leave
    # unexplained otherwise; before: 0.13 GiB on an H100 with 0.11.0. Other cards: 0.07 GiB (16 GB, 0.26.0), 0.10 (A100,
    # 0.31.0), 0.02 to 0.07 before (A100, L40S, A6000).
    non_torch = changes(
        NonTorch(large_eager=133 * MIB, large=133 * MIB, other=60 * MIB),
        ("0.17.0", NonTorch(large_eager=241_172_480, large=249_561_088, other=90 * MIB)),
        # gpu_worker.py determine_available_memory: graphs are profiled after the reading, compiled or not it is the
        # same (0.32.0 on an H200: 241,172,480 in six of seven starts, 2 MiB more in one)
        ("0.27.0", NonTorch(large_eager=241_172_480, large=241_172_480, other=90 * MIB)),
    )
    # Buffers that the pass fuse_allreduce_rms has FlashInfer make for tensor parallel ranks (on by default for compute
    # capability 9.0 and 10.x since 0.17.0, config/vllm.py enable_allreduce_rms_fusion). FlashInfer rounds each up to
    # the granularity of multicast objects: trtllm_ar.py makes three buffers; FlashInfer before 0.6.15 rounds them
    # although multicast is off (mnnvl.py SymmDeviceMemory). 0.25.0 takes mnnvl's one buffer and keeps the three for
    # quantised norms, 0.26.0 only mnnvl's.
    all_reduce_buffers = changes(0, ("0.17.0", 3), ("0.25.0", 4), ("0.26.0", 1))
    # only without data and pipeline parallelism
    all_reduce_alone = changes(False, ("0.17.0", True), ("0.20.0", False))
