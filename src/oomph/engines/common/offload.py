"""Weights in host memory: how fast a GPU or the CPU reaches them, and which of a plan's weights lie there.

An engine that computes on the GPU reads them over the link in every step: vLLM's kernels read host memory in place, so
that of routed experts only those cross that a step touches; SGLang copies a layer before it runs, all experts of it.
llama.cpp computes on the CPU what is in host memory, at that memory's own bandwidth.
"""

import re

from msgspec import Struct

from oomph.facts.gpus import GpuRow
from oomph.ir import Deployment, Device, Plan

PCIE_X16 = 2.0e9  # bytes per second of sixteen lanes in one direction, times two for every generation: 32e9 for 4.0
# The share of a link that copies from pinned memory reach: 25 GB/s of PCIe 4.0's 31.5 (CUDA's bandwidthTest), and 13 of
# PCIe 3.0's 15.8.
LINK_REACHED = 0.8
C2C = 450e9  # NVLink-C2C of a Grace Hopper or Grace Blackwell, in one direction (its data sheet: 900 GB/s both ways)
COHERENT = ("GH200", "GB200", "GB300")
# As sold, where nobody names the memory: two channels of DDR5-5600 beside a consumer's card, eight of DDR5-4800 beside
# a server's, LPDDR5X beside a Grace.
DESKTOP, SERVER, GRACE = 89.6e9, 307.2e9, 500e9
# What llama.cpp's CPU kernels reach of it: 4-bit models of 1.5B to 8B on two channels of DDR4-2666 read 20.6 to 22.9 of
# 42.7 GB/s (inventivehq.com/blog/moe-on-cpu-benchmark).
CPU_REACHED = 0.52
_CONSUMER = ("GeForce", "Radeon RX", "Arc")


class HostMemory(Struct, frozen=True):
    """Bytes per second that are really reached."""

    link: float  # from host memory to one GPU
    cpu: float  # by the CPU itself


class OnHost(Struct, frozen=True):
    """Bytes of weights in host memory that belong to the GPUs that work one after the other."""

    linear: float = 0.0
    experts: float = 0.0  # routed: a step touches some of them


def host_memory(deployment: Deployment, device: Device, card: GpuRow | None) -> HostMemory:
    """`deployment.ram_bandwidth` where somebody says it, else what such a machine usually has."""
    if device.unified:
        return HostMemory(float(device.bandwidth) * LINK_REACHED, float(device.bandwidth) * CPU_REACHED)
    coherent = device.name.startswith(COHERENT)
    consumer = any(word in device.driver_name for word in _CONSUMER)
    sold = deployment.ram_bandwidth or (GRACE if coherent else DESKTOP if consumer else SERVER)
    link = C2C if coherent else pcie(device, card)
    return HostMemory(min(link, sold) * LINK_REACHED, sold * CPU_REACHED)


def pcie(device: Device, card: GpuRow | None) -> float:
    """Bytes per second in one direction as sold. A card whose row names NVLink or a fabric has the PCIe of its age."""
    match = re.search(r"PCIe (\d)\.\d x(\d{1,2})", card.link) if card is not None else None
    if match:
        return PCIE_X16 * float(1 << int(match[1])) * int(match[2]) / 16
    generation = 5 if device.capability >= (9, 0) else 4 if device.capability >= (8, 0) else 3
    return PCIE_X16 * float(1 << generation)


def kept_in_host(plan: Plan, parallel: int) -> OnHost:
    """What --cpu-offload-gb and its like keep there. Layers go there in their order, so that routed experts have the
    share of it that they have of the layers."""
    linear = experts = 0.0
    for rank in plan.ranks[::parallel]:
        parts = rank.terms["weights"].parts
        on_host = -parts.get("kept in host memory", 0)
        layers = sum(parts.get(name, 0) for name in ("attention", "mlp", "experts", "router", "norm", "state"))
        share = parts.get("experts", 0) / layers if layers else 0.0
        experts += on_host * share
        linear += on_host * (1 - share)
    return OnHost(linear, experts)
