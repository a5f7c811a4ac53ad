"""The GPUs of a llama.cpp or Ollama log, as ggml lists them: each with its total and what was free before the load."""

from collections.abc import Sequence

from oomph.facts.gpus import rows
from oomph.ir import Device
from oomph.ir.observation import Observation


def printed_devices(observations: Sequence[Observation]) -> tuple[Device, ...]:
    """() where the log lists none, or without their sizes."""
    devices: dict[str, Device] = {}
    for line in observations:
        if line.kind != "lc_free":
            continue
        name, buffer = str(line.values.get("name", "")), str(line.values.get("buffer", ""))
        total, free = line.values.get("total"), line.values.get("free")
        if not isinstance(total, int) or not isinstance(free, int) or free > total or buffer.startswith("CPU"):
            continue
        used, short = total - free, name.removeprefix("NVIDIA ").removeprefix("GeForce ")
        row = next((row for row in rows() if row.name == short), None)
        device = row.device(used_bytes=used, total_bytes=total) if row else Device(name, total, used_bytes=used)
        devices.setdefault(buffer, device)
    return tuple(devices.values())
