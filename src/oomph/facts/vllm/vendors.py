"""What a start takes on AMD's and Intel's cards beyond what the same start takes on NVIDIA's.

From 26 posted logs of one machine with two Radeon AI PRO R9700 (vLLM 0.12 and 0.13), of an MI355X machine and of Arc
Pro cards. The same model, release and attention took 0.83 and 3.43 GiB for activations and memory outside PyTorch: the
first start found torch.compile's cache filled ("Compiling a graph ... takes 1.22 s"), the second compiled (12.7 s).
"""

from msgspec import Struct

from oomph.facts.changes import Facts, changes
from oomph.units import GIB, MIB


class Estimates(Facts):
    # gpu_worker.py determine_available_memory: whose graphs are profiled and subtracted. CUDA's alone until 0.25.0.
    vendors = changes(("nvidia",), ("0.26.0", ("nvidia", "amd")), ("0.31.0", ("nvidia", "amd", "intel")))
    # v1/sample/ops/topk_topp_sampler.py: without FlashInfer top-k and top-p sort all logits (0.13.0 line 258, seen in
    # two tracebacks); 0.19.0 has a Triton kernel for it. The releases between were not read.
    sorts_logits = changes(True, ("0.19.0", False))


class Vendor(Struct, frozen=True):
    """Low, usual, high, in bytes; shares are of the term as it is planned for an NVIDIA card."""

    context: tuple[int, int, int]
    communicator: tuple[int, int, int]  # further, with several ranks
    non_torch: tuple[int, int, int]
    compiling: int  # further at most outside PyTorch, where torch.compile compiles
    workspace: int  # what BLAS libraries allocate through PyTorch in the profiling pass and keep
    activation_off: float  # either way
    graph_layer: tuple[int, int]  # CUDA graphs of one layer: of one rank alone, of several ranks
    graph_off: float  # either way
    captured: tuple[int, int, int]  # of the captured graphs what cannot be given back: their pool, the driver's part
    weights: tuple[int, int, int]  # workspaces that the load leaves in PyTorch's figure
    quantised: float  # share of the weights that padded or unpacked layouts may add


# R9700: Llama-8B 15.06 GiB for 14.99, Qwen3-14B-FP8 15.42 for 15.33; MXFP4 and GPTQ experts 14.31 for 13.72 and 16.23
# for 15.61. Graphs take 24 to 30 MiB for every layer of one rank (Llama-8B, Qwen3-14B, Qwen3-Coder-30B, gemma-3-12b)
# and 16 to 26 of two; twice that where experts are MXFP4. A part of that is PyTorch's cache, which an allocation that
# would fail gives back.
# What stays follows from two starts on two cards at 0.98 that died in the sampler's warm-up and printed a ledger:
# 0.95 and 0.97 GiB lay outside PyTorch, 0.07 and 0.10 in the graphs' pool, and 0.22 were neither weights, KV cache,
# pool nor logits (the workspace). Less the 0.23 and 0.29 that profiling had seen outside PyTorch (budget less weights,
# KV cache, activations and workspace), context, communicator and the driver's part of the graphs are 0.68 to 0.72 GiB.
# For one card the tightest start that held (gpt-oss-20b at 0.98) allows at most 0.67 for context and graphs.
# On Strix Halo three starts saw less than 0.3 GiB of activations, workspace and memory outside PyTorch together.
# Seven of nine starts that compiled took 1.83 to 2.06 GiB more outside PyTorch; two took no more.
RADEON = Vendor(
    context=(80 * MIB, 140 * MIB, 174 * MIB), communicator=(100 * MIB, 250 * MIB, 400 * MIB),
    non_torch=(0, 240 * MIB, 512 * MIB), compiling=2200 * MIB, workspace=224 * MIB, activation_off=0.4,
    graph_layer=(28 * MIB, 20 * MIB), graph_off=0.35, captured=(250 * MIB, 400 * MIB, 540 * MIB),
    weights=(0, 72 * MIB, 100 * MIB), quantised=0.05,
)  # fmt: skip
# MI355X, eight ranks: rocm-smi shows 40.5 GiB where vLLM prints 35.15 (HIP context, aiter's modules, workspaces).
INSTINCT = Vendor(
    context=(300 * MIB, GIB, 3 * GIB), communicator=(200 * MIB, GIB, 3 * GIB),
    non_torch=(0, 512 * MIB, 5 * GIB), compiling=2200 * MIB, workspace=224 * MIB, activation_off=0.4,
    graph_layer=(28 * MIB, 20 * MIB), graph_off=0.5, captured=(256 * MIB, GIB, 3 * GIB),
    weights=(0, 72 * MIB, 512 * MIB), quantised=0.05,
)  # fmt: skip
# Arc Pro: 1.5 to 2.5 GB are reserved beyond the peak that is measured. Two B70 at 0.95 passed the first check: context
# and communicator were at most 1.59 GiB before the weights.
INTEL = Vendor(
    context=(150 * MIB, 400 * MIB, GIB), communicator=(100 * MIB, 400 * MIB, 800 * MIB),
    non_torch=(256 * MIB, 3 * GIB // 2, 3 * GIB), compiling=0, workspace=0, activation_off=0.4,
    graph_layer=(20 * MIB, 16 * MIB), graph_off=0.8, captured=(256 * MIB, GIB, 3 * GIB),
    weights=(0, 64 * MIB, GIB), quantised=0.08,
)  # fmt: skip
# Sorting [64, 201,088] logits asked for 150 MiB of scratch beside values (4 bytes) and indices (8): 12 bytes a logit,
# and the logits themselves in the model's dtype and in float32, where the plan for an NVIDIA card counts 2 + 12.
SORTED_OVER_PLANNED = 30 / 14
SAMPLING_PASSES = ("warm-up", "every sequence decoding")
# Cards before gfx950 have no FP4: experts stored in it are unpacked. DeepSeek-V4-Pro left less than 23.3 GiB on eight
# MI300X where its stored size would leave 70: 0.6 of the experts' bytes more, at most.
UNPACKED_FP4 = 0.6
FIRST_FP4 = (9, 5)


MXFP4_GRAPHS = 2.0
# vllm-gaudi (README, "gpu_memory_utilization"): of the memory that is free after weights and profiling the utilisation
# is usable, and of that a share is kept for graphs (VLLM_GRAPH_RESERVED_MEM): 79.16 GiB free at 0.5 and 0.4 left 23.75
# for the KV cache. There is no check of free memory before the load.
HPU_GRAPHS = 0.1
HPU_GRAPHS_VARIABLE = "VLLM_GRAPH_RESERVED_MEM"


def is_gaudi(name: str) -> bool:
    return name.startswith("Gaudi")


def of(vendor: str, name: str) -> Vendor | None:
    if vendor == "intel":
        return INTEL
    if vendor == "amd":
        return INSTINCT if name.startswith("MI") else RADEON
    return None
