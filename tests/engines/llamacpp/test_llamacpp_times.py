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


# tests/truth/llamacpp_steps.jsonl: (card, model, tokens per second of one user who decodes)
SERVERS = (
    ("A100 SXM 80GB", "Qwen/Qwen3.6-27B:Q4_K_M", 46),
    ("H100 SXM", "google/gemma-4-31B-it:Q4_K_M", 68),
    ("B300", "Qwen/Qwen3.5-9B:Q4_K_M", 213),
    ("V100 PCIe 32GB", "google/gemma-4-31B-it:Q4_K_M", 28),
    ("P100 16GB", "Qwen/Qwen3.5-9B:Q4_K_M", 32),
    ("RTX 4090", "Qwen/Qwen3.6-27B:Q4_K_M", 47),
)


@pytest.mark.parametrize(("gpu", "name", "published"), SERVERS)
def test_a_vector_is_multiplied_at_the_clock_and_not_at_the_bandwidth(gpu: str, name: str, published: int) -> None:
    plan, _ = planned(name, gpu)
    times = timing(plan, None)
    assert times is not None
    assert speed_of(times, 1, 256).one_user == pytest.approx(published, rel=0.3)


PROMPTS = (
    ("H100 SXM", "Qwen/Qwen3.5-9B:Q8_0", 8106),
    ("L40S", "Qwen/Qwen3-8B:Q5_K_M", 7908),
    ("RTX 4090", "meta-llama/Llama-3.1-8B-Instruct:Q4_K_S", 9267),
    ("P40", "meta-llama/Llama-3.1-8B-Instruct:Q5_K_M", 808),
    ("RX 7900 XTX", "meta-llama/Llama-3.1-8B-Instruct:Q4_K_M", 3227),
)


@pytest.mark.parametrize(("gpu", "name", "published"), PROMPTS)
def test_tiles_of_a_prompt_are_as_fast_on_every_card(gpu: str, name: str, published: int) -> None:
    plan, _ = planned(name, gpu)
    times = timing(plan, None)
    assert times is not None
    ticks = times.time.fixed(512, 1) + times.time.chunk(times.groups, 0, 512)
    assert published / 1.5 < 512e15 / ticks < published * 1.5


def test_more_cards_in_a_row_are_no_faster_than_one() -> None:
    """Layers in a row wait for each other: the limit of a vector is that of one card."""
    one, two = (timing(planned("Qwen/Qwen3.6-27B:Q4_K_M", gpu)[0], None) for gpu in ("H100 SXM", "2x H100 SXM"))
    assert one is not None and two is not None
    assert two.time.weights == pytest.approx(one.time.weights, rel=0.01)
