"""What a start takes on AMD's and Intel's cards beyond what the same start takes on NVIDIA's.

From 26 posted logs of one machine with two Radeon AI PRO R9700 (vLLM 0.12 and 0.13), of an MI355X machine and of Arc
Pro cards. The same model, release and attention gave 0.83 and 3.43 GiB of activations and memory outside PyTorch, and
no log says why: the intervals hold both.
"""

from __future__ import annotations

from msgspec import Struct

from oomph.facts.changes import Facts, changes
from oomph.units import GIB, MIB


class Estimates(Facts):
    # gpu_worker.py determine_available_memory: whose graphs are profiled and subtracted. CUDA's alone until 0.25.0.
    vendors = changes(("nvidia",), ("0.26.0", ("nvidia", "amd")), ("0.31.0", ("nvidia", "amd", "intel")))


class Vendor(Struct, frozen=True):
    """Low, usual, high, in bytes; shares are of the term as it is planned for an NVIDIA card."""

    context: tuple[int, int, int]
    communicator: tuple[int, int, int]  # further, with several ranks
    non_torch: tuple[int, int, int]
    activation_off: float  # either way
    graph_layer: tuple[int, int]  # CUDA graphs of one layer: of one rank alone, of several ranks
    graph_off: float  # either way
    captured_off: tuple[int, int]  # captured graphs less and more than the profiling pass took
    weights: tuple[int, int, int]  # workspaces that the load leaves in PyTorch's figure
    quantised: float  # share of the weights that padded or unpacked layouts may add


# R9700: Llama-8B 15.06 GiB for 14.99, Qwen3-14B-FP8 15.42 for 15.33; MXFP4 and GPTQ experts 14.31 for 13.72 and 16.23
# for 15.61. Graphs take 24 to 30 MiB for every layer of one rank (Llama-8B, Qwen3-14B, Qwen3-Coder-30B, gemma-3-12b)
# and 16 to 26 of two; twice that where experts are MXFP4. The context follows from what the tightest start had left:
# at most 0.17 GiB alone (gpt-oss-20b at 0.98); with two ranks at 0.98 of 31.86 GiB at most 0.64 before the load. What
# capture took in the end was 0.42 GiB less to 0.26 more than activations and memory outside PyTorch in 12 of the 17
# starts that profiled little (0.49 and 0.64 more for gemma-3-27b on two), and 1.1 to 2.8 less in those that profiled
# 2.7 to 3.6 GiB.
RADEON = Vendor(
    context=(80 * MIB, 140 * MIB, 174 * MIB), communicator=(100 * MIB, 250 * MIB, 400 * MIB),
    non_torch=(0, 128 * MIB, 3 * GIB), activation_off=0.4, graph_layer=(28 * MIB, 20 * MIB), graph_off=0.35,
    captured_off=(512 * MIB, 288 * MIB),
    weights=(0, 72 * MIB, 100 * MIB), quantised=0.05,
)  # fmt: skip
# MI355X, eight ranks: rocm-smi shows 40.5 GiB where vLLM prints 35.15 (HIP context, aiter's modules, workspaces).
INSTINCT = Vendor(
    context=(300 * MIB, GIB, 3 * GIB), communicator=(200 * MIB, GIB, 3 * GIB),
    non_torch=(0, 512 * MIB, 5 * GIB), activation_off=0.4, graph_layer=(28 * MIB, 20 * MIB), graph_off=0.5,
    captured_off=(2 * GIB, 2 * GIB),
    weights=(0, 72 * MIB, 512 * MIB), quantised=0.05,
)  # fmt: skip
# Arc Pro: 1.5 to 2.5 GB are reserved beyond the peak that is measured.
INTEL = Vendor(
    context=(200 * MIB, 600 * MIB, 2 * GIB), communicator=(200 * MIB, GIB, 2 * GIB),
    non_torch=(256 * MIB, 3 * GIB // 2, 3 * GIB), activation_off=0.4, graph_layer=(20 * MIB, 16 * MIB), graph_off=0.8,
    captured_off=(2 * GIB, 2 * GIB),
    weights=(0, 64 * MIB, GIB), quantised=0.08,
)  # fmt: skip
# Cards before gfx950 have no FP4: experts stored in it are unpacked. DeepSeek-V4-Pro left less than 23.3 GiB on eight
# MI300X where its stored size would leave 70: 0.6 of the experts' bytes more, at most.
UNPACKED_FP4 = 0.6
FIRST_FP4 = (9, 5)


MXFP4_GRAPHS = 2.0


def of(vendor: str, name: str) -> Vendor | None:
    if vendor == "intel":
        return INTEL
    if vendor == "amd":
        return INSTINCT if name.startswith("MI") else RADEON
    return None
