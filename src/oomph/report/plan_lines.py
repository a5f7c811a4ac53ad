"""Lines that every plan has, whatever its engine."""

from __future__ import annotations

from oomph.ir import Device, Plan
from oomph.report.terminal import Style, clean
from oomph.units import gib


def notes(plan: Plan, style: Style, *, everything: bool = False) -> list[str]:
    """What rests on an assumption is said where it could change the outcome, and in the whole ledger."""
    lines = [f"  {style.dim('note     ')}{clean(w)}" for w in plan.warnings]
    if everything and plan.ranks:
        lines += [f"  {style.dim('assumed  ' + a)}" for a in plan.assumptions]
    return lines


def gpus_line(gpus: tuple[Device, ...]) -> str:
    names: dict[str, int] = {}
    for gpu in gpus:
        about = "about " if gpu.used_before.low != gpu.used_before.high else ""
        used = f", {about}{gib(gpu.used_bytes)} in use" if gpu.used_bytes else ""
        label = f"{clean(gpu.name)} ({gib(gpu.total_bytes)}{used})"
        names[label] = names.get(label, 0) + 1
    line = " + ".join(f"{n} x {label}" if n > 1 else label for label, n in names.items())
    nodes = len({g.node for g in gpus})
    return f"{line} on {nodes} nodes" if nodes > 1 else line
