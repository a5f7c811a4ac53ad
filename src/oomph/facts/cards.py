# ruff: noqa: E501 - a row is a line
"""Graphics cards, a row each: what the driver reports, what the card can do, and how it is sold. A new card is one row.

`total` is what cudaMemGetInfo reports on Linux, the figure every engine starts from. It is less than the nominal
memory and less than nvidia-smi's total, because the driver keeps some for itself: total = nvidia-smi's total - reserved
(`nvidia-smi -q -d MEMORY` prints both). Error correction on GDDR takes 1/16 more, from both. The reserve grows
with the driver: an RTX 3090 went from 24,268 to 24,124 MiB between 2021 and 2026. A row holds what recent drivers
(550 to 610) report, and `source` says which program printed it. Under Windows and WSL2 the reserve is not taken off:
there the total is nvidia-smi's less 1 MiB (24,563 MiB for an RTX 4090).
"""

from typing import Literal

from msgspec import Struct

Basis = Literal["exact", "measured", "assumed"]
Market = Literal["", "desktop", "server", "single"]


class Card(Struct, frozen=True):
    """A row as it is written; facts/gpus.py makes a GpuRow of it."""

    name: str  # ours, short: "RTX 5070 Ti"
    driver: str  # as nvidia-smi and torch print it; * = the name without its memory
    gb: int  # as sold
    sm: int  # compute capability; AMD: as torch derives it from the gfx number
    gb_per_s: int
    sms: int  # AMD: compute units
    link: str
    smi: int = 0  # nvidia-smi's total in MiB; 0 = not known, or not reported
    total: int = 0  # MiB, or bytes where exact; 0 = by `reserve` of facts/gpus.py
    # exact = printed in bytes; measured = printed in MiB or in hundredths of a GiB; assumed = by `reserve` from
    # nvidia-smi's total, or as a sister card with the same memory
    basis: Basis = "assumed"
    source: str = ""
    mhz: int = 0  # boost clock
    rate: Literal["half", "full"] = "full"  # GeForce cards sum in FP32 at half the rate
    tflops: tuple[float, float, float] | None = None  # dense at 16, 8 and 4 bits, of a datasheet, instead of the clock
    # Inductor times its kernels over a buffer as large as the L2 cache (torch/_inductor/runtime/benchmarking.py): the
    # H200's was seen in a trace, the others are from NVIDIA's architecture whitepapers; 0 = not known
    l2_mib: int = 0
    # What shops, second-hand markets and clouds offer in quantity in November 2026; "" = legacy cards, modified ones,
    # laptops, boards for one country: looked at with --all, or when they are named
    market: Market = ""
    # Bytes that one allocation may have. Arc A: 4 GiB unless UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS is set; B65 and
    # B70 refuse more than 19.3 GB although they report 30.3 (llama.cpp PR 28953, which allocates in parts since)
    largest: int = 0
    also: str = ""  # further names, comma-separated; they win over a driver name that several cards share


X: Basis = "exact"
M: Basis = "measured"
HALF: Literal["half"] = "half"
DESKTOP: Market = "desktop"
SERVER: Market = "server"
SINGLE: Market = "single"
G, GL, N, ADA = "NVIDIA GeForce *", "NVIDIA GeForce * GPU", "NVIDIA *", "NVIDIA * Generation"
INSTINCT, RADEON, INTEL = "AMD Instinct *", "AMD Radeon *", "Intel *"
P3, P4, P48, P5, P58 = "PCIe 3.0 x16", "PCIe 4.0 x16", "PCIe 4.0 x8", "PCIe 5.0 x16", "PCIe 5.0 x8"
NV300, NV600, NV900, NV1800 = "NVLink 300 GB/s", "NVLink 600 GB/s", "NVLink 900 GB/s", "NVLink 1800 GB/s"
IF = "Infinity Fabric"


# fmt: off
CARDS: tuple[Card, ...] = (
    # GeForce 50
    Card("RTX 5090", G, gb=32, smi=32607, total=33668857856, basis=X, source="deviceQuery; 31.35-31.37 GiB", sm=120, gb_per_s=1792, sms=170, mhz=2407, rate=HALF, link=P5, l2_mib=96, market=DESKTOP),
    Card("RTX 5080", G, gb=16, smi=16303, total=15842, basis=M, source="torch: 15.47 GiB", sm=120, gb_per_s=960, sms=84, mhz=2617, rate=HALF, link=P5, l2_mib=64, market=DESKTOP),
    Card("RTX 5070 Ti", G, gb=16, smi=16303, total=15842, basis=M, source="llama.cpp; torch: 15.47 GiB", sm=120, gb_per_s=896, sms=70, mhz=2452, rate=HALF, link=P5, l2_mib=48, market=DESKTOP),
    Card("RTX 5070", G, gb=12, smi=12227, total=11766, basis=M, source="torch: 11.49 GiB", sm=120, gb_per_s=672, sms=48, mhz=2512, rate=HALF, link=P5, market=DESKTOP),
    Card("RTX 5060 Ti 16GB", G, gb=16, smi=16311, total=15850, basis=M, source="llama.cpp; 15825-15888", sm=120, gb_per_s=448, sms=36, mhz=2572, rate=HALF, link=P58, market=DESKTOP),
    Card("RTX 5060 Ti 8GB", G, gb=8, smi=8151, total=7690, source="reserve of the 16GB card", sm=120, gb_per_s=448, sms=36, mhz=2572, rate=HALF, link=P58),
    Card("RTX 5060", G, gb=8, smi=8151, total=7690, source="reserve of the RTX 5060 Ti", sm=120, gb_per_s=448, sms=30, mhz=2497, rate=HALF, link=P58, market=DESKTOP),
    Card("RTX 5050", G, gb=8, smi=8151, total=7690, source="reserve of the RTX 5060 Ti", sm=120, gb_per_s=320, sms=20, mhz=2572, rate=HALF, link=P58),
    Card("RTX 5090 Laptop", GL, gb=24, smi=24463, sm=120, gb_per_s=896, sms=82, mhz=2160, rate=HALF, link=P5),
    Card("RTX 5080 Laptop", GL, gb=16, smi=16303, sm=120, gb_per_s=896, sms=60, mhz=2287, rate=HALF, link=P5),
    Card("RTX 5070 Ti Laptop", GL, gb=12, smi=12227, sm=120, gb_per_s=672, sms=46, mhz=2220, rate=HALF, link=P5),
    Card("RTX 5070 Laptop", GL, gb=8, smi=8151, sm=120, gb_per_s=384, sms=36, mhz=2347, rate=HALF, link=P5),
    Card("RTX 5060 Laptop", GL, gb=8, smi=8151, sm=120, gb_per_s=384, sms=26, mhz=2497, rate=HALF, link=P58),
    Card("RTX 5050 Laptop", GL, gb=8, smi=8151, sm=120, gb_per_s=384, sms=20, mhz=2662, rate=HALF, link=P58),
    # GeForce 40
    Card("RTX 4090", G, gb=24, smi=24564, total=25250627584, basis=X, source="deviceQuery; older: 23.65", sm=89, gb_per_s=1008, sms=128, mhz=2520, rate=HALF, link=P4, l2_mib=72, market=DESKTOP, also="4090"),
    Card("RTX 4090 D", G, gb=24, smi=24564, total=24081, source="as RTX 4090", sm=89, gb_per_s=1008, sms=114, mhz=2520, rate=HALF, link=P4),
    Card("RTX 4090 48GB", G, gb=48, smi=49140, sm=89, gb_per_s=1008, sms=128, mhz=2520, rate=HALF, link=P4),
    Card("RTX 4080 SUPER", G, gb=16, smi=16376, total=15937, basis=M, source="llama.cpp", sm=89, gb_per_s=736, sms=80, mhz=2550, rate=HALF, link=P4, market=DESKTOP),
    Card("RTX 4080", G, gb=16, smi=16376, total=15937, source="as RTX 4080 SUPER", sm=89, gb_per_s=717, sms=76, mhz=2505, rate=HALF, link=P4, l2_mib=64),
    Card("RTX 4070 Ti SUPER", G, gb=16, smi=16376, total=15934, basis=M, source="torch", sm=89, gb_per_s=672, sms=66, mhz=2610, rate=HALF, link=P4, market=DESKTOP),
    Card("RTX 4070 Ti", G, gb=12, smi=12282, total=11875, source="as RTX 4070", sm=89, gb_per_s=504, sms=60, mhz=2610, rate=HALF, link=P4, l2_mib=48),
    Card("RTX 4070 SUPER", G, gb=12, smi=12282, total=11875, source="as RTX 4070", sm=89, gb_per_s=504, sms=56, mhz=2475, rate=HALF, link=P4),
    Card("RTX 4070", G, gb=12, smi=12282, total=11875, basis=M, source="llama.cpp; 11866-11903", sm=89, gb_per_s=504, sms=46, mhz=2475, rate=HALF, link=P4),
    Card("RTX 4060 Ti 16GB", G, gb=16, smi=16380, total=16722821120, basis=X, source="deviceQuery", sm=89, gb_per_s=288, sms=34, mhz=2535, rate=HALF, link=P48, market=DESKTOP),
    Card("RTX 4060 Ti 8GB", G, gb=8, smi=8188, total=7815, source="as RTX 4060 Laptop", sm=89, gb_per_s=288, sms=34, mhz=2535, rate=HALF, link=P48),
    Card("RTX 4060", G, gb=8, smi=8188, total=7815, source="as RTX 4060 Laptop", sm=89, gb_per_s=272, sms=24, mhz=2460, rate=HALF, link=P48, market=DESKTOP),
    Card("RTX 4090 Laptop", GL, gb=16, smi=16376, sm=89, gb_per_s=576, sms=76, mhz=2040, rate=HALF, link=P4),
    Card("RTX 4080 Laptop", GL, gb=12, smi=12282, sm=89, gb_per_s=432, sms=58, mhz=2280, rate=HALF, link=P4),
    Card("RTX 4070 Laptop", GL, gb=8, smi=8188, total=7815, source="as RTX 4060 Laptop", sm=89, gb_per_s=256, sms=36, mhz=2175, rate=HALF, link=P48),
    Card("RTX 4060 Laptop", GL, gb=8, smi=8188, total=7815, basis=M, source="llama.cpp; torch: 7.63 GiB", sm=89, gb_per_s=256, sms=24, mhz=2370, rate=HALF, link=P48),
    Card("RTX 4050 Laptop", GL, gb=6, smi=6141, sm=89, gb_per_s=192, sms=20, mhz=2370, rate=HALF, link=P48),
    # GeForce 30
    Card("RTX 3090 Ti", G, gb=24, smi=24564, total=24112, basis=M, source="llama.cpp; 24112-24142", sm=86, gb_per_s=1008, sms=84, mhz=1860, rate=HALF, link=P4),
    Card("RTX 3090", G, gb=24, smi=24576, total=24124, basis=M, source="llama.cpp; 23.56 GiB, older: 23.70", sm=86, gb_per_s=936, sms=82, mhz=1695, rate=HALF, link=P4, l2_mib=6, market=DESKTOP),
    Card("RTX 3080 Ti", G, gb=12, smi=12288, sm=86, gb_per_s=912, sms=80, mhz=1665, rate=HALF, link=P4),
    Card("RTX 3080 12GB", G, gb=12, smi=12288, sm=86, gb_per_s=912, sms=70, mhz=1710, rate=HALF, link=P4),
    Card("RTX 3080 10GB", G, gb=10, smi=10240, total=9871, basis=M, source="torch: 9.64 GiB", sm=86, gb_per_s=760, sms=68, mhz=1710, rate=HALF, link=P4, also="RTX 3080"),
    Card("RTX 3080 20GB", G, gb=20, smi=20480, total=20050, basis=M, source="torch: 19.58 GiB", sm=86, gb_per_s=760, sms=68, mhz=1710, rate=HALF, link=P4),
    Card("RTX 3070 Ti", G, gb=8, smi=8192, total=7840, basis=M, source="llama.cpp", sm=86, gb_per_s=608, sms=48, mhz=1770, rate=HALF, link=P4),
    Card("RTX 3070", G, gb=8, smi=8192, total=7819, basis=M, source="llama.cpp", sm=86, gb_per_s=448, sms=46, mhz=1725, rate=HALF, link=P4),
    Card("RTX 3060 Ti", G, gb=8, smi=8192, total=7819, source="as RTX 3070", sm=86, gb_per_s=448, sms=38, mhz=1665, rate=HALF, link=P4),
    Card("RTX 3060 12GB", G, gb=12, smi=12288, total=11907, basis=M, source="llama.cpp; torch: 11.63", sm=86, gb_per_s=360, sms=28, mhz=1777, rate=HALF, link=P4, market=DESKTOP, also="RTX 3060"),
    Card("RTX 3060 8GB", G, gb=8, smi=8192, total=7819, source="as RTX 3070", sm=86, gb_per_s=240, sms=28, mhz=1777, rate=HALF, link=P4),
    Card("RTX 3050 8GB", G, gb=8, smi=8192, total=7819, source="as RTX 3070", sm=86, gb_per_s=224, sms=20, mhz=1777, rate=HALF, link=P48, also="RTX 3050"),
    Card("RTX 3050 6GB", G, gb=6, smi=6144, sm=86, gb_per_s=168, sms=18, mhz=1470, rate=HALF, link=P48),
    Card("RTX 3080 Ti Laptop", GL, gb=16, smi=16384, sm=86, gb_per_s=512, sms=58, mhz=1590, rate=HALF, link=P4),
    Card("RTX 3080 Laptop 16GB", "NVIDIA GeForce RTX 3080 Laptop GPU", gb=16, smi=16384, sm=86, gb_per_s=448, sms=48, mhz=1710, rate=HALF, link=P4),
    Card("RTX 3080 Laptop 8GB", "NVIDIA GeForce RTX 3080 Laptop GPU", gb=8, smi=8192, sm=86, gb_per_s=448, sms=48, mhz=1710, rate=HALF, link=P4),
    Card("RTX 3070 Ti Laptop", GL, gb=8, smi=8192, total=7850, basis=M, source="llama.cpp", sm=86, gb_per_s=448, sms=46, mhz=1485, rate=HALF, link=P4),
    Card("RTX 3070 Laptop", GL, gb=8, smi=8192, total=7850, source="as RTX 3070 Ti Laptop", sm=86, gb_per_s=448, sms=40, mhz=1620, rate=HALF, link=P4),
    Card("RTX 3060 Laptop", GL, gb=6, smi=6144, sm=86, gb_per_s=336, sms=30, mhz=1703, rate=HALF, link=P4),
    Card("RTX 3050 Laptop", GL, gb=4, smi=4096, sm=86, gb_per_s=192, sms=16, mhz=1500, rate=HALF, link=P48),
    # GeForce 20, 16, 10 and TITAN
    Card("RTX 2080 Ti", G, gb=11, smi=11264, total=10824, basis=M, source="torch: 10.57; older: 10.76", sm=75, gb_per_s=616, sms=68, mhz=1545, rate=HALF, link=P3, also="RTX 2080 Ti"),
    Card("RTX 2080 Ti 22GB", G, gb=22, smi=22528, total=21996, basis=M, source="torch: 21.48 GiB", sm=75, gb_per_s=616, sms=68, mhz=1545, rate=HALF, link=P3),
    Card("RTX 2080 SUPER", G, gb=8, smi=8192, total=7965, source="as RTX 2060 SUPER", sm=75, gb_per_s=496, sms=48, mhz=1815, rate=HALF, link=P3),
    Card("RTX 2080", G, gb=8, smi=8192, total=7965, source="as RTX 2060 SUPER", sm=75, gb_per_s=448, sms=46, mhz=1710, rate=HALF, link=P3),
    Card("RTX 2070 SUPER", G, gb=8, smi=8192, total=7965, source="as RTX 2060 SUPER", sm=75, gb_per_s=448, sms=40, mhz=1770, rate=HALF, link=P3),
    Card("RTX 2070", G, gb=8, smi=8192, total=7965, source="as RTX 2060 SUPER", sm=75, gb_per_s=448, sms=36, mhz=1620, rate=HALF, link=P3),
    Card("RTX 2060 SUPER", G, gb=8, smi=8192, total=8352038912, basis=X, source="deviceQuery", sm=75, gb_per_s=448, sms=34, mhz=1650, rate=HALF, link=P3),
    Card("RTX 2060 12GB", G, gb=12, smi=12288, total=11833, basis=M, source="llama.cpp", sm=75, gb_per_s=336, sms=34, mhz=1650, rate=HALF, link=P3),
    Card("RTX 2060", G, gb=6, smi=6144, sm=75, gb_per_s=336, sms=30, mhz=1680, rate=HALF, link=P3, also="RTX 2060"),
    Card("GTX 1660 Ti", G, gb=6, smi=6144, total=5747, basis=M, source="llama.cpp", sm=75, gb_per_s=288, sms=24, mhz=1770, tflops=(10.9, 0, 0), link=P3),
    Card("GTX 1660 SUPER", G, gb=6, smi=6144, total=5747, source="as GTX 1660 Ti", sm=75, gb_per_s=336, sms=22, mhz=1785, tflops=(10.1, 0, 0), link=P3),
    Card("GTX 1660", G, gb=6, smi=6144, total=5747, source="as GTX 1660 Ti", sm=75, gb_per_s=192, sms=22, mhz=1785, tflops=(10.1, 0, 0), link=P3),
    Card("GTX 1650", G, gb=4, smi=4096, total=3712, basis=M, source="llama.cpp", sm=75, gb_per_s=128, sms=14, mhz=1665, tflops=(6.0, 0, 0), link=P3),
    Card("GTX 1080 Ti", G, gb=11, smi=11264, total=11165, basis=M, source="llama.cpp; 11165-11178", sm=61, gb_per_s=484, sms=28, mhz=1582, link=P3),
    Card("GTX 1080", G, gb=8, smi=8192, total=8107, basis=M, source="llama.cpp; 8098-8118", sm=61, gb_per_s=320, sms=20, mhz=1733, link=P3),
    Card("GTX 1070 Ti", G, gb=8, smi=8192, total=8110, basis=M, source="TensorFlow: 7.92 GiB", sm=61, gb_per_s=256, sms=19, mhz=1683, link=P3),
    Card("GTX 1070", G, gb=8, smi=8192, total=8504279040, basis=X, source="deviceQuery; 8110-8114 MiB", sm=61, gb_per_s=256, sms=15, mhz=1683, link=P3),
    Card("GTX 1060 6GB", "NVIDIA GeForce GTX 1060 6GB", gb=6, smi=6144, total=6063, basis=M, source="llama.cpp", sm=61, gb_per_s=192, sms=10, mhz=1708, link=P3, also="GTX 1060"),
    Card("GTX 1050 Ti", G, gb=4, smi=4096, total=4038, basis=M, source="llama.cpp", sm=61, gb_per_s=112, sms=6, mhz=1392, link=P3),
    Card("TITAN RTX", N, gb=24, smi=24576, total=25364987904, basis=X, source="deviceQuery, 2019", sm=75, gb_per_s=672, sms=72, mhz=1770, link=P3),
    Card("TITAN V", N, gb=12, smi=12288, total=12066, source="reserve of the V100", sm=70, gb_per_s=653, sms=80, mhz=1455, link=P3),
    Card("TITAN Xp", N, gb=12, smi=12288, total=12193, source="as TITAN X", sm=61, gb_per_s=548, sms=30, mhz=1582, link=P3),
    Card("TITAN X", "NVIDIA TITAN X (Pascal)", gb=12, smi=12288, total=12193, basis=M, source="torch", sm=61, gb_per_s=480, sms=28, mhz=1531, link=P3, also="TITAN X Pascal"),
    # Workstation. RTX A6000, 6000 Ada and A40 lose 1/16 more with error correction on (46,068 MiB in nvidia-smi).
    Card("RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", gb=96, smi=97887, total=97247, basis=M, source="llama.cpp; torch: 94.97 GiB", sm=120, gb_per_s=1792, sms=188, mhz=2617, link=P5, l2_mib=128, market=DESKTOP, also="RTX PRO 6000 Blackwell"),
    Card("RTX PRO 6000 Max-Q", "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", gb=96, smi=97887, total=97247, basis=M, source="llama.cpp; torch: 94.97 GiB", sm=120, gb_per_s=1792, sms=188, mhz=2280, link=P5),
    Card("RTX PRO 6000 Server", "NVIDIA RTX PRO 6000 Blackwell Server Edition", gb=96, smi=97887, total=97250, basis=M, source="torch", sm=120, gb_per_s=1597, sms=188, mhz=2493, link=P5),
    Card("RTX PRO 5000 72GB", "NVIDIA RTX PRO 5000 Blackwell", gb=72, smi=73415, sm=120, gb_per_s=1344, sms=110, mhz=2377, link=P5),
    Card("RTX PRO 5000", "NVIDIA * Blackwell", gb=48, smi=48935, sm=120, gb_per_s=1344, sms=110, mhz=2377, link=P5, market=DESKTOP, also="RTX PRO 5000 48GB"),
    Card("RTX PRO 4500", "NVIDIA * Blackwell", gb=32, smi=32623, sm=120, gb_per_s=896, sms=82, mhz=2511, link=P5, market=DESKTOP),
    Card("RTX PRO 4000", "NVIDIA * Blackwell", gb=24, smi=24467, sm=120, gb_per_s=672, sms=70, mhz=2054, link=P5),
    Card("RTX PRO 2000", "NVIDIA * Blackwell", gb=16, smi=16311, total=15850, source="as RTX 5060 Ti", sm=120, gb_per_s=288, sms=34, mhz=1957, link=P58),
    Card("RTX 6000 Ada", ADA, gb=48, smi=49140, total=48622, basis=M, source="torch", sm=89, gb_per_s=960, sms=142, mhz=2505, link=P4, l2_mib=96, market=DESKTOP, also="6000 Ada"),
    Card("RTX 5000 Ada", ADA, gb=32, smi=32760, sm=89, gb_per_s=576, sms=100, mhz=2550, link=P4),
    Card("RTX 4500 Ada", ADA, gb=24, smi=24570, sm=89, gb_per_s=432, sms=60, mhz=2580, link=P4),
    Card("RTX 4000 Ada", ADA, gb=20, smi=20475, sm=89, gb_per_s=360, sms=48, mhz=2175, link=P4),
    Card("RTX 4000 SFF Ada", ADA, gb=20, smi=20475, sm=89, gb_per_s=280, sms=48, mhz=1560, link=P4),
    Card("RTX 2000 Ada", ADA, gb=16, smi=16380, total=15944, source="as RTX 4060 Ti", sm=89, gb_per_s=224, sms=22, mhz=2130, link=P48),
    Card("RTX 2000 Ada Laptop", "NVIDIA RTX 2000 Ada Generation Laptop GPU", gb=8, smi=8188, total=7807, basis=M, source="llama.cpp", sm=89, gb_per_s=256, sms=24, mhz=2115, link=P48),
    Card("RTX A6000", N, gb=48, smi=49140, total=48538, basis=M, source="torch: 47.40 GiB; 47.27-47.53", sm=86, gb_per_s=768, sms=84, mhz=1800, link=P4, l2_mib=6, market=DESKTOP),
    Card("RTX A5500", N, gb=24, smi=24564, total=24114, source="as RTX A5000", sm=86, gb_per_s=768, sms=80, mhz=1665, link=P4),
    Card("RTX A5000", N, gb=24, smi=24564, total=24114, basis=M, source="torch; 24114-24138", sm=86, gb_per_s=768, sms=64, mhz=1695, link=P4),
    Card("RTX A4500", N, gb=20, smi=20470, sm=86, gb_per_s=640, sms=56, mhz=1650, link=P4),
    Card("RTX A4000", N, gb=16, smi=16376, sm=86, gb_per_s=448, sms=48, mhz=1560, link=P4),
    Card("RTX A2000 12GB", "NVIDIA RTX A2000 12GB", gb=12, smi=12282, sm=86, gb_per_s=288, sms=26, mhz=1200, link=P4),
    Card("RTX A2000 6GB", N, gb=6, smi=6138, sm=86, gb_per_s=288, sms=26, mhz=1200, link=P4),
    Card("Quadro RTX 8000", "*", gb=48, smi=49152, total=48601, basis=M, source="torch", sm=75, gb_per_s=672, sms=72, mhz=1770, link=P3),
    Card("Quadro RTX 6000", "*", gb=24, smi=24576, total=24218, basis=M, source="TensorFlow: 23.65 GiB", sm=75, gb_per_s=672, sms=72, mhz=1770, link=P3),
    Card("Quadro RTX 5000", "*", gb=16, smi=16384, total=15927, basis=M, source="llama.cpp; 14910 with ECC", sm=75, gb_per_s=448, sms=48, mhz=1815, link=P3),
    # Data centre, Pascal to Ada
    Card("P100 16GB", "Tesla P100-PCIE-16GB", gb=16, smi=16384, total=16280, basis=M, source="torch", sm=60, gb_per_s=732, sms=56, mhz=1303, link=P3, also="P100"),
    Card("P40", "Tesla P40", gb=24, smi=23040, total=22917, source="ECC on, reserve of Pascal", sm=61, gb_per_s=347, sms=30, mhz=1531, link=P3),
    Card("V100 SXM2 32GB", "Tesla V100-SXM2-32GB", gb=32, smi=32768, total=32494, basis=M, source="llama.cpp", sm=70, gb_per_s=900, sms=80, mhz=1530, link=NV300, also="V100 32GB"),
    Card("V100 SXM2 16GB", "Tesla V100-SXM2-16GB", gb=16, smi=16384, total=16160, basis=M, source="torch", sm=70, gb_per_s=900, sms=80, mhz=1530, link=NV300, also="V100 16GB"),
    Card("V100 PCIe 32GB", "Tesla V100-PCIE-32GB", gb=32, smi=32768, total=32494, basis=M, source="llama.cpp", sm=70, gb_per_s=900, sms=80, mhz=1380, link=P3),
    Card("V100 PCIe 16GB", "Tesla V100-PCIE-16GB", gb=16, smi=16384, total=16160, basis=M, source="torch", sm=70, gb_per_s=900, sms=80, mhz=1380, link=P3),
    Card("T4", "Tesla T4", gb=16, smi=15360, total=15642329088, basis=X, source="deviceQuery; ECC off: 15,109 MiB", sm=75, gb_per_s=320, sms=40, mhz=1590, link=P3, l2_mib=4, market=SERVER),
    Card("A2", N, gb=16, smi=15356, sm=86, gb_per_s=200, sms=10, mhz=1770, link=P48),
    Card("A10", N, gb=24, smi=23028, total=23696375808, basis=X, source="deviceQuery", sm=86, gb_per_s=600, sms=72, mhz=1695, link=P4, l2_mib=6),
    Card("A10G", N, gb=24, smi=23028, total=22587, basis=M, source="torch; 21.98-22.07 GiB", sm=86, gb_per_s=600, sms=80, mhz=1710, rate=HALF, link=P4, l2_mib=6, market=SERVER),
    Card("A16", N, gb=16, smi=15356, source="one of four", sm=86, gb_per_s=200, sms=10, mhz=1755, link=P4),
    Card("A30", N, gb=24, smi=24576, sm=80, gb_per_s=933, sms=56, mhz=1440, link=P4),
    Card("A40", N, gb=48, smi=46068, total=47608692736, basis=X, source="deviceQuery, ECC on", sm=86, gb_per_s=696, sms=84, mhz=1740, link=P4, l2_mib=6),
    Card("A100 SXM 40GB", "NVIDIA A100-SXM4-40GB", gb=40, smi=40960, total=40441, basis=M, source="torch: 39.49 GiB; 39.38-39.56", sm=80, gb_per_s=1555, sms=108, mhz=1410, link=NV600, market=SERVER, also="A100 40GB,A100 SXM4 40GB"),
    Card("A100 SXM 80GB", "NVIDIA A100-SXM4-80GB", gb=80, smi=81920, total=81151, basis=M, source="llama.cpp; torch: 79.25 GiB", sm=80, gb_per_s=2039, sms=108, mhz=1410, link=NV600, market=SERVER, also="A100 80GB,A100 SXM4 80GB"),
    Card("A100 PCIe 40GB", "NVIDIA A100-PCIE-40GB", gb=40, smi=40960, total=42405855232, basis=X, source="deviceQuery", sm=80, gb_per_s=1555, sms=108, mhz=1410, link=P4),
    Card("A100 PCIe 80GB", "NVIDIA A100 80GB PCIe", gb=80, smi=81920, total=84974239744, basis=X, source="deviceQuery", sm=80, gb_per_s=1935, sms=108, mhz=1410, link=P4),
    Card("A800 80GB", "NVIDIA A800-SXM4-80GB", gb=80, smi=81920, total=81151, source="as A100 SXM 80GB", sm=80, gb_per_s=2039, sms=108, mhz=1410, link="NVLink 400 GB/s", also="A800"),
    Card("L4", N, gb=24, smi=23034, total=22559, basis=M, source="torch: 22.03 GiB; 21.96-22.05", sm=89, gb_per_s=300, sms=58, mhz=2040, link=P4, l2_mib=48, market=SERVER),
    Card("L20", N, gb=48, smi=46068, total=45457, basis=M, source="llama.cpp", sm=89, gb_per_s=864, sms=92, mhz=2520, link=P4),
    Card("L40", N, gb=48, smi=46068, total=45467, source="as L40S", sm=89, gb_per_s=864, sms=142, mhz=2490, link=P4, l2_mib=96),
    Card("L40S", N, gb=48, smi=46068, total=45467, basis=M, source="llama.cpp; torch: 44.40 GiB", sm=89, gb_per_s=864, sms=142, mhz=2520, link=P4, l2_mib=96, market=SERVER),
    # Data centre, Hopper and Blackwell
    Card("H100 SXM", "NVIDIA H100 80GB HBM3", gb=80, smi=81559, total=85017755648, basis=X, source="deviceQuery; 79.10-79.21 GiB", sm=90, gb_per_s=3352, sms=132, mhz=1830, link=NV900, market=SERVER, also="H100,H100 SXM5,H100 80GB,H100 SXM 80GB,H100 SXM5 80GB"),
    Card("H100 PCIe", "NVIDIA H100 PCIe", gb=80, smi=81559, total=81008, basis=M, source="torch", sm=90, gb_per_s=2039, sms=114, mhz=1620, link=P5, l2_mib=50, also="H100 PCIe 80GB"),
    Card("H100 NVL", "NVIDIA H100 NVL", gb=94, smi=95830, total=95334, basis=M, source="torch: 93.10 GiB; 93.02-93.10", sm=90, gb_per_s=3938, sms=132, mhz=1545, link=P5, l2_mib=50, also="H100 NVL 94GB"),
    Card("H800", "NVIDIA H800", gb=80, smi=81559, total=81079, source="as H100 SXM", sm=90, gb_per_s=3352, sms=132, mhz=1830, link="NVLink 400 GB/s"),
    Card("H20", "NVIDIA H20", gb=96, smi=97871, total=97285, basis=M, source="torch", sm=90, gb_per_s=4000, sms=78, mhz=1980, tflops=(148, 296, 0), link=NV900, l2_mib=60, also="H20 96GB"),
    Card("H20 141GB", "NVIDIA H20-3e", gb=141, smi=143771, total=143156, source="as H200", sm=90, gb_per_s=4800, sms=78, mhz=1980, tflops=(148, 296, 0), link=NV900, also="H20 3e"),
    Card("H200", "NVIDIA H200", gb=141, smi=143771, total=150109880320, basis=X, source="cudaMemGetInfo", sm=90, gb_per_s=4800, sms=132, mhz=1830, link=NV900, l2_mib=60, market=SERVER, also="H200 SXM,H200 141GB,H200 SXM5"),
    Card("H200 NVL", "NVIDIA H200 NVL", gb=141, smi=143771, total=143156, source="as H200", sm=90, gb_per_s=4800, sms=132, mhz=1545, link=P5),
    Card("GH200", "NVIDIA GH200 480GB", gb=96, smi=97871, total=96768, source="torch: 94.50 GiB, card not named", sm=90, gb_per_s=4000, sms=132, mhz=1830, link=NV900, also="GH200 96GB"),
    Card("GH200 144GB", "NVIDIA GH200 144G HBM3e", gb=144, total=143000, source="as H200", sm=90, gb_per_s=4900, sms=132, mhz=1830, link=NV900),
    Card("B100", "NVIDIA B100", gb=180, smi=183359, total=182631, source="as B200", sm=100, gb_per_s=8000, sms=148, tflops=(1750, 3500, 7000), link=NV1800),
    Card("B200", "NVIDIA B200", gb=180, smi=183359, total=182631, basis=M, source="torch: 178.35 GiB", sm=100, gb_per_s=8000, sms=148, tflops=(2250, 4500, 9000), link=NV1800, l2_mib=126, market=SERVER, also="B200 SXM,HGX B200"),
    Card("B300", "NVIDIA B300 SXM6 AC", gb=288, smi=275040, total=274115, basis=M, source="torch: 267.69 GiB", sm=103, gb_per_s=8000, sms=148, tflops=(2250, 4500, 13500), link=NV1800, market=SERVER, also="B300 SXM,HGX B300"),
    Card("GB200", "NVIDIA GB200", gb=186, smi=189471, total=188733, basis=M, source="torch: 184.31 GiB", sm=100, gb_per_s=8000, sms=152, tflops=(2500, 5000, 10000), link=NV1800, also="GB200 NVL72"),
    Card("GB300", "NVIDIA GB300", gb=288, smi=284208, total=283136, basis=M, source="torch: 276.50 GiB", sm=103, gb_per_s=8000, sms=152, tflops=(2500, 5000, 15000), link=NV1800, also="GB300 NVL72"),
    # Memory shared with the CPU: the total is the machine's (MemTotal), so it moves with kernel and firmware
    Card("GB10", "NVIDIA GB10", gb=128, total=124610, basis=M, source="llama.cpp; 119.6-121.7 GiB", sm=121, gb_per_s=273, sms=48, mhz=2525, link="C2C", l2_mib=24, market=SINGLE, also="DGX Spark,Spark,ASUS Ascent GX10"),
    Card("Jetson Thor", "NVIDIA Thor", gb=128, total=131881680896, basis=X, source="deviceQuery; 122.6-122.8 GiB", sm=110, gb_per_s=273, sms=20, mhz=1575, link="SoC", also="Thor,AGX Thor,Jetson AGX Thor"),
    Card("Jetson AGX Orin 64GB", "Orin", gb=64, total=62827, basis=M, source="llama.cpp", sm=87, gb_per_s=205, sms=16, mhz=1300, link="SoC", also="AGX Orin 64GB,Jetson Orin 64GB,Orin 64GB"),
    Card("Jetson AGX Orin 32GB", "Orin", gb=32, total=30800, source="94 % of nominal", sm=87, gb_per_s=205, sms=14, mhz=930, link="SoC", also="AGX Orin 32GB,Jetson Orin 32GB,Orin 32GB"),
    Card("Jetson Orin NX 16GB", "Orin", gb=16, total=15400, source="94 % of nominal", sm=87, gb_per_s=102, sms=8, mhz=918, link="SoC", also="Orin NX 16GB"),
    Card("Jetson Orin Nano 8GB", "Orin", gb=8, total=7607, basis=M, source="llama.cpp", sm=87, gb_per_s=102, sms=8, mhz=1020, link="SoC", also="Orin Nano,Jetson Orin Nano,Orin Nano 8GB"),
    Card("Jetson Orin NX 8GB", "Orin", gb=8, total=7607, source="as Orin Nano", sm=87, gb_per_s=102, sms=8, mhz=765, link="SoC", also="Orin NX 8GB"),
    # AMD: the driver keeps 16 MiB (RDNA 4: 80 MiB), so totals are nominal less that. No MHz: datasheet TFLOP/s.
    Card("MI355X", INSTINCT, gb=288, total=294896, basis=M, source="torch: 287.98 GiB", sm=95, gb_per_s=8000, sms=256, tflops=(2517, 5033, 10066), link=IF),
    Card("MI350X", INSTINCT, gb=288, total=294896, basis=M, source="torch: 287.98 GiB", sm=95, gb_per_s=8000, sms=256, tflops=(2307, 4614, 9227), link=IF),
    Card("MI325X", INSTINCT, gb=256, total=262128, basis=M, source="torch: 255.98; 255.69-255.98", sm=94, gb_per_s=6000, sms=304, tflops=(1307, 2615, 0), link=IF),
    Card("MI300X", INSTINCT, gb=192, total=196592, basis=M, source="torch; 191.69-191.98 GiB", sm=94, gb_per_s=5300, sms=304, tflops=(1307, 2615, 0), link=IF, also="MI300X OAM"),
    Card("MI300A", INSTINCT, gb=128, total=131056, source="nominal less 16 MiB", sm=94, gb_per_s=5300, sms=228, tflops=(981, 1961, 0), link=IF),
    Card("MI250X", "AMD Instinct MI250X/MI250", gb=64, total=65520, basis=M, source="torch, one of two dies", sm=90, gb_per_s=1638, sms=110, tflops=(192, 0, 0), link=IF, also="MI250X GCD"),
    Card("MI250", "AMD Instinct MI250X/MI250", gb=64, total=65520, basis=M, source="torch, one of two dies", sm=90, gb_per_s=1638, sms=104, tflops=(181, 0, 0), link=IF),
    Card("MI210", INSTINCT, gb=64, total=65520, basis=M, source="llama.cpp", sm=90, gb_per_s=1638, sms=104, tflops=(181, 0, 0), link=P4),
    Card("MI100", INSTINCT, gb=32, total=32752, source="nominal less 16 MiB", sm=90, gb_per_s=1229, sms=120, tflops=(185, 0, 0), link=P4),
    Card("MI60", "AMD Instinct MI60 / MI50", gb=32, total=32752, basis=M, source="llama.cpp", sm=90, gb_per_s=1024, sms=64, tflops=(29.5, 0, 0), link=P4, also="MI50 32GB"),
    Card("MI50", "AMD Instinct MI60 / MI50", gb=16, total=16368, basis=M, source="llama.cpp", sm=90, gb_per_s=1024, sms=60, tflops=(26.5, 0, 0), link=P4, also="MI50 16GB"),
    Card("Radeon AI PRO R9700", "AMD *", gb=32, total=32624, basis=M, source="llama.cpp", sm=120, gb_per_s=640, sms=64, tflops=(191, 383, 0), link=P5, also="R9700,AI PRO R9700"),
    Card("RX 9070 XT", RADEON, gb=16, total=16304, source="as RX 9060 XT", sm=120, gb_per_s=640, sms=64, tflops=(195, 389, 0), link=P5),
    Card("RX 9070", RADEON, gb=16, total=16304, source="as RX 9060 XT", sm=120, gb_per_s=640, sms=56, tflops=(145, 289, 0), link=P5),
    Card("RX 9060 XT 16GB", RADEON, gb=16, total=16304, basis=M, source="llama.cpp", sm=120, gb_per_s=320, sms=32, tflops=(103, 205, 0), link=P5),
    Card("RX 9060 XT 8GB", RADEON, gb=8, total=8112, source="nominal less 80 MiB", sm=120, gb_per_s=320, sms=32, tflops=(103, 205, 0), link=P5),
    Card("Radeon PRO W7900", "AMD *", gb=48, total=46064, basis=M, source="torch: 44.98 GiB", sm=110, gb_per_s=864, sms=96, tflops=(123, 0, 0), link=P4, also="W7900"),
    Card("Radeon PRO W7800", "AMD *", gb=32, total=32752, source="nominal less 16 MiB", sm=110, gb_per_s=576, sms=70, tflops=(90, 0, 0), link=P4, also="W7800"),
    Card("RX 7900 XTX", RADEON, gb=24, total=24560, basis=M, source="llama.cpp", sm=110, gb_per_s=960, sms=96, tflops=(123, 0, 0), link=P4),
    Card("RX 7900 XT", RADEON, gb=20, total=20464, basis=M, source="torch: 19.98 GiB", sm=110, gb_per_s=800, sms=84, tflops=(103, 0, 0), link=P4),
    Card("RX 7900 GRE", RADEON, gb=16, total=16368, source="nominal less 16 MiB", sm=110, gb_per_s=576, sms=80, tflops=(92, 0, 0), link=P4),
    Card("RX 7800 XT", RADEON, gb=16, total=16368, source="nominal less 16 MiB", sm=110, gb_per_s=624, sms=60, tflops=(75, 0, 0), link=P4),
    Card("RX 7600 XT", RADEON, gb=16, total=16368, source="nominal less 16 MiB", sm=110, gb_per_s=288, sms=32, tflops=(45, 0, 0), link=P48),
    Card("RX 6900 XT", RADEON, gb=16, total=16368, source="as RX 6800", sm=103, gb_per_s=512, sms=80, tflops=(46, 0, 0), link=P4),
    Card("RX 6800 XT", RADEON, gb=16, total=16368, source="as RX 6800", sm=103, gb_per_s=512, sms=72, tflops=(41, 0, 0), link=P4),
    Card("RX 6800", RADEON, gb=16, total=16368, basis=M, source="llama.cpp", sm=103, gb_per_s=512, sms=60, tflops=(32, 0, 0), link=P4),
    Card("RX 6700 XT", RADEON, gb=12, total=12272, basis=M, source="llama.cpp", sm=103, gb_per_s=384, sms=40, tflops=(26, 0, 0), link=P4),
    Card("Ryzen AI Max+ 395", "Radeon 8060S Graphics", gb=128, total=63967, basis=M, source="llama.cpp; the driver's default, half the RAM", sm=115, gb_per_s=256, sms=40, tflops=(59, 0, 0), link="SoC", also="Strix Halo,Radeon 8060S,8060S"),
    # Intel: what Level Zero reports is not posted for most of them; nominal less 2.5 % then. Datasheet TFLOP/s.
    Card("Arc A750", INTEL, gb=8, total=7987, source="nominal less 2.5 %", sm=0, gb_per_s=512, sms=28, tflops=(138, 0, 0), link=P4, largest=4 << 30, also="A750"),
    Card("Arc A770 16GB", "Intel Arc A770", gb=16, total=15974, source="nominal less 2.5 %", sm=0, gb_per_s=560, sms=32, tflops=(157, 0, 0), link=P4, largest=4 << 30, also="Arc A770,A770"),
    Card("Arc B570", INTEL, gb=10, total=9984, source="nominal less 2.5 %", sm=0, gb_per_s=380, sms=18, tflops=(80, 0, 0), link=P48, also="B570"),
    Card("Arc B580", INTEL, gb=12, total=11981, source="nominal less 2.5 %", sm=0, gb_per_s=456, sms=20, tflops=(117, 0, 0), link=P48, also="B580"),
    Card("Arc Pro B50", INTEL, gb=16, total=15974, source="nominal less 2.5 %", sm=0, gb_per_s=224, sms=16, tflops=(85, 0, 0), link=P58, also="B50"),
    Card("Arc Pro B60", INTEL, gb=24, total=23962, source="nominal less 2.5 %", sm=0, gb_per_s=456, sms=20, tflops=(99, 0, 0), link=P58, also="B60"),
    Card("Arc Pro B65", INTEL, gb=32, total=32656, source="as Arc Pro B70", sm=0, gb_per_s=608, sms=20, tflops=(99, 0, 0), link=P5, largest=19_300_000_000, also="B65"),
    Card("Arc Pro B70", INTEL, gb=32, total=32656, basis=M, source="llama.cpp (SYCL)", sm=0, gb_per_s=608, sms=32, tflops=(184, 0, 0), link=P5, largest=19_300_000_000, also="B70"),
    Card("Max 1100", "Intel Data Center GPU *", gb=48, total=48128, source="nominal less 2 %", sm=0, gb_per_s=1229, sms=56, tflops=(362, 0, 0), link=P5, also="GPU Max 1100,Ponte Vecchio 1100"),
    Card("Max 1550", "Intel Data Center GPU *", gb=128, total=128450, source="nominal less 2 %", sm=0, gb_per_s=3277, sms=128, tflops=(832, 0, 0), link=P5, also="GPU Max 1550,Ponte Vecchio 1550"),
    Card("Gaudi 2", "Intel *", gb=96, total=96768, source="94.5 GiB, hl-smi", sm=0, gb_per_s=2450, sms=24, tflops=(432, 865, 0), link="RoCE", also="Gaudi2,HL-225"),
    Card("Gaudi 3", "Intel *", gb=128, total=129024, source="126 GiB, by Gaudi 2", sm=0, gb_per_s=3700, sms=64, tflops=(1835, 1835, 0), link="RoCE", also="Gaudi3,HL-325"),
)
# fmt: on
