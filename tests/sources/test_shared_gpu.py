"""Shared memory, slices of cards, limits and machines of several nodes, as people write them."""

from __future__ import annotations

import pytest

from oomph.answers.plan import plan
from oomph.errors import CommandError, OomphError
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB


@pytest.mark.parametrize(
    ("text", "total_gib", "ram_gib"),
    [
        ("DGX Spark", 121.69, 121.69),
        ("Strix Halo", 62.47, 125.1),
        ("Strix Halo 64GB", 31.23, 62.5),
        ("Strix Halo 128GB gtt 96GB", 96.0, 125.1),
        ("Ryzen AI Max+ 395 128GB GTT 110GiB", 110.0, 125.1),
        ("Strix Halo 124GiB", 124.0, 125.1),
        ("M4 Pro 64GB", 48.0, 64.0),
        ("Apple M2 8GB", 5.33, 8.0),
        ("MacBook Air M1 16GB", 10.67, 16.0),
        ("M3 Max 128GB wired 112GB", 112.0, 128.0),
    ],
)
def test_shared_memory_is_read_as_people_write_it(text: str, total_gib: float, ram_gib: float) -> None:
    (device,) = parse_gpus(text)
    assert device.total_bytes / GIB == pytest.approx(total_gib, abs=0.02)
    assert device.unified and device.system is not None
    assert device.system.total_bytes / GIB == pytest.approx(ram_gib, abs=0.06)


def test_a_bios_carve_out_is_memory_of_its_own() -> None:
    (device,) = parse_gpus("Strix Halo 128GB bios 96GB")
    assert (device.total_bytes, device.unified, device.system) == (96 * GIB, False, None)


@pytest.mark.parametrize(
    ("text", "total_gib"),
    [("H100 MIG 3g.40gb", 39.0), ("1g.10gb", 9.76), ("A100 80GB 1g.10gb", 9.8), ("L40S limit 12GiB", 12.0)],
)
def test_a_part_of_a_card_is_a_device(text: str, total_gib: float) -> None:
    (device,) = parse_gpus(text)
    assert device.total_bytes / GIB == pytest.approx(total_gib, abs=0.06)


def test_nodes() -> None:
    devices = parse_gpus("2x(8x H200)")
    assert len(devices) == 16 and [d.node for d in devices] == [0] * 8 + [1] * 8
    assert parse_gpus("2 nodes of 8x H200") == devices


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("RTX 4090 MIG 1g.10gb", "cannot be cut"),
        ("Strix Halo 128GB gtt 200GB", "cannot have more"),
        ("M4 Max", "how much memory"),
        ("M4 Max 48GB wired 96GB", "cannot have more"),
        ("L4 limit 80GiB", "more than the card has"),
        ("900x(8x H200)", "more than 1024"),
    ],
)
def test_what_cannot_be_is_said(text: str, said: str) -> None:
    with pytest.raises(CommandError, match=said):
        parse_gpus(text)


def test_vllm_is_not_planned_on_a_mac() -> None:
    with pytest.raises(OomphError, match="no kernels for Apple"):
        plan("vllm serve Qwen/Qwen3-8B", gpu="M4 Pro 64GB")
