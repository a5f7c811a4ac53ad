"""What SGLang does not count: communicators, attention workspaces, graphs and activations, in the unreserved rest.

The figures are what start-ups that strangers posted print, to 0.01 GiB, between "Init torch distributed ends", "Load
weight begin", "Memory pool end" and "Capture ... end"; graphs were measured on an H200 (tests/truth/h200-sglang.jsonl).
"""

from oomph.facts.vllm.outside import NON_TORCH_BEFORE_LOAD, context_bytes
from oomph.units import GIB, MIB

# "Init torch distributed ends. mem usage": alone 0.00 to 0.09 GiB; two RTX 4090 0.19 and 0.26; two and four H200 1.0;
# eight H200 1.96 to 2.01 (pull requests 7873, 11716 and 17392 of SGLang)
_LINKED = (90, 100, 103)  # NCCL has NVLink SHARP
_PAIR, _PAIR_LINKED, _EIGHT_LINKED = 200 * MIB, 1000 * MIB, 2000 * MIB


def communicators(sm: int, ranks: int) -> int:
    if ranks == 1:
        return 0
    if sm not in _LINKED:
        return _PAIR
    return _PAIR_LINKED if ranks <= 4 else _EIGHT_LINKED


def before_loading(sm: int, sm_count: int, ranks: int) -> int:
    """CUDA context, libraries and communicators when the first weight is loaded.

    Posted: an H100 had 0.75 GiB less than its total, an H200 0.67, an RTX 4090 0.43 (0.59 with two), eight H200 2.5.
    """
    libraries = NON_TORCH_BEFORE_LOAD if sm in _LINKED else 0
    return context_bytes(sm_count) + libraries + communicators(sm, ranks)


# From "Memory pool end" to "Capture cuda graph begin": 0.42 to 0.45 GiB with FlashInfer on five cards (its float
# workspace is 384 MiB, SGLANG_FLASHINFER_WORKSPACE_SIZE), 0.05 with FlashAttention 3
WORKSPACES = {
    "flashinfer": 430 * MIB,
    "trtllm_mha": 560 * MIB,
    "trtllm_mla": 200 * MIB,
    "fa3": 60 * MIB,
    "fa4": 60 * MIB,
}
OTHER_WORKSPACE = 60 * MIB

# The driver's part of a decode graph, as vLLM's full graphs take it on an H200 (engines/vllm/graphs/memory.py). Posted
# lines ("Capture cuda graph end. mem usage": 0.09 GiB for 4 graphs, 0.26 for 7, 1.00 to 1.04 for 36, 1.44 for 52) hold
# the buffers of engines/sglang/kv/buffers.py too.
LEAST_DECODE_GRAPH, DECODE_GRAPH_LAYER = 3 * MIB // 2, 62 * 1024
# The driver's part of a prefill graph: 4.7 to 10.2 MiB on an H200 (0.5.17: Qwen3-8B, Gemma 2 9B, Qwen3-0.6B). SGLang's
# own figure is 8 MiB (arg_groups/memory_hook.py:385).
PER_PREFILL_GRAPH = 6 * MIB
OFF_GRAPHS = 0.5  # these figures may be half as much again, or half

# What a load may leave in the allocator beside its weights: at most 22 MiB in fifteen of sixteen loads on an H200, 196
# in one while another process was there.
LOAD_SHARE, LOAD_MOST = 0.012, GIB // 4
