"""What a GPU holds beside llama.cpp's buffers: CUDA context, kernels, cuBLAS workspace, scratch pool ("unaccounted").

Measured values from memory breakdowns that users posted: RTX 4090 451 to 456 MiB (llama.cpp PR 15860), RTX PRO 6000
Blackwell 749 MiB (llama.cpp 27953). Ollama's constant for the same is 457 MiB. The pool grows while serving.
H200 (44 loads of v0.5.0, driver 580, CUDA 13.0): 524 MiB when --fit looks, 527 to 535 when everything is allocated,
597 after the warm-up and 606 to 642 after a long prompt; 98 MiB more where cuBLAS multiplies: matrices in 16 or 32 bits
(a router), no flash attention, Mamba.
"""

from typing import Final

from oomph.units import MIB

# first compute capability -> (low, value, high) in bytes
ROWS: Final[tuple[tuple[int, tuple[int, int, int]], ...]] = (
    (0, (250 * MIB, 456 * MIB, 640 * MIB)),
    (90, (590 * MIB, 612 * MIB, 660 * MIB)),
    (100, (450 * MIB, 749 * MIB, 900 * MIB)),
)
# Nobody posted one: Ollama's constant, twice of it at most. Long prompts take more, see scores_copy.
AMD: Final = (250 * MIB, 457 * MIB, 900 * MIB)


def scores_copy(tokens: int, cells: int, heads: int) -> int:
    """Bytes of the pool that a prompt takes without flash attention once the context is full: the product of scores and
    values converts the scores of a micro-batch to F16 (ggml-cuda.cu, ggml_cuda_mul_mat_batched_cublas: src1_f16).
    Three RX 7900 XTX with 0.7 GiB left started and ran out beyond 10,000 tokens (llama.cpp#8766): 0.63 GiB."""
    return 2 * tokens * cells * heads


METAL: Final = (0, 64 * MIB, 512 * MIB)  # assumed: Metal has no context of its own
INTEL: Final = (100 * MIB, 457 * MIB, 1500 * MIB)  # assumed as AMD's; vLLM's XPU worker reserved 1.5 to 2.5 GB more


CUBLAS: Final = 98 * MIB
# what --fit does not see yet: cuBLAS, kernels and the pool come with the first batch
AFTER_THE_LOAD: Final = {90: 88 * MIB}


def held_at_fit(sm: int, vendor: str) -> int:
    """What the process holds when --fit asks for free memory."""
    _, usual, _ = unaccounted(sm, vendor)
    return usual - (AFTER_THE_LOAD.get(sm // 10 * 10, 0) if vendor == "nvidia" else 0)


def unaccounted(sm: int, vendor: str, *, cublas: bool = False) -> tuple[int, int, int]:
    """`cublas`: something is multiplied that ggml's own kernels do not take."""
    low, usual, high = _rows(sm, vendor)
    if not cublas or vendor != "nvidia":
        return low, usual, high
    return (low + CUBLAS, usual + CUBLAS, high + CUBLAS) if 90 <= sm < 100 else (low, usual, high + CUBLAS)


def _rows(sm: int, vendor: str) -> tuple[int, int, int]:
    if vendor != "nvidia":
        return {"apple": METAL, "intel": INTEL}.get(vendor, AMD)
    return [figures for since, figures in ROWS if since <= sm][-1]
