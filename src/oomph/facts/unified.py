"""Machines whose CPU and GPU share one memory: how much of it is whose.

From 80 posted starts on such machines (GB10, Jetson, Strix Halo, Apple); the ids are those of
tests/truth/machines.jsonl. Nothing here was measured by us, so every figure is an interval.
"""

from oomph.ir import SystemMemory
from oomph.units import GIB, MIB

# What the system and other programs hold before an engine starts, as shares of the memory: low, usual, high.
# GB10 (121.7 GiB): 116.4 GiB were available on an idle machine without a desktop, 110 to 111 with one, less with
# vm.min_free_kbytes at 4 GiB. The least that vLLM's own snapshot found, 98.9 GiB, is what this and CONTEXT allow
# together. A board of 8 GB holds more of its memory: at least the sizes below.
_USED = (0.025, 0.10, 0.135)
_USED_LEAST = (600 * MIB, 1200 * MIB, 2500 * MIB)

# The container and the CUDA context, gone between the idle machine and the engine's first look: 2.6 to 2.7 GiB on
# most kernels, 8 to 9 GiB on 6.17.0-1031 (both GB10), as shares of the memory.
CONTEXT = (0.021, 0.044, 0.074)

# What SGLang reads as free before it loads (the system's available memory, caches of files included): 109.98, 111.73,
# 111.97, 112.23, 112.74, 112.86 and 113.93 of 121.69 GiB in seven posted logs of GB10s.
FREE_BEFORE_SGLANG = (0.90, 0.921, 0.937)

# What grows outside PyTorch from the first look to the end of profiling is read off the whole machine's available
# memory, so that compilers and loaders of the host are charged to the KV cache: 5.4 GiB for activations and this at
# 73.97 GiB of weights. Two cold starts lie outside: 30 GiB in one, less than nothing in the other. On Strix Halo with
# 124 GiB of GTT, whose free memory is the machine's too, activations and this took 3.9 and 4.0 GiB; with a BIOS
# carve-out, which the system does not touch, less than 0.3.
NON_TORCH = (0.0, 0.022, 0.065)

# The estimate of CUDA graphs is read in the same way: -4.74 GiB in one log, 5.1 GiB in another (0.80 "effectively
# 0.758"), where the graphs of such models take 0.1 to 1.
GRAPH_ESTIMATE = (-0.045, 0.01, 0.045)

# Below this share of the memory a host swaps, kills or hangs: 4.5 to 5 GiB of 121.7 held, 95 % in use held, 98 % not.
FLOOR = 0.04
# vLLM's compilers, tuning, repacking and capture take host memory that no budget counts: 0.70 used 110 of 121.7 GiB in
# one start and hung the host in three others; 0.55 held. With --enforce-eager and a small batch they are bounded.
UNCOUNTED_COMPILED = 0.135
UNCOUNTED_EAGER = 0.06
# SGLang tunes and captures outside its share: 0.60 to 0.85 drained the host in four of four starts, 0.50 held.
UNCOUNTED_SGLANG = 0.29
# llama.cpp allocates what it says; CUDA graphs, the scratch pool and the server's prompt cache come on top.
UNCOUNTED_PLAIN = 0.03


def system_memory(total: int, used: int | None = None) -> SystemMemory:
    """`used`: as somebody read it off the machine; None: as such machines usually are."""
    if used is not None:
        return SystemMemory(total, used, used, used)
    low, usual, high = (
        min(total // 2, max(round(total * share), least)) for share, least in zip(_USED, _USED_LEAST, strict=True)
    )
    return SystemMemory(total, usual, low, high)


def share(total: int, shares: tuple[float, float, float]) -> tuple[int, int, int]:
    low, usual, high = (round(total * part) for part in shares)
    return low, usual, high


# A board of so many GB as the operating system sees it: 128 GB are 125 GiB on Strix Halo, 121.7 on a GB10.
SEEN_OF_NOMINAL = 0.977


def seen_by_system(nominal_gb: int, carved_bytes: int = 0) -> int:
    """MemTotal of a PC with so many GB of memory, less what its firmware gives to the GPU for good."""
    return max(GIB, round(nominal_gb * GIB * SEEN_OF_NOMINAL) - carved_bytes)


# LPDDR5X of the Grace CPU on the same module (NVIDIA's datasheets). cudaMalloc does not spill into it: the GPU has its
# own memory, and what is offloaded goes there.
GRACE_BYTES = {"GH200": 480 * 10**9, "GH200 144GB": 480 * 10**9, "GB200": 480 * 10**9, "GB300": 480 * 10**9}

# Metal's recommendedMaxWorkingSetSize: 5,461 MiB of 8 GB, 10,922 of 16, 21,845 of 32; 48.0 GiB of 64 GB. macOS 26
# allows more (26.8 GB of 32). `sysctl iogpu.wired_limit_mb` moves it.
_WIRED_SMALL, _WIRED_LARGE, _LARGE_GB = 2 / 3, 3 / 4, 36


def wired_limit(nominal_gb: int) -> int:
    return round(nominal_gb * GIB * (_WIRED_LARGE if nominal_gb >= _LARGE_GB else _WIRED_SMALL))


# GB/s of Apple's chips, from Apple's own pages; of a chip that comes in two speeds the slower.
APPLE_BANDWIDTH = {
    "M1": 68, "M1 PRO": 200, "M1 MAX": 400, "M1 ULTRA": 800, "M2": 100, "M2 PRO": 200, "M2 MAX": 400, "M2 ULTRA": 800,
    "M3": 100, "M3 PRO": 150, "M3 MAX": 300, "M3 ULTRA": 819, "M4": 120, "M4 PRO": 273, "M4 MAX": 410, "M5": 153,
    "M5 PRO": 307, "M5 MAX": 460,
}  # fmt: skip
