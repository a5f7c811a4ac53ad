"""The size of a card as nvidia-smi prints it: SGLang's tiers and its reserve go by that, not by what CUDA reports."""

from oomph.errors import CommandError
from oomph.facts.gpus import find, reserve
from oomph.ir import Device
from oomph.units import MIB


def smi_mib(device: Device) -> int:
    """utils/common.py get_nvgpu_memory_capacity: `nvidia-smi --query-gpu=memory.total`, in MiB.

    From the table of cards where the device is one of them; else the driver's usual reserve is put back. A total that
    is as large as nvidia-smi's already is taken as such.
    """
    total = device.total_bytes
    try:
        row = find(device.driver_name or device.name, near=total)
    except CommandError:
        row = None
    if row is not None and row.smi_bytes and abs(row.smi_bytes - total) <= row.smi_bytes // 20:
        return row.smi_bytes // MIB
    if device.unified or device.vendor != "nvidia":
        return total // MIB
    return (total + reserve(total)) // MIB
