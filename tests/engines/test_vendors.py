"""Which engine runs on whose GPUs, and that each finds a share of a memory that CPU and GPU have in common."""

from __future__ import annotations

import pytest

from oomph.answers.compare import compare
from oomph.answers.plan import plan
from oomph.engines.registry import NAMES, engine_named
from oomph.errors import CannotPlan
from oomph.search.fit import fit

CARDS = {"nvidia": "H100", "amd": "MI300X", "intel": "Arc Pro B60", "apple": "M4 Max 64GB"}
RUNS_ON = {
    "vllm": {"nvidia", "amd", "intel"}, "sglang": {"nvidia", "amd", "intel"}, "trtllm": {"nvidia"},
    "llamacpp": set(CARDS), "ollama": set(CARDS),
}  # fmt: skip
COMMANDS = {
    "vllm": "vllm serve Qwen/Qwen3-8B", "sglang": "python -m sglang.launch_server --model-path Qwen/Qwen3-8B",
    "trtllm": "trtllm-serve Qwen/Qwen3-8B", "llamacpp": "llama-server -m Qwen3-8B-Q4_K_M.gguf",
    "ollama": "ollama run qwen3:8b",
}  # fmt: skip


def test_every_engine_and_vendor_is_in_the_tables() -> None:
    assert set(RUNS_ON) == set(COMMANDS) == set(NAMES)


@pytest.mark.parametrize("vendor", CARDS)
@pytest.mark.parametrize("engine", NAMES)
def test_an_engine_plans_and_fits_only_where_it_runs(engine: str, vendor: str) -> None:
    if vendor in RUNS_ON[engine]:
        assert plan(COMMANDS[engine], gpu=CARDS[vendor], advise=False).ranks
        return
    with pytest.raises(CannotPlan, match=engine_named(engine).title):
        plan(COMMANDS[engine], gpu=CARDS[vendor], advise=False)
    with pytest.raises(CannotPlan, match=engine_named(engine).title):
        fit("Qwen/Qwen3-8B", CARDS[vendor], engine=engine, context=4096, users=1)


def test_compare_takes_no_engine_that_does_not_run_there() -> None:
    answer = compare("Qwen/Qwen3-8B", gpu="M4 Max 64GB")
    assert {row.engine for row in answer.rows if row.fits} == {"llamacpp", "ollama"}
    assert all(engine_named(row.engine).title in row.why for row in answer.rows if not row.fits)
    assert (
        answer.advice.startswith("none of vLLM, SGLang and TensorRT-LLM holds")
        and "llama.cpp holds it" in answer.advice
    )


@pytest.mark.parametrize(
    ("release", "gpu", "published"),
    [("0.19.0", "V100 SXM2 32GB", True), ("0.20.0", "V100 SXM2 32GB", False), ("0.20.0", "T4", True),
     ("0.19.0", "P40", False), ("0.32.0", "MI300X", True), ("0.8.5", "B200", False), ("0.9.0", "B200", True),
     ("0.9.0", "RTX 5090", False), ("0.9.2", "RTX 5090", True), ("0.8.5", "H100", True)],
)  # fmt: skip
def test_a_card_for_which_no_wheel_has_kernels_is_offered_nothing(release: str, gpu: str, published: bool) -> None:
    engine = f"vllm=={release}"
    answer = plan("vllm serve Qwen/Qwen3-0.6B --max-model-len 4096", gpu=gpu, engine=engine, advise=False)
    assert ("is published for compute capability" in answer.verdict.message) is not published
    if published:
        assert fit("Qwen/Qwen3-0.6B", gpu, engine=engine, context=4096, users=1, only=True).pick is not None
    else:
        with pytest.raises(CannotPlan, match="is published for compute capability"):
            fit("Qwen/Qwen3-0.6B", gpu, engine=engine, context=4096, users=1)


def test_compare_offers_an_old_card_what_runs_on_it() -> None:
    answer = compare("Qwen/Qwen3-8B", gpu="P40")
    assert {row.engine for row in answer.rows if row.fits} == {"llamacpp", "ollama"}


def test_sglang_refuses_old_cards_in_its_own_words() -> None:
    answer = plan(COMMANDS["sglang"], gpu="V100 SXM2 32GB", advise=False)
    assert answer.verdict.message == "RuntimeError: SGLang only supports sm75 and above."
    assert plan(COMMANDS["sglang"], gpu="RTX 2080 Ti", advise=False).ranks


@pytest.mark.parametrize("gpu", ["DGX Spark", "Thor", "Orin 64GB"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_fit_finds_a_share_of_a_memory_that_the_host_lives_in(engine: str, gpu: str) -> None:
    answer = fit("Qwen/Qwen3-8B", gpu, engine=engine, context=8192, users=2)
    assert answer.pick is not None and answer.pick.plan.verdict.outcome == "fits"


def test_a_server_that_may_drain_its_host_is_told_a_smaller_share() -> None:
    answer = plan("python -m sglang.launch_server --model-path Qwen/Qwen3-8B", gpu="DGX Spark")
    assert answer.verdict.outcome == "at_risk" and answer.advice is not None
    cheapest = answer.advice.fixes[0]
    assert cheapest.change.lever == "mem_fraction_static_down" and cheapest.tokens > 100_000
