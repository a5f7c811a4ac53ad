"""What a process can say of memory at one moment. Nothing here initialises CUDA."""

import contextlib
import os
import sys
from typing import Any

_STATISTICS = {
    "allocated": "allocated_bytes.all.current", "allocated_peak": "allocated_bytes.all.peak",
    "reserved": "reserved_bytes.all.current", "reserved_peak": "reserved_bytes.all.peak",
    "inactive_split": "inactive_split_bytes.all.current", "retries": "num_alloc_retries", "ooms": "num_ooms",
}  # fmt: skip


def gpu(device: Any) -> dict[str, int]:
    """Free and total as the driver says, and PyTorch's allocator; empty where CUDA is not in use here.

    The device is named, never the current one: that is a thread's own, and asking a second card would open it.
    """
    torch = sys.modules.get("torch")
    if device is None or torch is None or not torch.cuda.is_initialized():
        return {}
    free, total = torch.cuda.mem_get_info(device)
    statistics = torch.cuda.memory_stats(device)
    reading = {name: int(statistics.get(key, 0)) for name, key in _STATISTICS.items()}
    return {"free": int(free), "total": int(total), **reading}


def holders(index: int = 0) -> list[dict[str, Any]]:
    """Who holds the card, by NVML; a container may hide other processes."""
    with contextlib.suppress(Exception):
        nvml = _nvml()
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(physical(index))
        return [
            {"pid": process.pid, "bytes": int(process.usedGpuMemory or 0), "is_this": process.pid == os.getpid(),
             "program": _program(process.pid)}
            for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        ]  # fmt: skip
    return []


def used() -> list[int]:
    """Bytes in use on each card, by its number."""
    with contextlib.suppress(Exception):
        nvml = _nvml()
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        return [int(nvml.nvmlDeviceGetMemoryInfo(handle).used) for handle in handles]
    return []


def card(index: int = 0) -> str:
    with contextlib.suppress(Exception):
        nvml = _nvml()
        nvml.nvmlInit()
        name = nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(physical(index)))
        return name.decode() if isinstance(name, bytes) else str(name)
    return ""


def _nvml() -> Any:
    try:
        import pynvml
    except ImportError:
        from vllm.third_party import pynvml
    return pynvml


def physical(index: int) -> int:
    """CUDA_VISIBLE_DEVICES by number; by UUID the first cards are taken."""
    visible = [word.strip() for word in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
    return int(visible[index]) if index < len(visible) and visible[index].isdigit() else index


def _program(pid: int) -> str:
    """The program's name alone: its arguments may hold secrets."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
        return file.read().strip()
    return ""


def host() -> dict[str, int]:
    """This process's resident memory and what the machine, or the container, has."""
    with contextlib.suppress(Exception):
        import psutil  # type: ignore[import-untyped]

        memory = psutil.virtual_memory()
        resident = int(psutil.Process().memory_info().rss)
        return {"resident": resident, "total": int(memory.total), "available": int(memory.available), **_container()}
    return {}


def _container() -> dict[str, int]:
    with contextlib.suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
        return {"container_limit": int(file.read())}
    return {}
