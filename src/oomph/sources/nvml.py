"""`--gpu auto`: the GPUs of this machine, asked of the driver through NVML (no CUDA context is made)."""

import os
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

from msgspec.structs import replace

from oomph.errors import CannotPlan, CommandError
from oomph.facts import gpus
from oomph.facts.unified import system_memory
from oomph.ir import Device
from oomph.units import MIB


class _Memory(NamedTuple):
    total: int
    used: int
    exact: bool
    unified: bool


_GIVE = 'give the GPUs: --gpu "2x RTX 5070 Ti" or --gpu 24GiB'


def live_gpus() -> tuple[Device, ...]:
    """The GPUs of this machine in the order and with the limits of CUDA_VISIBLE_DEVICES, MIG slices as devices.

    NVML numbers GPUs by PCI bus, as CUDA does with CUDA_DEVICE_ORDER=PCI_BUS_ID; with unlike cards and without that
    variable CUDA puts the fastest first, and a number in CUDA_VISIBLE_DEVICES may mean another card.
    """
    try:
        pynvml: Any = import_module("pynvml")
    except ImportError:
        raise CannotPlan("--gpu auto needs the package nvidia-ml-py", hint=_GIVE) from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise CannotPlan(_no_driver(pynvml, error), hint=_GIVE) from None
    try:
        devices = list(_enumerate(pynvml))
    except pynvml.NVMLError as error:
        raise CannotPlan(f"the NVIDIA driver does not describe its GPUs: {_said(error)}", hint=_GIVE) from None
    finally:
        _ask(pynvml, "nvmlShutdown")
    if not devices:
        raise CannotPlan("the NVIDIA driver is loaded but has no GPU", hint=_GIVE)
    visible = _visible(devices, os.environ.get("CUDA_VISIBLE_DEVICES"))
    psutil: Any = import_module("psutil")
    free = int(psutil.virtual_memory().available)
    return tuple(replace(device, host_bytes=0 if device.system else free) for device in visible)


def _said(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__


def _no_driver(pynvml: Any, error: Exception) -> str:
    code = getattr(error, "value", None)
    if code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        if os.path.exists("/usr/lib/wsl/lib/libnvidia-ml.so.1"):
            return "WSL2 has the driver's library in /usr/lib/wsl/lib, but it is not in LD_LIBRARY_PATH"
        if os.path.exists("/dev/kfd"):
            return "this machine has an AMD GPU, which --gpu auto does not read"
        return "there is no NVIDIA driver here (libnvidia-ml.so.1 is not installed)"
    if code == pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return "the NVIDIA driver is installed but not loaded"
    if code == getattr(pynvml, "NVML_ERROR_LIB_RM_VERSION_MISMATCH", 18):
        return "the NVIDIA driver was updated and not reloaded (library and kernel module differ): reboot"
    return f"the NVIDIA driver does not answer: {_said(error)}"


class _Found(NamedTuple):
    number: int  # NVML's; a slice has its GPU's
    uuid: str
    device: Device


def _enumerate(pynvml: Any) -> Iterator[_Found]:
    for number in range(pynvml.nvmlDeviceGetCount()):
        handle = pynvml.nvmlDeviceGetHandleByIndex(number)
        name = _text(pynvml.nvmlDeviceGetName(handle))
        capability = _ask(pynvml, "nvmlDeviceGetCudaComputeCapability", handle)
        mig = _ask(pynvml, "nvmlDeviceGetMigMode", handle)
        slices = _ask(pynvml, "nvmlDeviceGetMaxMigDeviceCount", handle) if mig and mig[0] == 1 else 0
        if not slices:
            device = _device(name, _memory(pynvml, handle, name), capability)
            yield _Found(number, _text(pynvml.nvmlDeviceGetUUID(handle)), device)
            continue
        whole = _row(name, 0)
        for place in range(slices):
            part = _ask(pynvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, place)
            if part is not None:
                device = _slice(pynvml, part, capability, whole)
                yield _Found(number, _text(pynvml.nvmlDeviceGetUUID(part)), device)


def _ask(pynvml: Any, question: str, *args: Any, **options: Any) -> Any:
    """The answer, or None where this GPU, its driver or this package has none."""
    try:
        return getattr(pynvml, question)(*args, **options)
    except (pynvml.NVMLError, AttributeError, TypeError):
        return None


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _row(name: str, total: int) -> gpus.GpuRow | None:
    try:
        return gpus.find(name, near=total)
    except CommandError:
        return None


def _device(name: str, memory: _Memory, capability: Any) -> Device:
    row = _row(name, memory.total)
    return Device(
        name=row.name if row else re.sub(r"^NVIDIA (GeForce )?", "", name) or "GPU",
        total_bytes=memory.total,
        capability=tuple(capability) if capability else row.capability if row else (0, 0),
        driver_name=name,
        used_bytes=min(max(memory.used, 0), memory.total),
        bandwidth=row.bandwidth if row else 0,
        sm_count=row.sm_count if row else 0,
        unified=memory.unified,
        system=system_memory(memory.total, memory.used) if memory.unified else None,
        total_basis="exact" if memory.exact else "assumed",
    )


def _slice(pynvml: Any, handle: Any, capability: Any, whole: gpus.GpuRow | None) -> Device:
    """A MIG slice. CUDA's total for it is NVML's (an H100 1g.10gb: 9.75 GiB by both): no reserve to take off."""
    info = pynvml.nvmlDeviceGetMemoryInfo(handle)
    attributes = _ask(pynvml, "nvmlDeviceGetAttributes", handle)
    name = _text(pynvml.nvmlDeviceGetName(handle))
    short = re.sub(r"^NVIDIA (GeForce )?", "", name)
    return Device(
        name=f"{whole.name} MIG {name.partition(' MIG ')[2]}".rstrip() if whole else short,
        total_bytes=int(info.total),
        capability=tuple(capability) if capability else whole.capability if whole else (0, 0),
        driver_name=name,
        used_bytes=min(int(info.used), int(info.total)),
        bandwidth=round(whole.bandwidth * min(1.0, info.total / whole.total_bytes)) if whole else 0,
        sm_count=int(attributes.multiprocessorCount) if attributes else 0,
        total_basis="exact",
    )


def _memory(pynvml: Any, handle: Any, name: str) -> _Memory:
    """Total as cudaMemGetInfo will report it, and what is taken.

    NVML v2: total = reserved + used + free, and CUDA's total is total - reserved. NVML v1 (drivers before 510) counts
    the reserve as used. Under WSL2 CUDA's total keeps the reserve. Where the memory is the CPU's (GB10, Jetson), NVML
    says "not supported" or 0, and CUDA's total is MemTotal.
    """
    second = _ask(pynvml, "nvmlDeviceGetMemoryInfo", handle, version=getattr(pynvml, "nvmlMemory_v2", 0x02000028))
    info = second or _ask(pynvml, "nvmlDeviceGetMemoryInfo", handle)
    if info is None or not info.total:
        total, available = _host_memory()
        return _Memory(total, total - available, True, True)
    total, used = int(info.total), int(info.used)
    if _is_wsl():
        return _Memory(total - MIB, used, True, False)
    if second:
        return _Memory(total - int(second.reserved), used, True, False)
    row = _row(name, total)
    reserved = row.smi_bytes - row.total_bytes if row and row.smi_bytes else gpus.reserve(total)
    return _Memory(total - reserved, used - reserved, False, False)


def _host_memory(path: str = "/proc/meminfo") -> tuple[int, int]:
    """(MemTotal, MemAvailable): engines take the latter as free on such machines (vllm/utils/mem_utils.py)."""
    try:
        with open(path, encoding="ascii") as file:
            fields = dict(re.findall(r"^(\w+):\s+(\d+) kB", file.read(65536), re.MULTILINE))
        total, available = int(fields["MemTotal"]) * 1024, int(fields["MemAvailable"]) * 1024
    except (OSError, KeyError, ValueError):
        sentence = "this GPU shares the CPU's memory, and /proc/meminfo does not say how much"
        raise CannotPlan(sentence, hint=_GIVE) from None
    return total, min(total, available)


def _is_wsl() -> bool:
    return os.path.exists("/dev/dxg")


def _visible(devices: list[_Found], setting: str | None) -> tuple[Device, ...]:
    """CUDA_VISIBLE_DEVICES as CUDA reads it: numbers or starts of UUIDs; the first that fits nothing ends the list."""
    if setting is None:
        return tuple(each.device for each in devices)
    shown: list[Device] = []
    for entry in setting.split(","):
        entry = entry.strip()
        if entry.isdecimal():
            match = [each for each in devices if each.number == int(entry[:9])]
        else:
            match = [each for each in devices if len(entry) > 4 and each.uuid.startswith(entry)]
        if not match:
            break
        shown.append(match[0].device)
    if not shown:
        raise CannotPlan(f"CUDA_VISIBLE_DEVICES={setting[:60]!r} hides every GPU of this machine", hint=_GIVE)
    return tuple(shown)
