"""What a GPU holds beside llama.cpp's buffers: CUDA context, kernels, cuBLAS workspace, scratch pool ("unaccounted").

Measured values from memory breakdowns that users posted: RTX 4090 451 to 456 MiB (llama.cpp PR 15860), RTX PRO 6000
Blackwell 749 MiB (llama.cpp 27953). Ollama's constant for the same is 457 MiB. The pool grows while serving.
"""

from typing import Final

from oomph.units import MIB

# first compute capability -> (low, value, high) in bytes
ROWS: Final[tuple[tuple[int, tuple[int, int, int]], ...]] = (
    (0, (250 * MIB, 456 * MIB, 640 * MIB)),
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


def unaccounted(sm: int, vendor: str) -> tuple[int, int, int]:
    if vendor != "nvidia":
        return {"apple": METAL, "intel": INTEL}.get(vendor, AMD)
    return [figures for since, figures in ROWS if since <= sm][-1]
