"""GPUs for people: a line a card."""

from collections.abc import Iterator
from itertools import groupby

from oomph.ir import Device, GpuList
from oomph.report.terminal import Style
from oomph.units import GIB


def render(known: GpuList, style: Style, *, width: int = 100, everything: bool = False) -> str:
    head = f"  {'':<25}{'GiB':>8}{'in use':>8}{'compute':>9}{'GB/s':>7}  total is"
    return "\n".join((head, *_lines(known.gpus))) + "\n"


def _lines(devices: tuple[Device, ...]) -> Iterator[str]:
    """A line a card; those that follow one another and are alike are counted."""
    for device, same in groupby(devices):
        count = len(list(same))
        yield _line(device, f"{count} x {device.name}" if count > 1 else device.name)


def _line(device: Device, name: str) -> str:
    used = f"{device.used_bytes / GIB:.2f}" if device.used_bytes else ""
    capability = f"{device.capability[0]}.{device.capability[1]}" if device.capability != (0, 0) else "?"
    speed = f"{device.bandwidth / 1e9:.0f}" if device.bandwidth else "?"
    shared = ", shared with the CPU" if device.unified else ""
    figures = f"{device.total_bytes / GIB:>8.2f}{used:>8}{capability:>9}{speed:>7}"
    return f"  {name[:24]:<25}{figures}  {device.total_basis}{shared}".rstrip()
