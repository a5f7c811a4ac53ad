"""The host's memory: shared with the GPU or its own, and what it does to the verdict."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from oomph.answers.plan import plan
from oomph.engines.vllm.serving.safe_utilization import SHARED_MEMORY
from oomph.ir.plan import Plan
from oomph.search.fit import fit
from oomph.sources.gpu import parse_gpus
from oomph.units import GIB


def at(utilization: float, gpu: str = "DGX Spark", rest: str = "") -> Plan:
    command = f"vllm serve Qwen/Qwen3-8B --gpu-memory-utilization {utilization} {rest}"
    return plan(command, gpu=gpu, engine="vllm==0.28.0", advise=False)


@pytest.mark.parametrize(
    ("utilization", "outcome"), [(0.55, "fits"), (0.72, "at_risk"), (0.87, "close"), (0.92, "close"), (0.99, "fails")]
)
def test_the_more_of_a_spark_is_asked_for_the_less_it_is_promised(utilization: float, outcome: str) -> None:
    assert at(utilization).verdict.outcome == outcome


def test_what_the_system_has_available_decides_the_check() -> None:
    """Posted: 32.40 GiB available, 29.83 after container and context, refused at 0.25."""
    assert at(0.25, "DGX Spark used 89.29GiB").verdict.stage == "startup_free_memory"
    assert at(0.92, "DGX Spark used 69.7GiB").verdict.outcome == "fails"


def test_fit_stays_below_what_people_report_to_survive() -> None:
    for name in ("DGX Spark", "Thor", "Strix Halo 128GB gtt 120GB"):
        found = fit("Qwen/Qwen3-8B", parse_gpus(name), context=8192, users=4)
        assert found.pick is not None
        assert found.pick.plan.verdict.outcome == "fits"
        assert found.pick.plan.resolved["gpu_memory_utilization"] <= SHARED_MEMORY


def test_a_strix_halo_that_may_take_all_memory_is_at_risk() -> None:
    risky = at(0.92, "Strix Halo 128GB gtt 120GB")
    assert risky.verdict.outcome == "at_risk" and "share the memory" in risky.verdict.risk
    assert at(0.5, "Strix Halo 128GB gtt 120GB").verdict.outcome == "fits"


ORDER = {"fits": 0, "at_risk": 1, "close": 2, "fails": 3}


@settings(max_examples=25, deadline=None)
@given(st.floats(0.3, 0.98), st.floats(0.3, 0.98), st.integers(3, 80))
def test_more_of_the_memory_and_a_busier_system_are_never_safer(first: float, second: float, used: int) -> None:
    low, high = sorted((round(first, 2), round(second, 2)))
    before, after = at(low).verdict, at(high).verdict
    if before.stage != "kv_check" and before.first_to_break != "kv_check":
        assert ORDER[before.outcome] <= ORDER[after.outcome]
    told, busier = at(low, f"DGX Spark used {used}GiB"), at(low, f"DGX Spark used {used + 10}GiB")
    assert ORDER[told.verdict.outcome] <= ORDER[busier.verdict.outcome]


COMMAND = "vllm serve Qwen/Qwen3-8B --max-model-len 8192"


@pytest.mark.parametrize(
    ("flags", "ram", "outcome"),
    [
        ("", "", "fits"),
        ("", "64GB", "fits"),
        ("", "4GB", "close"),
        ("", "2GB", "fails"),
        ("--kv-offloading-size 64", "64GB", "fails"),
        ("--kv-offloading-size 64", "128GB", "fits"),
        ("--enable-sleep-mode", "24GB", "at_risk"),
        ("--enable-sleep-mode", "64GB", "fits"),
    ],
)
def test_host_memory_decides(flags: str, ram: str, outcome: str) -> None:
    found = plan(f"{COMMAND} {flags}", gpu="RTX 4090", ram=ram, advise=False)
    assert found.verdict.outcome == outcome
    assert found.host is not None
    if outcome == "fails":
        assert found.verdict.stage == "host_ram"


def test_pinned_pools_are_rounded_up_to_a_power_of_two_until_0_26() -> None:
    """Posted: --kv-offloading-size 80 over two ranks took 64 GiB in each; 0.27.0 shares one file in /dev/shm."""
    command = f"{COMMAND} -tp 2 --kv-offloading-size 80"
    sizes = {}
    for release in ("0.26.0", "0.27.0"):
        host = plan(command, gpu="2x RTX 4090", engine=f"vllm=={release}", advise=False).host
        assert host is not None
        sizes[release] = next(part.bytes for part in host.parts if part.name == "KV cache in host memory")
    assert sizes == {"0.26.0": 128 * GIB, "0.27.0": 80 * GIB}


def test_llamacpp_holds_what_is_not_mapped() -> None:
    command = "llama-server -m Qwen3-32B-Q4_K_M.gguf -c 8192 -ngl 20"
    mapped, held = (plan(f"{command} {flag}", gpu="RTX 4090", advise=False).host for flag in ("", "--no-mmap"))
    assert mapped is not None and held is not None
    assert held.need_bytes - mapped.need_bytes > 8 * GIB
    assert any(part.name == "prompt cache" and part.bytes == 8 * GIB for part in mapped.later)


def test_lmcache_is_counted_for_every_worker() -> None:
    command = f"""LMCACHE_MAX_LOCAL_CPU_SIZE=20 {COMMAND} -tp 2 --kv-transfer-config
        '{{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}}'""".replace("\n", " ")
    host = plan(command, gpu="2x RTX 4090", advise=False).host
    assert host is not None
    assert next(part.bytes for part in host.parts if part.name == "LMCache") == 40 * GIB
