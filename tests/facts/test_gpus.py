from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from oomph.errors import CommandError
from oomph.facts import gpus
from oomph.facts.gpus import find, reserve, rows
from oomph.units import GIB, MIB


def test_enough_rows_and_no_name_twice() -> None:
    names = [row.name for row in rows()]
    assert len(names) >= 120
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_a_row_makes_sense(row: gpus.GpuRow) -> None:
    nominal = row.nominal_gb * GIB
    assert 0.9 * nominal * (1 if row.nominal_gb < 100 else 0.5) < row.total_bytes <= nominal * 1.01 or row.unified
    if row.smi_bytes:
        assert 0 < row.smi_bytes - row.total_bytes < 1200 * MIB
    assert row.source
    assert 2 <= row.sm_count <= 400
    assert 100e9 <= row.bandwidth <= 10e12
    assert row.fp16_flops > 0
    assert row.fp4_flops == 0 or row.fp4_flops > row.fp8_flops > row.fp16_flops
    assert (row.fp8_flops > 0) == (row.capability >= (8, 9)) or row.vendor in ("amd", "intel")
    assert (row.fp4_flops > 0) == (row.capability >= (10, 0)) or row.vendor in ("amd", "intel")
    device = row.device()
    assert device.total_bytes == row.total_bytes
    assert device.total_basis == row.basis


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_a_row_is_found_by_its_names(row: gpus.GpuRow) -> None:
    for name in (row.name, row.name.lower().replace(" ", ""), row.name.upper(), *filter(None, row.also.split(","))):
        assert find(name) == row
    same = [other for other in rows() if other.driver_name == row.driver_name]
    by_driver = find(row.driver_name, near=row.total_bytes)
    assert by_driver in same
    assert by_driver.total_bytes == row.total_bytes


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("RTX 5070 Ti", 15.47),
        ("RTX 5090", 31.36),
        ("RTX 4090", 23.52),
        ("RTX 3090", 23.56),
        ("RTX 3060", 11.63),
        ("T4", 14.57),
        ("A10G", 22.06),
        ("L40S", 44.40),
        ("A100 80GB", 79.25),
        ("H100", 79.18),
        ("H100 NVL", 93.10),
        ("H20", 95.00),
        ("RTX PRO 6000", 94.97),
        ("B200", 178.35),
        ("B300", 267.69),
        ("GB200", 184.31),
        ("GB10", 121.69),
        ("Jetson Thor", 122.82),
        ("MI300X", 191.98),
        ("MI355X", 287.98),
    ],
)
def test_totals_as_torch_prints_them(name: str, total: float) -> None:
    assert round(find(name).total_bytes / GIB, 2) == total


def test_the_h200_is_exact() -> None:
    row = find("h200")
    assert (row.total_bytes, row.basis) == (150_109_880_320, "exact")
    assert row.capability == (9, 0)


@pytest.mark.parametrize(
    ("name", "fp16", "fp8", "fp4"),
    [
        ("RTX 5090", 210, 419, 1676),
        ("RTX 4090", 165, 330, 0),
        ("RTX 3090", 71, 0, 0),
        ("RTX PRO 6000", 504, 1008, 2015),
        ("RTX A6000", 155, 0, 0),
        ("A100 80GB", 312, 0, 0),
        ("L4", 121, 242, 0),
        ("H100", 989, 1979, 0),
        ("H100 PCIe", 756, 1513, 0),
        ("V100 32GB", 125, 0, 0),
        ("T4", 65, 0, 0),
    ],
)
def test_peak_rates_are_the_datasheets(name: str, fp16: int, fp8: int, fp4: int) -> None:
    row = find(name)
    assert [round(each / 1e12) for each in (row.fp16_flops, row.fp8_flops, row.fp4_flops)] == [fp16, fp8, fp4]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("5070ti", "RTX 5070 Ti"),
        ("rtx 5070 ti", "RTX 5070 Ti"),
        ("NVIDIA GeForce RTX 5070 Ti", "RTX 5070 Ti"),
        ("h100", "H100 SXM"),
        ("H100 80GB HBM3", "H100 SXM"),
        ("a100-80", "A100 SXM 80GB"),
        ("A100-SXM4-80GB", "A100 SXM 80GB"),
        ("A100-80G", "A100 SXM 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("4090", "RTX 4090"),
        ("RTX 4090 24GB", "RTX 4090"),
        ("RTX4090-48G", "RTX 4090 48GB"),
        ("mi300x", "MI300X"),
        ("dgx spark", "GB10"),
        ("L40s", "L40S"),
        ("l40", "L40"),
        ("RTX 3060", "RTX 3060 12GB"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("rtx pro 6000 blackwell max-q", "RTX PRO 6000 Max-Q"),
        ("titan rtx", "TITAN RTX"),
        ("3090 ti", "RTX 3090 Ti"),
        ("4070 ti super", "RTX 4070 Ti SUPER"),
        ("Radeon RX 7900 XTX", "RX 7900 XTX"),
        ("GeForce RTX 3080 Laptop GPU 16GB", "RTX 3080 Laptop 16GB"),
    ],
)
def test_forgiving_names(text: str, name: str) -> None:
    assert find(text).name == name


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a100", ["A100 SXM 40GB", "A100 PCIe 80GB", "say which"]),
        ("v100", ["V100 SXM2 16GB", "V100 SXM2 32GB"]),
        ("RTX 4060 Ti", ["RTX 4060 Ti 16GB or RTX 4060 Ti 8GB"]),
        ("rtx 6000", ["RTX PRO 6000", "RTX 6000 Ada", "RTX A6000", "Quadro RTX 6000"]),
        ("titan", ["TITAN RTX", "TITAN V"]),
        ("RTX 5075", ["did you mean", "RTX 5070"]),
        ("5080ti", ["did you mean RTX 5080"]),
        ("309", ["RTX 3090"]),
        ("xyzzy", ["not in the table", "24GiB"]),
        ("", ["not in the table"]),
        ("RTX 4090 23GB", ["did you mean"]),
        ("x" * 10_000, ["..."]),
    ],
)
def test_what_is_not_one_card_is_said(text: str, parts: list[str]) -> None:
    with pytest.raises(CommandError) as caught:
        find(text)
    assert all(part in caught.value.message for part in parts), caught.value.message
    assert len(caught.value.message) < 300


def test_the_total_tells_variants_apart() -> None:
    assert find("NVIDIA GeForce RTX 4060 Ti", near=15 * GIB).name == "RTX 4060 Ti 16GB"
    assert find("NVIDIA GeForce RTX 4060 Ti", near=7 * GIB).name == "RTX 4060 Ti 8GB"
    assert find("NVIDIA GeForce RTX 3060", near=7 * GIB).name == "RTX 3060 8GB"
    assert find("NVIDIA GeForce RTX 4090", near=47 * GIB).name == "RTX 4090 48GB"
    assert find("Orin", near=61 * GIB).name == "Jetson AGX Orin 64GB"


def test_the_reserve_is_near_what_was_printed() -> None:
    """The rule for cards nobody printed, on those somebody did (Ampere and later; older cards keep less)."""
    for row in rows():
        if row.smi_bytes and row.basis != "assumed" and row.capability >= (8, 0):
            assert abs(row.total_bytes - (row.smi_bytes - reserve(row.smi_bytes))) < 0.021 * row.total_bytes, row.name


def test_importing_decodes_nothing() -> None:
    code = "import oomph.facts.gpus as g, sys; print(g.rows.cache_info().currsize, 'difflib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() == ["0", "False"]


_LIKE_A_CARD = st.from_regex(r"(RTX|GTX|H|A|L|MI) ?[0-9]{1,4}( ?(Ti|SUPER|XT))?( [0-9]+ ?GB)?", fullmatch=True)


@given(st.text(max_size=60) | _LIKE_A_CARD)
def test_any_text_is_a_card_or_a_sentence(text: str) -> None:
    try:
        assert isinstance(find(text), gpus.GpuRow)
    except CommandError as error:
        assert "\n" not in error.message
