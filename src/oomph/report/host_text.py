"""The host's memory as lines of a report."""

from __future__ import annotations

from oomph.ir import HostPart, HostPlan, Plan
from oomph.report.terminal import INDENT, Style
from oomph.units import gib, human


def host_lines(plan: Plan, style: Style, *, everything: bool = False) -> list[str]:
    host = plan.host
    if host is None:
        return []
    lines = [f"  {style.bold('Host')}     {_shared(plan, host) if _is_shared(host) else _own(host)}"]
    lines += [f"{' ' * INDENT}{_later(part)}" for part in host.later]
    if everything:
        lines += [f"{' ' * INDENT}{_part(part)}" for part in (*host.parts, *host.later)]
    return lines


def _is_shared(host: HostPlan) -> bool:
    return host.ram_from == "shared with the GPU"


def _own(host: HostPlan) -> str:
    """ "14.0 GiB of 64.0 GiB (--ram): processes 9.00 GiB, KV cache in host memory 64.0 GiB"."""
    largest = sorted((part for part in host.parts if not part.reclaimable), key=lambda part: -part.bytes)
    names = ", ".join(f"{part.name} {human(part.bytes)}" for part in largest[:4])
    of = f" of the {gib(host.available_bytes)} there are ({host.ram_from})" if host.ram_bytes else " of host memory"
    shm = f"; /dev/shm {human(host.shm_bytes)}" if host.shm_bytes else ""
    return f"{gib(host.need_bytes)}{of}: {names}{shm}"


def _shared(plan: Plan, host: HostPlan) -> str:
    system = plan.deployment.gpus[0].system
    assert system is not None
    about = "about " if system.is_assumed else ""
    peak = max(stage.peak_bytes for stage in plan.ranks[0].stages) - plan.deployment.gpus[0].used_bytes
    return (
        f"CPU and GPU share {gib(host.ram_bytes)}: {about}{gib(system.used_bytes)} is the system's, {gib(peak)} this "
        f"engine's at its peak"
    )


def _later(part: HostPart) -> str:
    return f"{part.name} takes {gib(part.bytes)} more ({gib(part.low)} to {gib(part.high)}) {part.why}"


def _part(part: HostPart) -> str:
    span = "" if part.low == part.high else f" ({gib(part.low)} to {gib(part.high)})"
    return f"{human(part.bytes)}{span} {part.name}: {part.why}"
