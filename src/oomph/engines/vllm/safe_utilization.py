"""How high --gpu-memory-utilization may go: the one figure that advice, fit, gpus and the rules of the doctor use."""

from __future__ import annotations

from oomph.ir.hardware import Device

# Chosen, until warming up and serving are planned: what a start takes after its KV cache was sized (captured graphs
# where they are not estimated, kernels loaded late, the allocator's segments) was 0.3 to 3.2 GiB on an H200.
OWN_MEMORY = 0.95
# GB10, Jetson and other machines whose system lives in the same memory: 0.87 and more mostly fail in posted starts.
SHARED_MEMORY = 0.85


def safe_utilization(device: Device) -> float:
    return SHARED_MEMORY if device.unified else OWN_MEMORY
