"""The parts of a step, by what the card and the server can do."""

from __future__ import annotations

from functools import cache

from oomph.simulate.build import prepare
from oomph.simulate.timing import StepTime


@cache
def step(gpu: str, command: str) -> StepTime:
    return prepare(f"vllm serve {command} --max-model-len 4096", gpu=gpu, engine="vllm==0.21.0").built.time


def test_eight_bits_are_faster_where_the_card_has_units_for_them() -> None:
    plain, eight = step("H100", "Qwen/Qwen3-8B"), step("H100", "Qwen/Qwen3-8B --quantization fp8")
    assert eight.linear * 2 == plain.linear and eight.base > plain.base  # its inputs are quantised first
    ampere, without_units = step("A100 80GB", "Qwen/Qwen3-8B"), step("A100 80GB", "Qwen/Qwen3-8B --quantization fp8")
    assert without_units.linear > ampere.linear and without_units.base == ampere.base
    assert without_units.weights < ampere.weights


def test_tensor_parallelism_costs_most_through_the_host() -> None:
    host, peers, nvlink = (step(f"2x {card}", "Qwen/Qwen3-8B -tp 2") for card in ("RTX 4090", "L40S", "H100"))
    assert host.reduce > peers.reduce > nvlink.reduce and host.reduce_large < host.reduce
    assert host.base > peers.base > nvlink.base
    alone = step("RTX 4090", "Qwen/Qwen3-8B")
    assert (alone.reduce, alone.reduce_large) == (0, 0)
    assert host.fixed(4096, 1) > host.fixed(2048, 1) > host.fixed(1, 1)


def test_more_api_servers_stream_more() -> None:
    one, four = step("H100", "Qwen/Qwen3-0.6B"), step("H100", "Qwen/Qwen3-0.6B --api-server-count 4")
    assert four.output * 4 == one.output and four.stream * 4 == one.stream
    assert one.fixed(2000, 2000) == one.output * 2000 > four.fixed(2000, 2000)


def test_a_slower_step_is_slower_in_all_its_parts() -> None:
    time = step("2x RTX 4090", "Qwen/Qwen3-8B -tp 2")
    slower = time.scaled(2)
    assert slower.large == time.large and slower.reduce == 2 * time.reduce and slower.kv[0] == 2 * time.kv[0]
    assert slower.fixed(100, 3) == 2 * time.fixed(100, 3)
