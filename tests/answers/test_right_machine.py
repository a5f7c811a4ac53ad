"""What runs on a machine is asked of the engine that runs there, and its memory is counted once."""

from __future__ import annotations

import pytest

from oomph.answers.compare import compare
from oomph.answers.plan import plan
from oomph.engines.llamacpp.timing import timing
from oomph.errors import CannotPlan
from oomph.ir.objective import READING
from oomph.search.fit import fit
from oomph.search.models import models
from oomph.search.request import Options, Want
from oomph.simulate.speed import speed_of
from oomph.units import GIB

EXPERTS = "llama-server -hf unsloth/gpt-oss-120b-GGUF:Q8_0 -c 32768 -np 1"


def test_experts_on_the_cpu_of_a_mac_are_in_the_memory_that_its_gpu_shares() -> None:
    """59 GiB of weights: 44.8 for the GPU of 48 GiB and 14.3 for the CPU, in a machine of 64 GiB."""
    answer = plan(EXPERTS, gpu="M4 Max 64GB", advise=False)
    assert answer.verdict.outcome == "at_risk" and "host is short" in answer.verdict.risk
    assert answer.host is not None and answer.host.held_bytes > 13 * GIB
    assert "the CPU's part of it" in answer.text()
    assert plan(EXPERTS, gpu="M4 Max 128GB", advise=False).verdict.outcome == "fits"


def test_models_proposes_no_more_than_a_shared_memory_holds() -> None:
    assert all("gpt-oss-120b" not in pick.plan.model for pick in models("M4 Max 64GB").picks)


@pytest.mark.parametrize(("gpu", "why"), [("M4 Max 64GB", "no kernels for Apple"), ("P40", "compute capability")])
def test_fit_asks_llama_cpp_where_the_usual_engine_does_not_run(gpu: str, why: str) -> None:
    answer = fit("Qwen/Qwen3-14B", gpu)
    assert answer.met and answer.engine == "llama.cpp" and any(why in note for note in answer.notes)
    with pytest.raises(CannotPlan, match=why):  # an engine that is named is the one that is asked
        fit("Qwen/Qwen3-14B", gpu, engine="vllm")
    with pytest.raises(CannotPlan, match=why):  # and so is a wish that only it can meet
        fit("Qwen/Qwen3-14B", gpu, Want(options=Options(drafts=(1,))))


def test_a_plan_that_no_flag_mends_names_a_search_by_its_own_engine() -> None:
    answer = plan("llama-server -hf Qwen/Qwen3-235B-A22B-GGUF:Q8_0 -c 32768 -ngl 99", gpu="M4 Pro 24GB")
    assert answer.advice is not None
    assert not answer.advice.next_step or "--engine llamacpp" in answer.advice.next_step


@pytest.mark.parametrize("engine", ["llamacpp", "ollama"])
def test_a_file_that_nobody_can_read_along_with_gives_way_to_one_in_fewer_bits(engine: str) -> None:
    """70B in 8 bits at 546 GB/s: 4.4 tokens/s."""
    pick = fit("meta-llama/Llama-3.3-70B-Instruct", "M4 Max 128GB", engine=engine).pick
    assert pick is not None and pick.speed is not None
    assert pick.speed.one_user >= READING and "Q8_0" not in pick.plan.model


def test_compare_takes_of_engines_with_a_part_on_the_cpu_what_keeps_more_bits() -> None:
    table = compare("Qwen/Qwen3-Coder-30B-A3B-Instruct", gpu="RTX 5060 Ti 16GB", engines=("llamacpp", "ollama"))
    bits = {row.engine: row.bits for row in table.rows}
    rates = {row.engine: row.tokens_per_second_each or 0.0 for row in table.rows}
    assert not any(row.on_gpu for row in table.rows) and min(rates.values()) >= READING
    assert bits["llamacpp"] > bits["ollama"] + 2 and rates["ollama"] > rates["llamacpp"]
    assert "llama.cpp runs it" in table.advice


@pytest.mark.parametrize(("gpu", "gb_per_s"), [("P40", 347), ("GTX 1080 Ti", 484)])
def test_pascal_multiplies_in_bytes(gpu: str, gb_per_s: int) -> None:
    """Its 16-bit units are 1/64 as fast as its 32-bit ones, and llama.cpp uses neither for products: a token of an 8B
    takes about twice its bytes over the memory's bandwidth (a GTX 1080 with 320 GB/s: 28 tokens/s of 5.7 GB were
    published, tests/truth/llamacpp_steps.jsonl)."""
    answer = plan("llama-server -m Llama-3.1-8B-Instruct-Q4_K_M.gguf -c 8192 -np 1", gpu=gpu, advise=False)
    known = timing(answer, None)
    assert known is not None
    rate = speed_of(known, 1).one_user
    ceiling = gb_per_s * 1e9 / answer.ranks[0].terms["weights"].bytes
    assert ceiling / 2.5 < rate < ceiling
