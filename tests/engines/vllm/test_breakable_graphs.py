"""Models whose graphs are cut while they are captured are not compiled (config/vllm.py, release by release)."""

from __future__ import annotations

import pytest

from oomph.answers.plan import plan
from oomph.engines.vllm.graphs.modes import breaks_graphs, compiles, cudagraph_mode
from oomph.facts.vllm.facts import at

SPARSE = "deepseek-ai/DeepSeek-V3.2"


@pytest.mark.parametrize(
    ("architecture", "first"),
    [
        ("DeepseekV4ForCausalLM", "0.23.0"), ("MiniMaxM3SparseForCausalLM", "0.24.0"),
        ("KimiLinearForCausalLM", "0.27.0"),
        ("DeepseekV32ForCausalLM", "0.29.0"), ("GlmMoeDsaForCausalLM", "0.29.0"), ("Qwen4ExpForCausalLM", "0.30.0"),
        ("Qwen3ForCausalLM", ""),
    ],
)  # fmt: skip
def test_since_when(architecture: str, first: str) -> None:
    releases = ("0.22.0", "0.23.0", "0.24.0", "0.27.0", "0.29.0", "0.30.0", "0.32.0")
    broken = [release for release in releases if breaks_graphs(architecture, {}, at(release).capture, "nvidia")]
    assert broken == [release for release in releases if first and releases.index(release) >= releases.index(first)]


def test_amds_cards_keep_the_compiler_since_0_30() -> None:
    names = ("DeepseekV32ForCausalLM", "DeepseekV4ForCausalLM", "DeepseekV41ForCausalLM")
    for release, expected in (("0.28.0", [False, True, False]), ("0.29.0", [False, True, False]),
                              ("0.30.0", [False, False, True])):  # fmt: skip
        assert [breaks_graphs(name, {}, at(release).capture, "amd") for name in names] == expected


def test_the_variable_decides_for_any_model() -> None:
    capture, name = at("0.32.0").capture, "VLLM_USE_BREAKABLE_CUDAGRAPH"
    assert breaks_graphs("Qwen3ForCausalLM", {name: "1"}, capture, "nvidia")
    assert not breaks_graphs("DeepseekV32ForCausalLM", {name: "0"}, capture, "nvidia")
    assert not breaks_graphs("Qwen3ForCausalLM", {name: "1"}, at("0.22.0").capture, "nvidia")


def test_graphs_stay_piecewise_without_a_compiler() -> None:
    capture = at("0.32.0").capture
    assert not compiles({}, breakable=True)
    for flags in ({}, {"compilation_config": {"mode": 0}}):
        mode = cudagraph_mode(flags, capture, pooling=False, encoder_decoder=False, breakable=True)
        assert mode == "FULL_AND_PIECEWISE"


def test_a_plan_of_each() -> None:
    """No compiler has a first start of its own; a cold and a warm cache of it are alike."""
    told = [
        plan(
            f"VLLM_USE_BREAKABLE_CUDAGRAPH={value} vllm serve {SPARSE} -tp 8 --max-model-len 8192",
            gpu="8x H200", engine="vllm==0.32.0", compile_cache=cache, advise=False,
        ).ranks[0].terms["activation_peak"].bytes
        for value in (1, 0)
        for cache in ("cold", "warm")
    ]  # fmt: skip
    assert told[0] == told[1] < told[2]
