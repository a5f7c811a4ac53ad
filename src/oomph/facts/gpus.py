"""Graphics cards: what the driver reports, and what the card can do. A new card is one row.

`total` is what cudaMemGetInfo reports on Linux, the figure every engine starts from. It is less than the nominal
memory and less than nvidia-smi's total, because the driver keeps some for itself: total = nvidia-smi's total - reserved
(`nvidia-smi -q -d MEMORY` prints both). Error correction on GDDR takes 1/16 more, from both. The reserve grows
with the driver: an RTX 3090 went from 24,268 to 24,124 MiB between 2021 and 2026. A row holds what recent drivers
(550 to 610) report, and `source` says which program printed it. Under Windows and WSL2 the reserve is not taken off:
there the total is nvidia-smi's less 1 MiB (24,563 MiB for an RTX 4090).

basis: exact = printed in bytes; measured = printed in MiB or in hundredths of a GiB; assumed = by `reserve` below from
nvidia-smi's total, or as a sister card with the same memory.
"""

import re
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct

from oomph.errors import CommandError
from oomph.facts.unified import seen_by_system, system_memory
from oomph.ir import Device, Vendor
from oomph.text.late import late_pattern
from oomph.units import MIB


class GpuRow(Struct, frozen=True):
    name: str  # ours, short: "RTX 5070 Ti"
    driver_name: str  # as nvidia-smi and torch print it; cards that differ in memory only share one
    nominal_gb: int  # as sold
    smi_bytes: int  # nvidia-smi's total (NVML); 0 = not known, or not reported
    total_bytes: int
    basis: Literal["exact", "measured", "assumed"]
    source: str
    capability: tuple[int, int]  # AMD: as torch derives it from the gfx number (gfx942 -> 9.4)
    bandwidth: int  # bytes per second
    sm_count: int  # AMD: compute units
    fp16_flops: int  # dense, FP32 accumulation, at boost clock
    fp8_flops: int  # 0 = no such units
    fp4_flops: int
    link: str
    unified: bool
    vendor: Vendor
    also: str  # further names, comma-separated; they win over a driver name that several cards share

    def device(self, *, used_bytes: int | None = None, total_bytes: int = 0, ram_bytes: int = 0) -> Device:
        """As an engine sees it; a total that somebody read off the machine replaces the table's.

        Where the memory is the machine's own, what the system holds is in use; `used_bytes` of None is an assumption.
        `ram_bytes`: MemTotal, where the GPU may have a part of it only (Strix Halo).
        """
        total = total_bytes or self.total_bytes
        system = None
        if self.unified:
            ram = ram_bytes or (total if self.sees_system else max(total, seen_by_system(self.nominal_gb)))
            system = system_memory(ram, used_bytes if ram == total else None)
            if used_bytes is None and ram == total:
                used_bytes = system.used_bytes
        return Device(
            name=self.name,
            total_bytes=total,
            capability=self.capability,
            vendor=self.vendor,
            driver_name=self.driver_name,
            used_bytes=used_bytes or 0,
            bandwidth=self.bandwidth,
            sm_count=self.sm_count,
            unified=self.unified,
            total_basis="exact" if total_bytes else self.basis,
            system=system,
            largest_allocation=_LARGEST_ALLOCATION.get(self.name, 0),
        )

    @property
    def sees_system(self) -> bool:
        """CUDA's integrated GPUs report all of the machine's memory; a Radeon what its driver may take of it."""
        return self.unified and self.vendor == "nvidia"


def reserve(smi_bytes: int) -> int:
    """What the driver keeps of `smi_bytes`, where nobody printed it: 360 MiB + 5 MiB a GiB, at most 640 MiB.

    Seen: 352-373 at 8 GiB, 381-413 at 12, 436-461 at 16, 441-483 at 24, 498 at 32, 601-665 at 48, 480-769 at 80,
    586-640 at 96, 615 at 140, 717 at 180.
    """
    return min(640 * MIB, 360 * MIB + 5 * MIB * (smi_bytes >> 30))


# Dense FP16 FLOP per clock and SM with FP32 accumulation, then FP8's and FP4's multiple; GeForce ("half") does half.
# From NVIDIA's architecture whitepapers (GP100 to Blackwell RTX); gives the datasheets' figures: RTX 4090 165 TFLOP/s,
# L40S 366, A100 312, H100 989, RTX PRO 6000 504.
_RATES = {
    60: (256, 0, 0),
    61: (4, 0, 0),
    70: (1024, 0, 0),
    75: (1024, 0, 0),
    80: (2048, 0, 0),
    86: (1024, 0, 0),
    87: (2048, 0, 0),
    89: (1024, 2, 0),
    90: (4096, 2, 0),
    110: (8192, 2, 4),
    120: (1024, 2, 4),
    121: (1024, 2, 4),
}

X, M, A = "exact", "measured", "assumed"
HALF, FULL = "half", "full"
G, GL, N, ADA = "NVIDIA GeForce *", "NVIDIA GeForce * GPU", "NVIDIA *", "NVIDIA * Generation"
INSTINCT, RADEON, INTEL = "AMD Instinct *", "AMD Radeon *", "Intel *"
P3, P4, P48, P5, P58 = "PCIe 3.0 x16", "PCIe 4.0 x16", "PCIe 4.0 x8", "PCIe 5.0 x16", "PCIe 5.0 x8"
NV300, NV600, NV900, NV1800 = "NVLink 300 GB/s", "NVLink 600 GB/s", "NVLink 900 GB/s", "NVLink 1800 GB/s"
IF = "Infinity Fabric"

# name, driver name (* = the name without its memory), GB, nvidia-smi MiB, total (MiB, or bytes where exact; 0 = by
# `reserve`), basis, source, capability, GB/s, SMs, boost MHz, rate (or dense TFLOP/s at 16, 8 and 4 bits), link, also
_ROWS: tuple[tuple[Any, ...], ...] = (
    # GeForce 50
    ("RTX 5090", G, 32, 32607, 33668857856, X, "deviceQuery; 31.35-31.37 GiB", 120, 1792, 170, 2407, HALF, P5, ""),
    ("RTX 5080", G, 16, 16303, 15842, M, "torch: 15.47 GiB", 120, 960, 84, 2617, HALF, P5, ""),
    ("RTX 5070 Ti", G, 16, 16303, 15842, M, "llama.cpp; torch: 15.47 GiB", 120, 896, 70, 2452, HALF, P5, ""),
    ("RTX 5070", G, 12, 12227, 11766, M, "torch: 11.49 GiB", 120, 672, 48, 2512, HALF, P5, ""),
    ("RTX 5060 Ti 16GB", G, 16, 16311, 15850, M, "llama.cpp; 15825-15888", 120, 448, 36, 2572, HALF, P58, ""),
    ("RTX 5060 Ti 8GB", G, 8, 8151, 7690, A, "reserve of the 16GB card", 120, 448, 36, 2572, HALF, P58, ""),
    ("RTX 5060", G, 8, 8151, 7690, A, "reserve of the RTX 5060 Ti", 120, 448, 30, 2497, HALF, P58, ""),
    ("RTX 5050", G, 8, 8151, 7690, A, "reserve of the RTX 5060 Ti", 120, 320, 20, 2572, HALF, P58, ""),
    ("RTX 5090 Laptop", GL, 24, 24463, 0, A, "", 120, 896, 82, 2160, HALF, P5, ""),
    ("RTX 5080 Laptop", GL, 16, 16303, 0, A, "", 120, 896, 60, 2287, HALF, P5, ""),
    ("RTX 5070 Ti Laptop", GL, 12, 12227, 0, A, "", 120, 672, 46, 2220, HALF, P5, ""),
    ("RTX 5070 Laptop", GL, 8, 8151, 0, A, "", 120, 384, 36, 2347, HALF, P5, ""),
    ("RTX 5060 Laptop", GL, 8, 8151, 0, A, "", 120, 384, 26, 2497, HALF, P58, ""),
    ("RTX 5050 Laptop", GL, 8, 8151, 0, A, "", 120, 384, 20, 2662, HALF, P58, ""),
    # GeForce 40
    ("RTX 4090", G, 24, 24564, 25250627584, X, "deviceQuery; older: 23.65", 89, 1008, 128, 2520, HALF, P4, "4090"),
    ("RTX 4090 D", G, 24, 24564, 24081, A, "as RTX 4090", 89, 1008, 114, 2520, HALF, P4, ""),
    ("RTX 4090 48GB", G, 48, 49140, 0, A, "", 89, 1008, 128, 2520, HALF, P4, ""),
    ("RTX 4080 SUPER", G, 16, 16376, 15937, M, "llama.cpp", 89, 736, 80, 2550, HALF, P4, ""),
    ("RTX 4080", G, 16, 16376, 15937, A, "as RTX 4080 SUPER", 89, 717, 76, 2505, HALF, P4, ""),
    ("RTX 4070 Ti SUPER", G, 16, 16376, 15934, M, "torch", 89, 672, 66, 2610, HALF, P4, ""),
    ("RTX 4070 Ti", G, 12, 12282, 11875, A, "as RTX 4070", 89, 504, 60, 2610, HALF, P4, ""),
    ("RTX 4070 SUPER", G, 12, 12282, 11875, A, "as RTX 4070", 89, 504, 56, 2475, HALF, P4, ""),
    ("RTX 4070", G, 12, 12282, 11875, M, "llama.cpp; 11866-11903", 89, 504, 46, 2475, HALF, P4, ""),
    ("RTX 4060 Ti 16GB", G, 16, 16380, 16722821120, X, "deviceQuery", 89, 288, 34, 2535, HALF, P48, ""),
    ("RTX 4060 Ti 8GB", G, 8, 8188, 7815, A, "as RTX 4060 Laptop", 89, 288, 34, 2535, HALF, P48, ""),
    ("RTX 4060", G, 8, 8188, 7815, A, "as RTX 4060 Laptop", 89, 272, 24, 2460, HALF, P48, ""),
    ("RTX 4090 Laptop", GL, 16, 16376, 0, A, "", 89, 576, 76, 2040, HALF, P4, ""),
    ("RTX 4080 Laptop", GL, 12, 12282, 0, A, "", 89, 432, 58, 2280, HALF, P4, ""),
    ("RTX 4070 Laptop", GL, 8, 8188, 7815, A, "as RTX 4060 Laptop", 89, 256, 36, 2175, HALF, P48, ""),
    ("RTX 4060 Laptop", GL, 8, 8188, 7815, M, "llama.cpp; torch: 7.63 GiB", 89, 256, 24, 2370, HALF, P48, ""),
    ("RTX 4050 Laptop", GL, 6, 6141, 0, A, "", 89, 192, 20, 2370, HALF, P48, ""),
    # GeForce 30
    ("RTX 3090 Ti", G, 24, 24564, 24112, M, "llama.cpp; 24112-24142", 86, 1008, 84, 1860, HALF, P4, ""),
    ("RTX 3090", G, 24, 24576, 24124, M, "llama.cpp; 23.56 GiB, older: 23.70", 86, 936, 82, 1695, HALF, P4, ""),
    ("RTX 3080 Ti", G, 12, 12288, 0, A, "", 86, 912, 80, 1665, HALF, P4, ""),
    ("RTX 3080 12GB", G, 12, 12288, 0, A, "", 86, 912, 70, 1710, HALF, P4, ""),
    ("RTX 3080 10GB", G, 10, 10240, 9871, M, "torch: 9.64 GiB", 86, 760, 68, 1710, HALF, P4, "RTX 3080"),
    ("RTX 3080 20GB", G, 20, 20480, 20050, M, "torch: 19.58 GiB", 86, 760, 68, 1710, HALF, P4, ""),
    ("RTX 3070 Ti", G, 8, 8192, 7840, M, "llama.cpp", 86, 608, 48, 1770, HALF, P4, ""),
    ("RTX 3070", G, 8, 8192, 7819, M, "llama.cpp", 86, 448, 46, 1725, HALF, P4, ""),
    ("RTX 3060 Ti", G, 8, 8192, 7819, A, "as RTX 3070", 86, 448, 38, 1665, HALF, P4, ""),
    ("RTX 3060 12GB", G, 12, 12288, 11907, M, "llama.cpp; torch: 11.63", 86, 360, 28, 1777, HALF, P4, "RTX 3060"),
    ("RTX 3060 8GB", G, 8, 8192, 7819, A, "as RTX 3070", 86, 240, 28, 1777, HALF, P4, ""),
    ("RTX 3050 8GB", G, 8, 8192, 7819, A, "as RTX 3070", 86, 224, 20, 1777, HALF, P48, "RTX 3050"),
    ("RTX 3050 6GB", G, 6, 6144, 0, A, "", 86, 168, 18, 1470, HALF, P48, ""),
    ("RTX 3080 Ti Laptop", GL, 16, 16384, 0, A, "", 86, 512, 58, 1590, HALF, P4, ""),
    ("RTX 3080 Laptop 16GB", "NVIDIA GeForce RTX 3080 Laptop GPU", 16, 16384, 0, A, "", 86, 448, 48, 1710, HALF, P4,
     ""),
    ("RTX 3080 Laptop 8GB", "NVIDIA GeForce RTX 3080 Laptop GPU", 8, 8192, 0, A, "", 86, 448, 48, 1710, HALF, P4, ""),
    ("RTX 3070 Ti Laptop", GL, 8, 8192, 7850, M, "llama.cpp", 86, 448, 46, 1485, HALF, P4, ""),
    ("RTX 3070 Laptop", GL, 8, 8192, 7850, A, "as RTX 3070 Ti Laptop", 86, 448, 40, 1620, HALF, P4, ""),
    ("RTX 3060 Laptop", GL, 6, 6144, 0, A, "", 86, 336, 30, 1703, HALF, P4, ""),
    ("RTX 3050 Laptop", GL, 4, 4096, 0, A, "", 86, 192, 16, 1500, HALF, P48, ""),
    # GeForce 20, 16, 10 and TITAN
    ("RTX 2080 Ti", G, 11, 11264, 10824, M, "torch: 10.57; older: 10.76", 75, 616, 68, 1545, HALF, P3, "RTX 2080 Ti"),
    ("RTX 2080 Ti 22GB", G, 22, 22528, 21996, M, "torch: 21.48 GiB", 75, 616, 68, 1545, HALF, P3, ""),
    ("RTX 2080 SUPER", G, 8, 8192, 7965, A, "as RTX 2060 SUPER", 75, 496, 48, 1815, HALF, P3, ""),
    ("RTX 2080", G, 8, 8192, 7965, A, "as RTX 2060 SUPER", 75, 448, 46, 1710, HALF, P3, ""),
    ("RTX 2070 SUPER", G, 8, 8192, 7965, A, "as RTX 2060 SUPER", 75, 448, 40, 1770, HALF, P3, ""),
    ("RTX 2070", G, 8, 8192, 7965, A, "as RTX 2060 SUPER", 75, 448, 36, 1620, HALF, P3, ""),
    ("RTX 2060 SUPER", G, 8, 8192, 8352038912, X, "deviceQuery", 75, 448, 34, 1650, HALF, P3, ""),
    ("RTX 2060 12GB", G, 12, 12288, 11833, M, "llama.cpp", 75, 336, 34, 1650, HALF, P3, ""),
    ("RTX 2060", G, 6, 6144, 0, A, "", 75, 336, 30, 1680, HALF, P3, "RTX 2060"),
    ("GTX 1660 Ti", G, 6, 6144, 5747, M, "llama.cpp", 75, 288, 24, 1770, (10.9, 0, 0), P3, ""),
    ("GTX 1660 SUPER", G, 6, 6144, 5747, A, "as GTX 1660 Ti", 75, 336, 22, 1785, (10.1, 0, 0), P3, ""),
    ("GTX 1660", G, 6, 6144, 5747, A, "as GTX 1660 Ti", 75, 192, 22, 1785, (10.1, 0, 0), P3, ""),
    ("GTX 1650", G, 4, 4096, 3712, M, "llama.cpp", 75, 128, 14, 1665, (6.0, 0, 0), P3, ""),
    ("GTX 1080 Ti", G, 11, 11264, 11165, M, "llama.cpp; 11165-11178", 61, 484, 28, 1582, FULL, P3, ""),
    ("GTX 1080", G, 8, 8192, 8107, M, "llama.cpp; 8098-8118", 61, 320, 20, 1733, FULL, P3, ""),
    ("GTX 1070 Ti", G, 8, 8192, 8110, M, "TensorFlow: 7.92 GiB", 61, 256, 19, 1683, FULL, P3, ""),
    ("GTX 1070", G, 8, 8192, 8504279040, X, "deviceQuery; 8110-8114 MiB", 61, 256, 15, 1683, FULL, P3, ""),
    ("GTX 1060 6GB", "NVIDIA GeForce GTX 1060 6GB", 6, 6144, 6063, M, "llama.cpp", 61, 192, 10, 1708, FULL, P3,
     "GTX 1060"),
    ("GTX 1050 Ti", G, 4, 4096, 4038, M, "llama.cpp", 61, 112, 6, 1392, FULL, P3, ""),
    ("TITAN RTX", N, 24, 24576, 25364987904, X, "deviceQuery, 2019", 75, 672, 72, 1770, FULL, P3, ""),
    ("TITAN V", N, 12, 12288, 12066, A, "reserve of the V100", 70, 653, 80, 1455, FULL, P3, ""),
    ("TITAN Xp", N, 12, 12288, 12193, A, "as TITAN X", 61, 548, 30, 1582, FULL, P3, ""),
    ("TITAN X", "NVIDIA TITAN X (Pascal)", 12, 12288, 12193, M, "torch", 61, 480, 28, 1531, FULL, P3, "TITAN X Pascal"),
    # Workstation. RTX A6000, 6000 Ada and A40 lose 1/16 more with error correction on (46,068 MiB in nvidia-smi).
    ("RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 96, 97887, 97247, M,
     "llama.cpp; torch: 94.97 GiB", 120, 1792, 188, 2617, FULL, P5, "RTX PRO 6000 Blackwell"),
    ("RTX PRO 6000 Max-Q", "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 96, 97887, 97247, M,
     "llama.cpp; torch: 94.97 GiB", 120, 1792, 188, 2280, FULL, P5, ""),
    ("RTX PRO 6000 Server", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 96, 97887, 97250, M,
     "torch", 120, 1597, 188, 2493, FULL, P5, ""),
    ("RTX PRO 5000 72GB", "NVIDIA RTX PRO 5000 Blackwell", 72, 73415, 0, A, "", 120, 1344, 110, 2377, FULL, P5, ""),
    ("RTX PRO 5000", "NVIDIA * Blackwell", 48, 48935, 0, A, "", 120, 1344, 110, 2377, FULL, P5, "RTX PRO 5000 48GB"),
    ("RTX PRO 4500", "NVIDIA * Blackwell", 32, 32623, 0, A, "", 120, 896, 82, 2511, FULL, P5, ""),
    ("RTX PRO 4000", "NVIDIA * Blackwell", 24, 24467, 0, A, "", 120, 672, 70, 2054, FULL, P5, ""),
    ("RTX PRO 2000", "NVIDIA * Blackwell", 16, 16311, 15850, A, "as RTX 5060 Ti", 120, 288, 34, 1957, FULL, P58, ""),
    ("RTX 6000 Ada", ADA, 48, 49140, 48622, M, "torch", 89, 960, 142, 2505, FULL, P4, "6000 Ada"),
    ("RTX 5000 Ada", ADA, 32, 32760, 0, A, "", 89, 576, 100, 2550, FULL, P4, ""),
    ("RTX 4500 Ada", ADA, 24, 24570, 0, A, "", 89, 432, 60, 2580, FULL, P4, ""),
    ("RTX 4000 Ada", ADA, 20, 20475, 0, A, "", 89, 360, 48, 2175, FULL, P4, ""),
    ("RTX 4000 SFF Ada", ADA, 20, 20475, 0, A, "", 89, 280, 48, 1560, FULL, P4, ""),
    ("RTX 2000 Ada", ADA, 16, 16380, 15944, A, "as RTX 4060 Ti", 89, 224, 22, 2130, FULL, P48, ""),
    ("RTX 2000 Ada Laptop", "NVIDIA RTX 2000 Ada Generation Laptop GPU", 8, 8188, 7807, M, "llama.cpp", 89, 256, 24,
     2115,
     FULL, P48, ""),
    ("RTX A6000", N, 48, 49140, 48538, M, "torch: 47.40 GiB; 47.27-47.53", 86, 768, 84, 1800, FULL, P4, ""),
    ("RTX A5500", N, 24, 24564, 24114, A, "as RTX A5000", 86, 768, 80, 1665, FULL, P4, ""),
    ("RTX A5000", N, 24, 24564, 24114, M, "torch; 24114-24138", 86, 768, 64, 1695, FULL, P4, ""),
    ("RTX A4500", N, 20, 20470, 0, A, "", 86, 640, 56, 1650, FULL, P4, ""),
    ("RTX A4000", N, 16, 16376, 0, A, "", 86, 448, 48, 1560, FULL, P4, ""),
    ("RTX A2000 12GB", "NVIDIA RTX A2000 12GB", 12, 12282, 0, A, "", 86, 288, 26, 1200, FULL, P4, ""),
    ("RTX A2000 6GB", N, 6, 6138, 0, A, "", 86, 288, 26, 1200, FULL, P4, ""),
    ("Quadro RTX 8000", "*", 48, 49152, 48601, M, "torch", 75, 672, 72, 1770, FULL, P3, ""),
    ("Quadro RTX 6000", "*", 24, 24576, 24218, M, "TensorFlow: 23.65 GiB", 75, 672, 72, 1770, FULL, P3, ""),
    ("Quadro RTX 5000", "*", 16, 16384, 15927, M, "llama.cpp; 14910 with ECC", 75, 448, 48, 1815, FULL, P3, ""),
    # Data centre, Pascal to Ada
    ("P100 16GB", "Tesla P100-PCIE-16GB", 16, 16384, 16280, M, "torch", 60, 732, 56, 1303, FULL, P3, "P100"),
    ("P40", "Tesla P40", 24, 23040, 22917, A, "ECC on, reserve of Pascal", 61, 347, 30, 1531, FULL, P3, ""),
    ("V100 SXM2 32GB", "Tesla V100-SXM2-32GB", 32, 32768, 32494, M, "llama.cpp", 70, 900, 80, 1530, FULL, NV300,
     "V100 32GB"),
    ("V100 SXM2 16GB", "Tesla V100-SXM2-16GB", 16, 16384, 16160, M, "torch", 70, 900, 80, 1530, FULL, NV300,
     "V100 16GB"),
    ("V100 PCIe 32GB", "Tesla V100-PCIE-32GB", 32, 32768, 32494, M, "llama.cpp", 70, 900, 80, 1380, FULL, P3, ""),
    ("V100 PCIe 16GB", "Tesla V100-PCIE-16GB", 16, 16384, 16160, M, "torch", 70, 900, 80, 1380, FULL, P3, ""),
    ("T4", "Tesla T4", 16, 15360, 15642329088, X, "deviceQuery; ECC off: 15,109 MiB", 75, 320, 40, 1590, FULL, P3, ""),
    ("A2", N, 16, 15356, 0, A, "", 86, 200, 10, 1770, FULL, P48, ""),
    ("A10", N, 24, 23028, 23696375808, X, "deviceQuery", 86, 600, 72, 1695, FULL, P4, ""),
    ("A10G", N, 24, 23028, 22587, M, "torch; 21.98-22.07 GiB", 86, 600, 80, 1710, HALF, P4, ""),
    ("A16", N, 16, 15356, 0, A, "one of four", 86, 200, 10, 1755, FULL, P4, ""),
    ("A30", N, 24, 24576, 0, A, "", 80, 933, 56, 1440, FULL, P4, ""),
    ("A40", N, 48, 46068, 47608692736, X, "deviceQuery, ECC on", 86, 696, 84, 1740, FULL, P4, ""),
    ("A100 SXM 40GB", "NVIDIA A100-SXM4-40GB", 40, 40960, 40441, M, "torch: 39.49 GiB; 39.38-39.56", 80, 1555, 108,
     1410,
     FULL, NV600, "A100 40GB,A100 SXM4 40GB"),
    ("A100 SXM 80GB", "NVIDIA A100-SXM4-80GB", 80, 81920, 81151, M, "llama.cpp; torch: 79.25 GiB", 80, 2039, 108, 1410,
     FULL, NV600, "A100 80GB,A100 SXM4 80GB"),
    ("A100 PCIe 40GB", "NVIDIA A100-PCIE-40GB", 40, 40960, 42405855232, X, "deviceQuery", 80, 1555, 108, 1410, FULL,
     P4, ""),
    ("A100 PCIe 80GB", "NVIDIA A100 80GB PCIe", 80, 81920, 84974239744, X, "deviceQuery", 80, 1935, 108, 1410, FULL,
     P4, ""),
    ("A800 80GB", "NVIDIA A800-SXM4-80GB", 80, 81920, 81151, A, "as A100 SXM 80GB", 80, 2039, 108, 1410, FULL,
     "NVLink 400 GB/s", "A800"),
    ("L4", N, 24, 23034, 22559, M, "torch: 22.03 GiB; 21.96-22.05", 89, 300, 58, 2040, FULL, P4, ""),
    ("L20", N, 48, 46068, 45457, M, "llama.cpp", 89, 864, 92, 2520, FULL, P4, ""),
    ("L40", N, 48, 46068, 45467, A, "as L40S", 89, 864, 142, 2490, FULL, P4, ""),
    ("L40S", N, 48, 46068, 45467, M, "llama.cpp; torch: 44.40 GiB", 89, 864, 142, 2520, FULL, P4, ""),
    # Data centre, Hopper and Blackwell
    ("H100 SXM", "NVIDIA H100 80GB HBM3", 80, 81559, 85017755648, X, "deviceQuery; 79.10-79.21 GiB", 90, 3352, 132,
     1830,
     FULL, NV900, "H100,H100 SXM5,H100 80GB,H100 SXM 80GB,H100 SXM5 80GB"),
    ("H100 PCIe", "NVIDIA H100 PCIe", 80, 81559, 81008, M, "torch", 90, 2039, 114, 1620, FULL, P5, "H100 PCIe 80GB"),
    ("H100 NVL", "NVIDIA H100 NVL", 94, 95830, 95334, M, "torch: 93.10 GiB; 93.02-93.10", 90, 3938, 132, 1545, FULL, P5,
     "H100 NVL 94GB"),
    ("H800", "NVIDIA H800", 80, 81559, 81079, A, "as H100 SXM", 90, 3352, 132, 1830, FULL, "NVLink 400 GB/s", ""),
    ("H20", "NVIDIA H20", 96, 97871, 97285, M, "torch", 90, 4000, 78, 1980, (148, 296, 0), NV900, "H20 96GB"),
    ("H20 141GB", "NVIDIA H20-3e", 141, 143771, 143156, A, "as H200", 90, 4800, 78, 1980, (148, 296, 0), NV900,
     "H20 3e"),
    ("H200", "NVIDIA H200", 141, 143771, 150109880320, X, "cudaMemGetInfo", 90, 4800, 132, 1830, FULL, NV900,
     "H200 SXM,H200 141GB,H200 SXM5"),
    ("H200 NVL", "NVIDIA H200 NVL", 141, 143771, 143156, A, "as H200", 90, 4800, 132, 1545, FULL, P5, ""),
    ("GH200", "NVIDIA GH200 480GB", 96, 97871, 96768, A, "torch: 94.50 GiB, card not named", 90, 4000, 132, 1830, FULL,
     NV900, "GH200 96GB"),
    ("GH200 144GB", "NVIDIA GH200 144G HBM3e", 144, 0, 143000, A, "as H200", 90, 4900, 132, 1830, FULL, NV900, ""),
    ("B100", "NVIDIA B100", 180, 183359, 182631, A, "as B200", 100, 8000, 148, 0, (1750, 3500, 7000), NV1800, ""),
    ("B200", "NVIDIA B200", 180, 183359, 182631, M, "torch: 178.35 GiB", 100, 8000, 148, 0, (2250, 4500, 9000), NV1800,
     "B200 SXM,HGX B200"),
    ("B300", "NVIDIA B300 SXM6 AC", 288, 275040, 274115, M, "torch: 267.69 GiB", 103, 8000, 148, 0, (2250, 4500, 13500),
     NV1800, "B300 SXM,HGX B300"),
    ("GB200", "NVIDIA GB200", 186, 189471, 188733, M, "torch: 184.31 GiB", 100, 8000, 152, 0, (2500, 5000, 10000),
     NV1800,
     "GB200 NVL72"),
    ("GB300", "NVIDIA GB300", 288, 284208, 283136, M, "torch: 276.50 GiB", 103, 8000, 152, 0, (2500, 5000, 15000),
     NV1800,
     "GB300 NVL72"),
    # Memory shared with the CPU: the total is the machine's (MemTotal), so it moves with kernel and firmware
    ("GB10", "NVIDIA GB10", 128, 0, 124610, M, "llama.cpp; 119.6-121.7 GiB", 121, 273, 48, 2525, FULL, "C2C",
     "DGX Spark,Spark,ASUS Ascent GX10"),
    ("Jetson Thor", "NVIDIA Thor", 128, 0, 131881680896, X, "deviceQuery; 122.6-122.8 GiB", 110, 273, 20, 1575, FULL,
     "SoC",
     "Thor,AGX Thor,Jetson AGX Thor"),
    ("Jetson AGX Orin 64GB", "Orin", 64, 0, 62827, M, "llama.cpp", 87, 205, 16, 1300, FULL, "SoC",
     "AGX Orin 64GB,Jetson Orin 64GB,Orin 64GB"),
    ("Jetson AGX Orin 32GB", "Orin", 32, 0, 30800, A, "94 % of nominal", 87, 205, 14, 930, FULL, "SoC",
     "AGX Orin 32GB,Jetson Orin 32GB,Orin 32GB"),
    ("Jetson Orin NX 16GB", "Orin", 16, 0, 15400, A, "94 % of nominal", 87, 102, 8, 918, FULL, "SoC", "Orin NX 16GB"),
    ("Jetson Orin Nano 8GB", "Orin", 8, 0, 7607, M, "llama.cpp", 87, 102, 8, 1020, FULL, "SoC",
     "Orin Nano,Jetson Orin Nano,Orin Nano 8GB"),
    ("Jetson Orin NX 8GB", "Orin", 8, 0, 7607, A, "as Orin Nano", 87, 102, 8, 765, FULL, "SoC", "Orin NX 8GB"),
    # AMD: the driver keeps 16 MiB (RDNA 4: 80 MiB), so totals are nominal less that. No MHz: datasheet TFLOP/s.
    ("MI355X", INSTINCT, 288, 0, 294896, M, "torch: 287.98 GiB", 95, 8000, 256, 0, (2517, 5033, 10066), IF, ""),
    ("MI350X", INSTINCT, 288, 0, 294896, M, "torch: 287.98 GiB", 95, 8000, 256, 0, (2307, 4614, 9227), IF, ""),
    ("MI325X", INSTINCT, 256, 0, 262128, M, "torch: 255.98; 255.69-255.98", 94, 6000, 304, 0, (1307, 2615, 0), IF, ""),
    ("MI300X", INSTINCT, 192, 0, 196592, M, "torch; 191.69-191.98 GiB", 94, 5300, 304, 0, (1307, 2615, 0), IF,
     "MI300X OAM"),
    ("MI300A", INSTINCT, 128, 0, 131056, A, "nominal less 16 MiB", 94, 5300, 228, 0, (981, 1961, 0), IF, ""),
    ("MI250X", "AMD Instinct MI250X/MI250", 64, 0, 65520, M, "torch, one of two dies", 90, 1638, 110, 0, (192, 0, 0),
     IF,
     "MI250X GCD"),
    ("MI250", "AMD Instinct MI250X/MI250", 64, 0, 65520, M, "torch, one of two dies", 90, 1638, 104, 0, (181, 0, 0),
     IF, ""),
    ("MI210", INSTINCT, 64, 0, 65520, M, "llama.cpp", 90, 1638, 104, 0, (181, 0, 0), P4, ""),
    ("MI100", INSTINCT, 32, 0, 32752, A, "nominal less 16 MiB", 90, 1229, 120, 0, (185, 0, 0), P4, ""),
    ("MI60", "AMD Instinct MI60 / MI50", 32, 0, 32752, M, "llama.cpp", 90, 1024, 64, 0, (29.5, 0, 0), P4, "MI50 32GB"),
    ("MI50", "AMD Instinct MI60 / MI50", 16, 0, 16368, M, "llama.cpp", 90, 1024, 60, 0, (26.5, 0, 0), P4, "MI50 16GB"),
    ("Radeon AI PRO R9700", "AMD *", 32, 0, 32624, M, "llama.cpp", 120, 640, 64, 0, (191, 383, 0), P5,
     "R9700,AI PRO R9700"),
    ("RX 9070 XT", RADEON, 16, 0, 16304, A, "as RX 9060 XT", 120, 640, 64, 0, (195, 389, 0), P5, ""),
    ("RX 9070", RADEON, 16, 0, 16304, A, "as RX 9060 XT", 120, 640, 56, 0, (145, 289, 0), P5, ""),
    ("RX 9060 XT 16GB", RADEON, 16, 0, 16304, M, "llama.cpp", 120, 320, 32, 0, (103, 205, 0), P5, ""),
    ("RX 9060 XT 8GB", RADEON, 8, 0, 8112, A, "nominal less 80 MiB", 120, 320, 32, 0, (103, 205, 0), P5, ""),
    ("Radeon PRO W7900", "AMD *", 48, 0, 46064, M, "torch: 44.98 GiB", 110, 864, 96, 0, (123, 0, 0), P4, "W7900"),
    ("Radeon PRO W7800", "AMD *", 32, 0, 32752, A, "nominal less 16 MiB", 110, 576, 70, 0, (90, 0, 0), P4, "W7800"),
    ("RX 7900 XTX", RADEON, 24, 0, 24560, M, "llama.cpp", 110, 960, 96, 0, (123, 0, 0), P4, ""),
    ("RX 7900 XT", RADEON, 20, 0, 20464, M, "torch: 19.98 GiB", 110, 800, 84, 0, (103, 0, 0), P4, ""),
    ("RX 7900 GRE", RADEON, 16, 0, 16368, A, "nominal less 16 MiB", 110, 576, 80, 0, (92, 0, 0), P4, ""),
    ("RX 7800 XT", RADEON, 16, 0, 16368, A, "nominal less 16 MiB", 110, 624, 60, 0, (75, 0, 0), P4, ""),
    ("RX 7600 XT", RADEON, 16, 0, 16368, A, "nominal less 16 MiB", 110, 288, 32, 0, (45, 0, 0), P48, ""),
    ("RX 6900 XT", RADEON, 16, 0, 16368, A, "as RX 6800", 103, 512, 80, 0, (46, 0, 0), P4, ""),
    ("RX 6800 XT", RADEON, 16, 0, 16368, A, "as RX 6800", 103, 512, 72, 0, (41, 0, 0), P4, ""),
    ("RX 6800", RADEON, 16, 0, 16368, M, "llama.cpp", 103, 512, 60, 0, (32, 0, 0), P4, ""),
    ("RX 6700 XT", RADEON, 12, 0, 12272, M, "llama.cpp", 103, 384, 40, 0, (26, 0, 0), P4, ""),
    ("Ryzen AI Max+ 395", "Radeon 8060S Graphics", 128, 0, 63967, M, "llama.cpp; the driver's default, half the RAM",
     115,
     256, 40, 0, (59, 0, 0), "SoC", "Strix Halo,Radeon 8060S,8060S"),
    # Intel: what Level Zero reports is not posted for most of them; nominal less 2.5 % then. Datasheet TFLOP/s.
    ("Arc A750", INTEL, 8, 0, 7987, A, "nominal less 2.5 %", 0, 512, 28, 0, (138, 0, 0), P4, "A750"),
    ("Arc A770 16GB", "Intel Arc A770", 16, 0, 15974, A, "nominal less 2.5 %", 0, 560, 32, 0, (157, 0, 0), P4,
     "Arc A770,A770"),
    ("Arc B570", INTEL, 10, 0, 9984, A, "nominal less 2.5 %", 0, 380, 18, 0, (80, 0, 0), P48, "B570"),
    ("Arc B580", INTEL, 12, 0, 11981, A, "nominal less 2.5 %", 0, 456, 20, 0, (117, 0, 0), P48, "B580"),
    ("Arc Pro B50", INTEL, 16, 0, 15974, A, "nominal less 2.5 %", 0, 224, 16, 0, (85, 0, 0), P58, "B50"),
    ("Arc Pro B60", INTEL, 24, 0, 23962, A, "nominal less 2.5 %", 0, 456, 20, 0, (99, 0, 0), P58, "B60"),
    ("Arc Pro B65", INTEL, 32, 0, 32656, A, "as Arc Pro B70", 0, 608, 20, 0, (99, 0, 0), P5, "B65"),
    ("Arc Pro B70", INTEL, 32, 0, 32656, M, "llama.cpp (SYCL)", 0, 608, 32, 0, (184, 0, 0), P5, "B70"),
    ("Max 1100", "Intel Data Center GPU *", 48, 0, 48128, A, "nominal less 2 %", 0, 1229, 56, 0, (362, 0, 0), P5,
     "GPU Max 1100,Ponte Vecchio 1100"),
    ("Max 1550", "Intel Data Center GPU *", 128, 0, 128450, A, "nominal less 2 %", 0, 3277, 128, 0, (832, 0, 0), P5,
     "GPU Max 1550,Ponte Vecchio 1550"),
    ("Gaudi 2", "Intel *", 96, 0, 96768, A, "94.5 GiB, hl-smi", 0, 2450, 24, 0, (432, 865, 0), "RoCE", "Gaudi2,HL-225"),
    ("Gaudi 3", "Intel *", 128, 0, 129024, A, "126 GiB, by Gaudi 2", 0, 3700, 64, 0, (1835, 1835, 0), "RoCE",
     "Gaudi3,HL-325"),
)  # fmt: skip

# Bytes that one allocation may have. Arc A: 4 GiB unless UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS is set; B65 and B70
# refuse more than 19.3 GB although they report 30.3 (llama.cpp PR 28953, which allocates in parts since).
_LARGEST_ALLOCATION = {
    "Arc A750": 4 << 30, "Arc A770 16GB": 4 << 30, "Arc Pro B65": 19_300_000_000, "Arc Pro B70": 19_300_000_000,
}  # fmt: skip

_UNIFIED = {"C2C", "SoC"}
_AMD = ("AMD ", "Radeon ")


@lru_cache(1)
def rows() -> tuple[GpuRow, ...]:
    return tuple(_decode(*row) for row in _ROWS)


def _decode(
    name: str, driver: str, gb: int, smi_mib: int, total: int, basis: Literal["exact", "measured", "assumed"],
    source: str, capability: int, gb_per_s: int, sms: int, mhz: int, rate: Any, link: str, also: str,
) -> GpuRow:  # fmt: skip
    smi = smi_mib * MIB
    if not total:
        total = smi - reserve(smi)
        source = "; ".join(filter(None, (source, "nvidia-smi's total less the usual reserve")))
    elif basis != "exact":
        total *= MIB
    if isinstance(rate, tuple):
        flops = [round(tera * 1e12) for tera in rate]
    else:
        per_clock, fp8, fp4 = _RATES[capability]
        fp16 = per_clock * sms * mhz * 1_000_000 // (2 if rate == HALF else 1)
        # FP4 has one accumulator everywhere: GeForce does not halve it (RTX 5090: 1676 TFLOP/s, FP16 210).
        flops = [fp16, fp16 * fp8, fp16 * fp4 * (2 if rate == HALF else 1)]
    driver_name = driver.replace("*", re.sub(r" \d+GB$", "", name) if name.endswith("GB") else name)
    return GpuRow(
        name, driver_name, gb, smi, total, basis, source, divmod(capability, 10), gb_per_s * 10**9, sms,
        flops[0], flops[1], flops[2], link, link in _UNIFIED or name == "MI300A",
        _vendor(driver_name), also,
    )  # fmt: skip


def _vendor(driver_name: str) -> Vendor:
    if driver_name.startswith("Intel "):
        return "intel"
    return "amd" if driver_name.startswith(_AMD) else "nvidia"


_NOISE = late_pattern(
    "nvidia|geforce|intel|datacenter|amd|radeon|instinct|tesla|(?<!titan)rtx|gtx|nvgpu|gpu|generation|edition|blackwell|workstation|graphics"
)


def _key(text: str) -> str:
    """'NVIDIA GeForce RTX 5070 Ti', 'rtx-5070-ti' and '5070ti' -> '5070ti'."""
    squashed = re.sub(r"[^a-z0-9]", "", text.lower())
    key = _NOISE.sub("", squashed).removeprefix("rx").replace("gib", "gb")
    return re.sub(r"(?<=\d)g$", "gb", key)


@lru_cache(1)
def _index() -> tuple[dict[str, GpuRow], dict[str, list[GpuRow]]]:
    """Keys that mean one card, and keys (driver names, names without their memory) that several may share."""
    own: dict[str, GpuRow] = {}
    shared: dict[str, list[GpuRow]] = {}
    for row in rows():
        for text in (row.name, *filter(None, row.also.split(","))):
            key = _key(text)
            for variant in (key, key.removesuffix("gb")):
                own.setdefault(variant, row)
        for text in (row.driver_name, re.sub(r" \d+GB$", "", row.name)):
            same = shared.setdefault(_key(text), [])
            if row not in same:
                same.append(row)
    return own, shared


@lru_cache(1)
def _by_name() -> dict[str, tuple[Any, ...]]:
    names: dict[str, tuple[Any, ...]] = {}
    for row in _ROWS:
        for name in (row[0], *filter(None, row[-1].split(","))):
            names.setdefault(name, row)
    return names


def named(text: str) -> GpuRow | None:
    """The card that is called exactly so. Most are: it takes no index of every spelling."""
    row = _by_name().get(text)
    return None if row is None else _decode(*row)


def find(text: str, *, near: int = 0) -> GpuRow:
    """The card people mean by `text`. `near`, its total in bytes where known, tells an 8 GB from a 16 GB variant."""
    if not near and (row := named(text)) is not None:
        return row
    key = _key(text[:200])
    own, shared = _index()
    same = shared.get(key, [])
    if near and len(same) > 1:
        return min(same, key=lambda row: abs(row.total_bytes - near))
    if key in own:
        return own[key]
    same = same or _with_memory(key) or _begun(key)
    if len(same) == 1:
        return same[0]
    if same:
        names = [row.name for row in same[:6]]
        raise CommandError(f"GPU {_shown(text)} could be {', '.join(names[:-1])} or {names[-1]}: say which")
    raise _unknown(text, key)


def _with_memory(key: str) -> list[GpuRow]:
    """'RTX 4090 24GB': a card that comes in one size, written with it."""
    own, shared = _index()
    for digits in (3, 2, 1):
        match = re.fullmatch(rf"(.+?)(\d{{{digits}}})gb", key)
        rows = [own[match[1]]] if match and match[1] in own else shared.get(match[1], []) if match else []
        if match and (fitting := [row for row in rows if row.nominal_gb == int(match[2])]):
            return fitting
    return []


def _begun(key: str) -> list[GpuRow]:
    """'A100', 'TITAN', 'Jetson Orin' begin several names, '6000' is in several. Not '309': a number is whole."""
    if len(key) < 3:
        return []
    part = re.escape(key) + (r"(?!\d)" if key[-1].isdigit() else "")
    pattern = re.compile(rf"(?<!\d){part}" if key.isdigit() else f"^{part}")
    return list(dict.fromkeys(row for name, row in _index()[0].items() if pattern.search(name)))


def _unknown(text: str, key: str) -> CommandError:
    from difflib import SequenceMatcher

    def likeness(row: GpuRow) -> float:
        matcher = SequenceMatcher(None, key, _key(row.name))
        if matcher.quick_ratio() < 0.5:
            return 0.0
        first = matcher.find_longest_match()
        return matcher.ratio() + (0.3 * first.size / len(key) if first.a == first.b == 0 else 0)

    close = sorted(((likeness(row), row.name) for row in rows()), reverse=True)[:3]
    names = [name for score, name in close if score >= 0.55]
    meant = f"did you mean {' or '.join(names)}?" if names else 'a size will do: "2x24GiB"'
    return CommandError(f"GPU {_shown(text)} is not in the table; {meant}")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
