"""What llama.cpp holds of the host's memory: layers and caches that stay there, buffers, the server's prompt cache."""

from collections.abc import Mapping
from typing import Any

from oomph.ir import HostPart, HostPlan, Model, Plan
from oomph.units import GIB, MIB

# Assumed: the program, its libraries and the CUDA driver's share of a process.
_PROCESS = (300 * MIB, 700 * MIB, 3 * GIB // 2)


def host_plan(plan: Plan, model: Model | None = None) -> HostPlan:
    host: Mapping[str, Any] = plan.resolved["host"]
    low, usual, high = _PROCESS
    parts = [
        HostPart("process", usual, low, high, "for the program and the libraries of its GPUs"),
        *_weights(plan, int(host["weights"]) - int(host.get("repacked", 0))),  # the file's own are read once
    ]
    for name, size, why in (
        ("repacked weights", host.get("repacked", 0), "for weights laid out anew for this CPU (--no-repack: none)"),
        ("KV cache", host["kv_cache"] + host["state"], "for the cache of the layers on the CPU"),
        ("compute buffers", host["compute"] + host["output"], "for the work of the CPU and the output"),
    ):
        if size:
            parts.append(HostPart(name, size, size, size, why))
    return HostPlan(tuple(parts), later=tuple(_prompt_cache(plan)))


def _weights(plan: Plan, on_host: int) -> list[HostPart]:
    """A mapped file is page cache, which the kernel gives back and reads again; --no-mmap and --mlock hold it."""
    flags = plan.deployment.flags
    mode = str(flags.get("load_mode") or "")
    locked = bool(flags.get("mlock")) or mode == "mlock"
    mapped = mode in ("", "mmap", "mlock") if mode else bool(flags.get("mmap", True))
    on_gpus = sum(rank.terms["weights"].bytes for rank in plan.ranks)
    parts = []
    if on_host:
        why = "for weights on the CPU" + (", mapped: read again from disk where memory is short" if mapped else "")
        parts.append(HostPart("weights", on_host, on_host, on_host, why, True, reclaimable=mapped and not locked))
    if on_gpus and mapped:
        # with --mlock the whole file stays in memory, also what is copied to the GPUs
        why = "for the whole file, locked (--mlock)" if locked else "while the file is read; given back when needed"
        parts.append(
            HostPart("page cache", on_gpus, 0 if not locked else on_gpus, on_gpus, why, locked, reclaimable=not locked)
        )
    return parts


def _prompt_cache(plan: Plan) -> list[HostPart]:
    """server.cpp: --cache-ram, 8192 MiB by default, is filled by prompts whose slots are reused."""
    limit = plan.deployment.flags.get("cache_ram", plan.resolved["host"]["prompt_cache_limit"] // MIB)
    if not isinstance(limit, int) or limit == 0:
        return []
    if limit < 0:
        return [
            HostPart("prompt cache", 8 * GIB, 0, 1 << 50, "for prompts of earlier requests (--cache-ram -1: no limit)")
        ]
    size = limit * MIB
    return [HostPart("prompt cache", size, 0, size, "for prompts of earlier requests (--cache-ram)")]
