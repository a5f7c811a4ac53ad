"""Weights in host memory cost their bytes over what connects them, whichever engine reads them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from oomph.answers.plan import parse, run
from oomph.engines.common.offload import CPU_REACHED, DESKTOP, LINK_REACHED, host_memory, pcie
from oomph.engines.registry import engine_of
from oomph.facts.gpus import find
from oomph.ir import Device, Plan
from oomph.simulate.speed import speed_of
from oomph.sources.gpu import parse_gpus
from oomph.sources.load import load_once

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
import accuracy_offload


def planned(gpu: str, command: str, **machine: Any) -> Plan:
    return run(replace(parse(command.split(), ""), gpus=parse_gpus(gpu), **machine), None)


def rate(gpu: str, command: str, **machine: Any) -> float:
    """Tokens per second of one user."""
    plan = planned(gpu, command, **machine)
    engine = engine_of(plan.deployment)
    timing = engine.timing(plan, load_once(plan.deployment.model) if engine.layout == "ranks" else None)
    assert timing is not None
    return speed_of(timing, 1).one_user


@pytest.mark.parametrize(("gpu", "gigabytes"), [
    ("RTX 4090", 32), ("RTX 5090", 64), ("RTX 5060 Ti 16GB", 32), ("RTX 2080 Ti", 16), ("H100", 64), ("V100 32GB", 16),
    ("RX 7600 XT", 16), ("MI300X", 64),
])  # fmt: skip
def test_a_card_has_the_pcie_of_its_row_or_of_its_age(gpu: str, gigabytes: int) -> None:
    assert pcie(parse_gpus(gpu)[0], find(gpu)) == gigabytes * 1e9


def device_memory(gpu: str) -> tuple[Device, Any]:
    plan = planned(gpu, "vllm serve Qwen/Qwen3-0.6B")
    device = plan.deployment.gpus[0]
    return device, host_memory(plan.deployment, device, find(gpu))


def test_a_grace_reaches_its_memory_faster_than_any_pcie_and_a_jetson_at_its_own_bandwidth() -> None:
    assert device_memory("GH200")[1].link > 5 * device_memory("H100")[1].link
    jetson, memory = device_memory("Jetson AGX Orin 64GB")
    assert memory.link == jetson.bandwidth * LINK_REACHED


def test_a_desktop_has_two_channels_until_somebody_says_otherwise() -> None:
    _, memory = device_memory("RTX 4090")
    assert memory.cpu == DESKTOP * CPU_REACHED
    plan = planned("RTX 4090", "vllm serve Qwen/Qwen3-0.6B", ram_bandwidth=200_000_000_000)
    told = host_memory(plan.deployment, plan.deployment.gpus[0], None)
    assert told.cpu == 200e9 * CPU_REACHED


@pytest.mark.parametrize("command", [
    "vllm serve Qwen/Qwen3-14B --max-model-len 8192 --cpu-offload-gb",
    "python -m sglang.launch_server --model-path Qwen/Qwen3-14B --context-length 8192 --cpu-offload-gb",
])  # fmt: skip
def test_sixteen_gibibytes_over_pcie_take_most_of_a_second(command: str) -> None:
    offloaded = rate("RTX 4090", f"{command} 16", ram_bytes=1 << 38)
    seconds = (16 << 30) / (32e9 * LINK_REACHED)
    assert 0.8 / seconds < offloaded < 1 / seconds
    assert rate("RTX 5090", f"{command} 16", ram_bytes=1 << 38) > 1.5 * offloaded  # PCIe 5.0


def test_of_experts_in_host_memory_vllm_reads_those_that_a_token_has() -> None:
    command = "--cpu-offload-gb 45"
    read = rate("RTX 4090", f"vllm serve Qwen/Qwen3-30B-A3B --max-model-len 4096 {command}", ram_bytes=1 << 38)
    copied = rate("RTX 4090", f"python -m sglang.launch_server --model-path Qwen/Qwen3-30B-A3B --context-length 4096"
                  f" {command}", ram_bytes=1 << 38)  # fmt: skip
    assert read > 5 * copied


def test_more_on_the_cpu_is_slower() -> None:
    base = "llama-server -hf Qwen/Qwen3-30B-A3B:Q4_K_M -c 4096 -np 1 -ngl 99"
    rates = [rate("RTX 4090", f"{base} {more}") for more in ("", "--n-cpu-moe 12", "--n-cpu-moe 36", "--cpu-moe")]
    assert rates == sorted(rates, reverse=True)
    layers = [rate("RTX 4090", f"llama-server -hf Qwen/Qwen3-14B:Q4_K_M -c 4096 -np 1 -ngl {n}") for n in (99, 30, 10)]
    assert layers == sorted(layers, reverse=True)
    assert layers[0] > 4 * layers[-1]


def test_published_speeds_are_met_within_a_factor_of_two() -> None:
    """In 80 of 100 of the releases that oomph plans."""
    factors = []
    for row in accuracy_offload.rows():
        if "release" not in row:
            computed = accuracy_offload.predicted(row)
            assert computed
            factors.append(max(computed / row["tokens_per_second"], row["tokens_per_second"] / computed))
    assert len(factors) >= 15
    assert sum(factor <= 2 for factor in factors) >= 0.8 * len(factors)
