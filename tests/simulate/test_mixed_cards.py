"""Cards of several kinds in one machine: ranks that share a layer wait for the slowest, layers in a row add up."""

from __future__ import annotations

import shlex

import pytest
from msgspec.structs import replace

from oomph.answers.plan import parse, run
from oomph.engines.registry import engine_of
from oomph.simulate.speed import speed_of
from oomph.sources.gpu import parse_gpus
from oomph.sources.load import load_once

MODEL = "Qwen/Qwen3-14B-FP8"
FAST, SLOW = "RTX 4090", "RTX 3060 12GB"
SHARED = {
    "vllm": f"vllm serve {MODEL} -tp 2 --max-model-len 8192",
    "sglang": f"python -m sglang.launch_server --model-path {MODEL} --tp-size 2 --context-length 8192",
}
IN_A_ROW = {
    "llamacpp": "llama-server -hf Qwen/Qwen3-14B:Q8_0 -c 8192 -np 1 -ngl 99",
    "ollama": "OLLAMA_SCHED_SPREAD=1 OLLAMA_CONTEXT_LENGTH=8192 ollama run qwen3:14b",
}


def rate(command: str, gpus: str) -> float:
    deployment = replace(parse(shlex.split(command), ""), gpus=parse_gpus(gpus))
    engine, plan = engine_of(deployment), run(deployment, None)
    model = load_once(deployment.model) if engine.layout == "ranks" else None
    timing = engine.timing(plan, model)
    assert timing is not None
    return speed_of(timing, 1).one_user


@pytest.mark.parametrize("engine", SHARED)
def test_ranks_that_share_a_layer_are_as_fast_as_the_slowest(engine: str) -> None:
    slow = rate(SHARED[engine], f"2x {SLOW}")
    mixed = [rate(SHARED[engine], f"{first}, {second}") for first, second in ((FAST, SLOW), (SLOW, FAST))]
    assert mixed == pytest.approx([slow, slow], rel=0.03)


@pytest.mark.parametrize("engine", IN_A_ROW)
def test_layers_in_a_row_take_the_time_of_each_card(engine: str) -> None:
    fast, slow = (rate(IN_A_ROW[engine], f"2x {card}") for card in (FAST, SLOW))
    for gpus in (f"{FAST}, {SLOW}", f"{SLOW}, {FAST}"):
        mixed = rate(IN_A_ROW[engine], gpus)
        assert 1.1 * slow < mixed < 0.9 * fast
