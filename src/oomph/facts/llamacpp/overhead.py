"""What a GPU holds beside llama.cpp's buffers: CUDA context, kernels, cuBLAS workspace, scratch pool ("unaccounted").

Measured values from memory breakdowns that users posted: RTX 4090 451 to 456 MiB (llama.cpp PR 15860), RTX PRO 6000
Blackwell 749 MiB (llama.cpp 27953). Ollama's constant for the same is 457 MiB. The pool grows while serving.
"""

from __future__ import annotations

from typing import Final

from oomph.units import MIB

# first compute capability -> (low, value, high) in bytes
ROWS: Final[tuple[tuple[int, tuple[int, int, int]], ...]] = (
    (0, (250 * MIB, 456 * MIB, 640 * MIB)),
    (100, (450 * MIB, 749 * MIB, 900 * MIB)),
)
# Nobody posted one: Ollama's constant. The pool has no virtual memory on HIP and keeps an F16 copy of the largest
# weight and of a long prompt's intermediates: three RX 7900 XTX with 0.7 GiB left ran out at 10,000 tokens
# (llama.cpp#8766).
AMD: Final = (250 * MIB, 457 * MIB, 1536 * MIB)


METAL: Final = (0, 64 * MIB, 512 * MIB)  # assumed: Metal has no context of its own
INTEL: Final = (100 * MIB, 457 * MIB, 1500 * MIB)  # assumed as AMD's; vLLM's XPU worker reserved 1.5 to 2.5 GB more


def unaccounted(sm: int, vendor: str) -> tuple[int, int, int]:
    if vendor != "nvidia":
        return {"apple": METAL, "intel": INTEL}.get(vendor, AMD)
    return [figures for since, figures in ROWS if since <= sm][-1]
