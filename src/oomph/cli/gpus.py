"""`oomph gpus [NAME]`: the GPUs that oomph knows, or those that --gpu would mean."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from oomph.ir.hardware import Device


@click.command()
@click.argument("name", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; bytes are integers.")
def command(name: tuple[str, ...], as_json: bool) -> None:
    """The GPUs that oomph knows, with the bytes that the driver really reports.

    \b
    oomph gpus                       all of them
    oomph gpus 5070                  those with 5070 in their name
    oomph gpus "2x RTX 5070 Ti"      what --gpu would take this for
    oomph gpus auto                  those of this machine
    """
    devices = _devices(" ".join(name))
    if as_json:
        from oomph.report.json import dumps

        print(dumps({"schema": 1, "gpus": devices}))
        return
    print(f"  {'':<30}{'GiB':>8}{'in use':>8}{'compute':>9}{'GB/s':>7}  total is")
    for d in devices:
        print(_line(d))
    sys.stdout.flush()


def _devices(text: str) -> tuple[Device, ...]:
    from oomph.facts.gpus import rows

    low = text.lower()
    found = tuple(row.device() for row in rows() if low in row.name.lower() or low in row.driver_name.lower())
    if found:
        return found
    from oomph.sources.gpu import parse_gpus

    return parse_gpus(text)


def _line(d: Device) -> str:
    from oomph.units import GIB

    used = f"{d.used_bytes / GIB:.2f}" if d.used_bytes else ""
    capability = f"{d.capability[0]}.{d.capability[1]}" if d.capability != (0, 0) else "?"
    speed = f"{d.bandwidth / 1e9:.0f}" if d.bandwidth else "?"
    shared = ", shared with the CPU" if d.unified else ""
    line = f"  {d.name[:29]:<30}{d.total_bytes / GIB:>8.2f}{used:>8}{capability:>9}{speed:>7}  {d.total_basis}{shared}"
    return line.rstrip()
