"""The GPUs that are known: a line a card."""

from itertools import groupby

from oomph.ir import Device, GpuList
from oomph.report.answer import (
    Answer,
    Cell,
    Column,
    Heading,
    Piece,
    Row,
    Table,
)
from oomph.units import GIB


def answer(known: GpuList) -> Answer:
    largest = max((device.total_bytes for device in known.gpus), default=1)
    columns = (
        Column("card", 24), Column("GiB", 9, is_number=True), Column("in use", 8, is_number=True),
        Column("compute", 9, is_number=True), Column("GB/s", 7, is_number=True), Column("total is", gap="  "),
    )  # fmt: skip
    rows = tuple(_row(device, len(list(alike)), largest) for device, alike in groupby(known.gpus))
    about = "With the bytes that the driver really reports. oomph gpus MODEL: which of them, and how many, it needs."
    table = Table("", columns, rows, label="Known GPUs", tall=True)
    return Answer("cards", Heading("GPUs", below=(about,)), None, (table,))


def _row(device: Device, count: int, largest: int) -> Row:
    """Those that follow one another and are alike are counted."""
    shared = ", shared with the CPU" if device.unified else ""
    bar = (Piece("weights", device.total_bytes / largest),)
    return Row((
        Cell(f"{count} x {device.name}" if count > 1 else device.name, tone="bold"),
        Cell(f"{device.total_bytes / GIB:.2f}", device.total_bytes, bar=bar),
        Cell(f"{device.used_bytes / GIB:.2f}" if device.used_bytes else "", device.used_bytes),
        Cell(f"{device.capability[0]}.{device.capability[1]}" if device.capability != (0, 0) else "?", device.sm),
        Cell(f"{device.bandwidth / 1e9:.0f}" if device.bandwidth else "?", device.bandwidth),
        f"{device.total_basis}{shared}",
    ))  # fmt: skip
