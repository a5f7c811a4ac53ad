"""What an all-reduce between GPUs costs: a latency for each call, and bytes over the link.

Three kinds of link. Over NVLink vLLM's own kernel writes into the peers' memory. Over PCIe a workstation or server card
reads its peers (two of them by vLLM's kernel, more by NCCL: custom_all_reduce.py lets PCIe have two at most). A GeForce
cannot: its driver grants no peer access, so that NCCL copies every message through the host's memory.
"""

import re
from math import log2

from msgspec import Struct

from oomph.errors import OomphError
from oomph.facts.gpus import GpuRow, find
from oomph.simulate.accuracy import Layout

PCIE_LANES = 2.0  # GB/s of PCIe 1.0 x16 in one direction, twice with every generation: 32 for 4.0


class Link(Struct, frozen=True):
    kind: str  # nvlink, peers, host
    bandwidth: float  # bytes per second in one direction, as sold


class Cost(Struct, frozen=True):
    """Seconds of one all-reduce, and for each byte that it reduces: of its first LARGE bytes and of later ones."""

    call: float
    byte: float
    large_byte: float


class Efficiency(Struct, frozen=True):
    """Microseconds of a call and of each of its hops, and the share of the bandwidth that is reached. A tree of n
    ranks has 2 log2(n) hops; vLLM's kernel over NVLink has one. A message through the host is cut into small pieces
    with flags between them, until it is large enough for NCCL to pipeline it."""

    call: float
    hop: float
    share: float
    large_share: float


LARGE = 2 << 20
NVLINK = Efficiency(10.0, 0.0, 0.60, 0.45)  # what is large goes through NCCL (custom_all_reduce.py: up to 8 MiB)
# From A100 PCIe cards in two sockets: 34 us for 57 KB.
PEERS = Efficiency(10.0, 10.0, 0.60, 0.60)
# From speeds that were published for one and for several of the same card: RTX 3090, 45 us for 10 KB and 300 us for
# 655 KB with two cards; RTX 4090, 2 to 3 GB/s of PCIe 4.0's 32 with two to eight cards, of prompts more.
HOST = Efficiency(32.0, 5.0, 0.06, 0.16)


def link_of(card: GpuRow) -> Link:
    if match := re.search(r"(\d{1,9})\s{0,4}GB/s", card.link):
        return Link("nvlink", float(match[1]) * 1e9 / 2)
    if match := re.search(r"PCIe (\d)\.\d x(\d{1,2})", card.link):
        bandwidth = PCIE_LANES * 2.0 ** int(match[1]) * int(match[2]) / 16 * 1e9
        return Link("host" if "GeForce" in card.driver_name else "peers", bandwidth)
    return Link("nvlink", 200e9)


def layout_of(name: str, ranks: int) -> Layout:
    """Of so many of this card that share every layer. A card that nobody knows is taken to have no NVLink."""
    if ranks < 2:
        return "one"
    try:
        return "nvlink" if link_of(find(name)).kind == "nvlink" else "pcie"
    except OomphError:
        return "pcie"


def all_reduce(card: GpuRow, ranks: int, share: float = 0.0, latency_us: float = 0.0) -> Cost:
    """Of one message, on every rank. `share` and `latency_us` replace what is known of the kind of link."""
    if ranks < 2:
        return Cost(0.0, 0.0, 0.0)
    link = link_of(card)
    efficiency = {"nvlink": NVLINK, "peers": PEERS, "host": HOST}[link.kind]
    latency = latency_us or efficiency.call + efficiency.hop * 2 * log2(ranks)
    seconds = 2 * (ranks - 1) / ranks / link.bandwidth
    return Cost(latency / 1e6, seconds / (share or efficiency.share), seconds / (share or efficiency.large_share))
