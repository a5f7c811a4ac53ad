from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from oomph.errors import CannotPlan, CommandError, OomphError
from oomph.facts import gpus
from oomph.ir.hardware import Device
from oomph.sources import gpu, nvml
from oomph.sources.gpu import MAX_GPUS, from_json, parse_gpus
from oomph.units import GIB, MIB


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("RTX 3090", ["RTX 3090"]),
        ("2x RTX 5070 Ti", ["RTX 5070 Ti"] * 2),
        ("2 x H100", ["H100 SXM"] * 2),
        ("2×H100", ["H100 SXM"] * 2),
        ("2*4090", ["RTX 4090"] * 2),
        ("RTX 3090 x2", ["RTX 3090"] * 2),
        ("RTX 3090 x 2", ["RTX 3090"] * 2),
        ("L40Sx4", ["L40S"] * 4),
        ("2 H100", ["H100 SXM"] * 2),
        ("3090 Ti", ["RTX 3090 Ti"]),
        ("H100,H100", ["H100 SXM"] * 2),
        ("RTX 3090 + RTX 3060 12GB", ["RTX 3090", "RTX 3060 12GB"]),
        ("2x3090+4090", ["RTX 3090", "RTX 3090", "RTX 4090"]),
        ("Ryzen AI Max+ 395", ["Ryzen AI Max+ 395"]),
        ("8x H100 80GB", ["H100 SXM"] * 8),
        ("2x24GiB", ["24GiB GPU"] * 2),
        ("two Mac Studios M3 Ultra 512GB", ["Apple M3 Ultra 512GB"] * 2),
        ("2 mac minis m4 pro 64gb", ["Apple M4 Pro 64GB"] * 2),
        ("gmktec evo x2 128gb", ["Ryzen AI Max+ 395"]),
    ],
)
def test_lists_and_counts(text: str, names: list[str]) -> None:
    assert [device.name for device in parse_gpus(text)] == names


def test_a_card_brings_its_facts() -> None:
    (device,) = parse_gpus("rtx 5070 ti")
    assert device.capability == (12, 0)
    assert round(device.total_bytes / GIB, 2) == 15.47
    assert device.driver_name == "NVIDIA GeForce RTX 5070 Ti"
    assert (device.bandwidth, device.sm_count, device.used_bytes) == (896 * 10**9, 70, 0)
    assert device.total_basis == "measured"


def test_gib_is_literal_and_gb_is_what_is_on_the_box() -> None:
    (literal,) = parse_gpus("24GiB")
    assert (literal.total_bytes, literal.total_basis) == (24 * GIB, "exact")
    assert literal.is_capability_assumed and not parse_gpus("RTX 3090")[0].is_capability_assumed
    (sold,) = parse_gpus("24GB")
    assert (sold.total_bytes, sold.total_basis) == (24 * GIB - gpus.reserve(24 * GIB), "assumed")
    assert abs(sold.total_bytes - gpus.find("3090").total_bytes) < 64 * MIB
    assert parse_gpus("25250627584")[0].total_bytes == 25_250_627_584
    assert parse_gpus("23.5GB")[0].total_bytes == 23_500_000_000
    assert parse_gpus("16384MiB")[0].total_bytes == 16 * GIB


@pytest.mark.parametrize(
    "text",
    ["RTX 3090 used 1.2GiB", "RTX 3090 (1.2GiB used)", "RTX 3090 used=1.2GiB", "RTX 3090 used: 1.2 GiB"],
)
def test_used(text: str) -> None:
    (device,) = parse_gpus(text)
    assert (device.name, device.used_bytes) == ("RTX 3090", round(1.2 * GIB))


def test_used_is_on_each_of_its_entry() -> None:
    used = [device.used_bytes for device in parse_gpus("2x RTX 3090 used 1GiB, RTX 3060, 16 GiB used 2GiB")]
    assert used == [GIB, GIB, 0, 2 * GIB]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "empty entry"),
        ("H100,", "empty entry"),
        ("H100,,H100", "empty entry"),
        ("0x H100", "0 GPUs"),
        ("999999999x H100", f"1 to {MAX_GPUS}"),
        ("1000x H100, 1000x H100", f"more than {MAX_GPUS}"),
        ("24", "did you mean 24GiB"),
        ("2x", "not in the table"),
        ("x2", "not in the table"),
        ("RTX 3090 used 99GiB", "bytes used of"),
        ("RTX 3090 used 1.2.3GiB", "not a size"),
        ("used 1GiB", "not in the table"),
        ("1e3GiB", "not in the table"),
        ("1KiB", "not in the table"),
        ("1MiB", "cannot be meant"),
        ("0GB", "cannot be meant"),
        ("99999999TiB", "larger than any memory"),
        ("9" * 300, "more than 200 characters"),
        ("9" * 150 + "GiB", "not a size"),
        ("9" * 5000, "4096 at most"),
        ("RTX 4060 Ti", "say which"),
        ("a100x2", "say which"),
        ("2x RTX 5075", "did you mean"),
    ],
)
def test_what_cannot_be_meant_is_said(text: str, part: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse_gpus(text)
    assert part in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


_WORDS = st.sampled_from(["2x", "x2", "RTX", "3090", "H100", "used", "1.2GiB", "24GB", "24GiB", ",", "+", "Max+"])


@given(st.text(max_size=80) | st.lists(_WORDS, max_size=8).map(" ".join) | st.lists(_WORDS, max_size=8).map("".join))
def test_any_text_is_devices_or_a_sentence(text: str) -> None:
    if text.strip().lower() == "auto":
        return
    try:
        devices = parse_gpus(text)
    except OomphError as error:
        assert error.exit_code == 2
        assert "\n" not in error.message
    else:
        assert 1 <= len(devices) <= MAX_GPUS
        assert all(isinstance(device, Device) and device.used_bytes <= device.total_bytes for device in devices)


def test_json_forms() -> None:
    assert from_json("2x RTX 5070 Ti") == parse_gpus("2x RTX 5070 Ti")
    assert from_json({"name": "RTX 5070 Ti", "count": 2}) == parse_gpus("2x RTX 5070 Ti")
    assert from_json(["h100", {"name": "4090"}]) == parse_gpus("h100,4090")
    assert from_json({"name": "24GiB"}) == parse_gpus("24GiB")
    zeros = {"name": "h100", "total_bytes": 0, "compute_capability": "", "used_bytes": 0}
    assert from_json(zeros) == parse_gpus("h100")


def test_json_what_is_given_wins_over_the_row() -> None:
    value = {"name": "RTX 5070 Ti", "total_bytes": 16_000_000_000, "used_bytes": 5, "compute_capability": "8.9"}
    (device,) = from_json(value)
    assert (device.total_bytes, device.used_bytes, device.capability) == (16_000_000_000, 5, (8, 9))
    assert (device.bandwidth, device.total_basis) == (896 * 10**9, "exact")
    (device,) = from_json({"name": "RTX 4060 Ti", "total_bytes": 8_000_000_000})
    assert device.name == "RTX 4060 Ti 8GB"


def test_json_a_card_that_is_not_in_the_table_needs_its_memory() -> None:
    (device,) = from_json({"name": "Unobtainium 9", "total_bytes": 10**10, "compute_capability": 13.0})
    assert (device.name, device.total_bytes, device.capability) == ("Unobtainium 9", 10**10, (13, 0))
    assert not device.is_capability_assumed
    (device,) = from_json({"total_bytes": 10**10})
    assert (device.name, device.is_capability_assumed) == ("GPU", True)
    with pytest.raises(CommandError):
        from_json({"name": "Unobtainium 9"})


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (None, "null"),
        (3, "a number"),
        (True, "a truth value"),
        ([], "empty"),
        ({}, "needs a name or total_bytes"),
        ([["h100"]], "GPU 0 of the list"),
        ({"name": 5}, "name is a string, not a number"),
        ({"name": ["h100"]}, "not a list"),
        ({"name": "h100", "count": 10**9}, f"between 1 and {MAX_GPUS}"),
        ({"name": "h100", "count": 0}, f"between 1 and {MAX_GPUS}"),
        ({"name": "h100", "count": True}, "not a truth value"),
        ({"name": "h100", "count": 2.0}, "not the number 2.0"),
        ({"name": "h100", "total_bytes": float("nan")}, "not the number nan"),
        ({"name": "h100", "total_bytes": -1}, "between 0 and"),
        ({"name": "h100", "total_bytes": 10**400}, "between 0 and"),
        ({"name": "h100", "used_bytes": -5}, "between 0 and"),
        ({"name": "h100", "used_bytes": 10**12}, "bytes used of"),
        ({"name": "h100", "used_bytes": "1GiB"}, "not a string"),
        ({"name": "h100", "compute_capability": "nine"}, 'such as "12.0"'),
        ({"name": "h100", "compute_capability": float("inf")}, 'such as "12.0"'),
        ({"name": "h100", "compute_capability": [9, 0]}, 'such as "12.0"'),
        ({"name": "h100", "total": 5}, "no key 'total'"),
        (["h100"] * 2000, f"more than {MAX_GPUS}"),
    ],
)
def test_json_that_lies(value: object, part: str) -> None:
    with pytest.raises(CommandError) as caught:
        from_json(value)
    assert part in caught.value.message


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(["h100", "24GiB"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["name", "count", "total_bytes", "compute_capability", "used_bytes", "x"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=8,
)


@given(_JSON)
def test_any_json_is_devices_or_a_sentence(value: object) -> None:
    if "auto" in repr(value).lower():
        return
    try:
        assert 1 <= len(from_json(value)) <= MAX_GPUS
    except OomphError as error:
        assert "\n" not in error.message


# --- live: a stand-in for the driver's library ---


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}.")
        self.value = value


NOT_SUPPORTED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, NOT_FOUND, UNKNOWN = 3, 9, 12, 6, 999


def _gpu(name: str, total: int = 0, reserved: int = 0, used: int = 0, **more: Any) -> dict[str, Any]:
    return {"name": name, "total": total, "reserved": reserved, "used": used, "capability": (9, 0), **more}


class FakeNvml(ModuleType):
    """Handles are the dictionaries themselves."""

    NVMLError = NVMLError
    NVML_ERROR_LIBRARY_NOT_FOUND = LIBRARY_NOT_FOUND
    NVML_ERROR_DRIVER_NOT_LOADED = DRIVER_NOT_LOADED
    nvmlMemory_v2 = 0x02000028

    def __init__(self, devices: list[dict[str, Any]], *, init_error: int = 0, v2: bool = True) -> None:
        super().__init__("pynvml")
        self.devices, self.init_error, self.v2 = devices, init_error, v2
        self.open = 0

    def nvmlInit(self) -> None:
        if self.init_error:
            raise NVMLError(self.init_error)
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        if self.devices[index].get("lost"):
            raise NVMLError(UNKNOWN)
        return self.devices[index]

    def nvmlDeviceGetName(self, handle: dict[str, Any]) -> Any:
        return handle["name"]

    def nvmlDeviceGetUUID(self, handle: dict[str, Any]) -> Any:
        return handle.get("uuid", f"GPU-{id(handle):x}")

    def nvmlDeviceGetCudaComputeCapability(self, handle: dict[str, Any]) -> tuple[int, int]:
        if handle["capability"] is None:
            raise NVMLError(NOT_SUPPORTED)
        return handle["capability"]  # type: ignore[no-any-return]

    def nvmlDeviceGetMemoryInfo(self, handle: dict[str, Any], version: int | None = None) -> SimpleNamespace:
        total, reserved, used = handle["total"], handle["reserved"], handle["used"]
        if not total or (version and not self.v2):
            raise NVMLError(NOT_SUPPORTED)
        if version:
            return SimpleNamespace(total=total, reserved=reserved, used=used, free=total - reserved - used)
        return SimpleNamespace(total=total, used=used + reserved, free=total - reserved - used)

    def nvmlDeviceGetMigMode(self, handle: dict[str, Any]) -> list[int]:
        if "slices" not in handle:
            raise NVMLError(NOT_SUPPORTED)
        return [handle.get("mig", 1), 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: dict[str, Any]) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: dict[str, Any], index: int) -> dict[str, Any]:
        if index >= len(handle["slices"]):
            raise NVMLError(NOT_FOUND)
        return handle["slices"][index]  # type: ignore[no-any-return]

    def nvmlDeviceGetAttributes(self, handle: dict[str, Any]) -> SimpleNamespace:
        return SimpleNamespace(multiprocessorCount=handle["sms"], memorySizeMB=handle["total"] // MIB)


Install = Callable[..., FakeNvml]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(nvml, "_is_wsl", lambda: False)

    def install(*devices: dict[str, Any], **options: Any) -> FakeNvml:
        fake = FakeNvml(list(devices), **options)
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        return fake

    return install


H200 = _gpu("NVIDIA H200", 143771 * MIB, 143771 * MIB - 150_109_880_320, uuid="GPU-aaaa1111")
RTX_3090 = _gpu("NVIDIA GeForce RTX 3090", 24576 * MIB, 452 * MIB, 1200 * MIB, capability=(8, 6), uuid="GPU-bbbb2222")
RTX_3060 = _gpu(b"NVIDIA GeForce RTX 3060", 12288 * MIB, 381 * MIB, capability=(8, 6), uuid=b"GPU-cccc3333")


def test_live_total_is_what_cuda_will_report(install: Install) -> None:
    fake = install(H200)
    (device,) = parse_gpus("auto")
    assert (device.name, device.total_bytes, device.used_bytes) == ("H200", 150_109_880_320, 0)
    assert (device.capability, device.total_basis, device.unified) == ((9, 0), "exact", False)
    assert device.bandwidth == 4800 * 10**9
    assert fake.open == 0


def test_live_several_gpus_and_what_others_hold(install: Install) -> None:
    install(RTX_3090, RTX_3060)
    first, second = parse_gpus(" AUTO ")
    assert (first.name, first.total_bytes, first.used_bytes) == ("RTX 3090", 24124 * MIB, 1200 * MIB)
    assert (second.name, second.total_bytes, second.used_bytes) == ("RTX 3060 12GB", 11907 * MIB, 0)
    assert second.driver_name == "NVIDIA GeForce RTX 3060"


def test_live_with_an_old_driver_the_reserve_is_the_tables(install: Install) -> None:
    install(RTX_3090, _gpu("NVIDIA Unheard Of", 24576 * MIB, 400 * MIB, capability=None), v2=False)
    known, unheard = parse_gpus("auto")
    assert (known.total_bytes, known.used_bytes, known.total_basis) == (24124 * MIB, 1200 * MIB, "assumed")
    assert (unheard.name, unheard.capability) == ("Unheard Of", (0, 0))
    assert unheard.total_bytes == 24576 * MIB - gpus.reserve(24576 * MIB)
    assert unheard.used_bytes == 0


def test_live_unified_memory(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(_gpu("NVIDIA GB10", capability=(12, 1)))
    monkeypatch.setattr(nvml, "_host_memory", lambda: (127_600_748 * 1024, 118_566_368 * 1024))
    (device,) = parse_gpus("auto")
    assert (device.name, device.unified, device.capability) == ("GB10", True, (12, 1))
    assert round(device.total_bytes / GIB, 2) == 121.69
    assert device.used_bytes == (127_600_748 - 118_566_368) * 1024


def test_host_memory(tmp_path: Any) -> None:
    path = tmp_path / "meminfo"
    path.write_text("MemTotal:       1000 kB\nMemFree:         10 kB\nMemAvailable:    600 kB\n")
    assert nvml._host_memory(str(path)) == (1000 * 1024, 600 * 1024)
    path.write_text("nothing\n")
    with pytest.raises(CannotPlan, match="shares the CPU's memory"):
        nvml._host_memory(str(path))
    with pytest.raises(CannotPlan):
        nvml._host_memory(str(tmp_path / "missing"))


def test_live_wsl_keeps_the_reserve(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(_gpu("NVIDIA GeForce RTX 4090", 24564 * MIB, 400 * MIB, 900 * MIB, capability=(8, 9)))
    monkeypatch.setattr(nvml, "_is_wsl", lambda: True)
    (device,) = parse_gpus("auto")
    assert (device.total_bytes, device.used_bytes) == (24563 * MIB, 900 * MIB)


SLICES = [
    _gpu("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 9984 * MIB, 0, 15 * MIB, uuid="MIG-1111aaaa", sms=16),
    _gpu("NVIDIA H100 80GB HBM3 MIG 3g.40gb", 40192 * MIB, 0, 0, uuid="MIG-2222bbbb", sms=60),
]
SLICED = _gpu("NVIDIA H100 80GB HBM3", 81559 * MIB, 480 * MIB, slices=SLICES, uuid="GPU-dddd4444")


def test_live_mig_slices_are_devices(install: Install) -> None:
    install(SLICED, H200)
    small, large, whole = parse_gpus("auto")
    assert (small.name, small.total_bytes, small.used_bytes) == ("H100 SXM MIG 1g.10gb", 9984 * MIB, 15 * MIB)
    assert (small.sm_count, small.capability) == (16, (9, 0))
    assert 0.1 < small.bandwidth / gpus.find("h100").bandwidth < 0.15
    assert (large.name, large.sm_count) == ("H100 SXM MIG 3g.40gb", 60)
    assert whole.name == "H200"


def test_live_mig_switched_off_is_a_whole_gpu(install: Install) -> None:
    install({**SLICED, "mig": 0})
    assert [device.name for device in parse_gpus("auto")] == ["H100 SXM"]


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ("0", ["H200"]),
        ("1,0", ["RTX 3090", "H200"]),
        ("0, 2", ["H200", "H100 SXM MIG 1g.10gb"]),
        ("1,-1,0", ["RTX 3090"]),
        ("1,7,0", ["RTX 3090"]),
        ("GPU-bbbb2222", ["RTX 3090"]),
        ("GPU-bbbb", ["RTX 3090"]),
        ("MIG-2222bbbb", ["H100 SXM MIG 3g.40gb"]),
        ("99999999999999999999,0", []),
        ("", []),
        ("-1", []),
        ("none", []),
        ("GPU-", []),
    ],
)
def test_live_honours_cuda_visible_devices(
    install: Install, monkeypatch: pytest.MonkeyPatch, setting: str, names: list[str]
) -> None:
    install(H200, RTX_3090, SLICED)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    if names:
        assert [device.name for device in parse_gpus("auto")] == names
    else:
        with pytest.raises(CannotPlan, match="hides every GPU"):
            parse_gpus("auto")


@pytest.mark.parametrize(
    ("code", "part"),
    [
        (LIBRARY_NOT_FOUND, "there is no NVIDIA driver here"),
        (DRIVER_NOT_LOADED, "installed but not loaded"),
        (18, "reboot"),
        (UNKNOWN, "NVML error 999"),
    ],
)
def test_live_without_a_driver(install: Install, monkeypatch: pytest.MonkeyPatch, code: int, part: str) -> None:
    monkeypatch.setattr("os.path.exists", lambda path: False)
    install(init_error=code)
    with pytest.raises(CannotPlan) as caught:
        parse_gpus("auto")
    assert part in caught.value.message
    assert "--gpu" in caught.value.hint


@pytest.mark.parametrize(
    ("path", "part"), [("/usr/lib/wsl/lib/libnvidia-ml.so.1", "LD_LIBRARY_PATH"), ("/dev/kfd", "AMD GPU")]
)
def test_live_why_there_is_no_library(install: Install, monkeypatch: pytest.MonkeyPatch, path: str, part: str) -> None:
    monkeypatch.setattr("os.path.exists", lambda asked: asked == path)
    install(init_error=LIBRARY_NOT_FOUND)
    with pytest.raises(CannotPlan, match=part):
        parse_gpus("auto")


def test_live_without_gpus_and_with_a_lost_one(install: Install) -> None:
    install()
    with pytest.raises(CannotPlan, match="has no GPU"):
        parse_gpus("auto")
    fake = install({**H200, "lost": True})
    with pytest.raises(CannotPlan, match=r"does not describe its GPUs: NVML error 999$"):
        parse_gpus("auto")
    assert fake.open == 0


def test_live_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(CannotPlan, match="nvidia-ml-py"):
        parse_gpus("auto")


def test_a_plain_name_is_read_as_every_other() -> None:
    """A name as the table has it takes a shorter way to the same devices."""
    plain = 0
    for row in gpus.rows():
        for name in (row.name, *filter(None, row.also.split(","))):
            for text in (name, f"1x {name}", f"4x {name}"):
                if devices := gpu._plainly_named(text):
                    plain += 1
                    assert devices == gpu._read_gpus(text), text
    assert plain > 300
