"""Times of a GGUF model: what its tensors are multiplied in, and what a kernel costs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

import oomph
from oomph.answers.plan import parse, run
from oomph.engines.llamacpp.source import gguf_for
from oomph.engines.llamacpp.timing import METAL, timing
from oomph.ir import Model, Plan
from oomph.simulate.speed import speed_of
from oomph.sources.gpu import parse_gpus

NAMES = ("openai/gpt-oss-20b:MXFP4_MOE", "Qwen/Qwen3-8B:Q4_K_M", "Qwen/Qwen3-30B-A3B:Q4_K_M")


def planned(name: str, gpu: str) -> tuple[Plan, Model]:
    words = ["llama-server", "-hf", name, "-c", "8192", "-np", "1", "-ngl", "99"]
    return run(replace(parse(words, ""), gpus=parse_gpus(gpu)), None), gguf_for(name)[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_gguf_form_takes_as_long_as_the_checkpoint(name: str) -> None:
    plan, model = planned(name, "RTX 5090")
    alone, simulated = timing(plan, None), timing(plan, model)
    assert alone is not None and alone == simulated
    assert simulated.time.linear > 0  # a prompt is multiplied, not only read
    assert (simulated.time.experts > 0) == (name != NAMES[1])


def test_a_mac_pays_for_every_kernel() -> None:
    plan, model = planned(NAMES[1], "M2 Pro 32GB")
    mac = timing(plan, model)
    assert mac is not None
    kernels = (mac.time.base / 1e15 - METAL.overhead_ms / 1e3) / (METAL.kernel_us / 1e6)
    assert 300 < kernels < 600
    assert speed_of(mac, 1, 50).one_user == pytest.approx(33, rel=0.15)  # 34.1 and 33.0 were posted of such a model


def test_simulate_reads_the_experts() -> None:
    result = oomph.simulate("ollama run gpt-oss:20b", gpu="R9700", users=1, prompt=100, output=200).result
    assert result is not None and 163.26 / 1.3 < result.output_tokens_per_second < 163.26 * 1.3
