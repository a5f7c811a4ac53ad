"""Sets of flags that need no plan, settings between two ends, and fit's answer where three flags are not enough."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

import oomph.advice.combine as combine
from oomph import catalog
from oomph.advice.combine import around_a_middle, is_out_of_reach, smallest_combination
from oomph.advice.judge import Judge
from oomph.answers.plan import parse, plan, run, with_advice
from oomph.errors import OomphError
from oomph.ir.advice import Advice, Change, Lever
from oomph.ir.deployment import Deployment
from oomph.ir.plan import Plan
from oomph.sources.gpu import parse_gpus

LENGTH = Lever("max_model_len", (Change("max_model_len", "--max-model-len 1", flags={"max_model_len": 1}),))
GRAPHS = Lever("graphs", (Change("graphs", "--eager", flags={"enforce_eager": True}),), frees=("cudagraph",))


def short_of_cache() -> Plan:
    return plan("vllm serve Qwen/Qwen3-32B-AWQ", gpu="RTX 4090", engine="vllm==0.32.0", advise=False)


def test_what_frees_less_than_is_short_is_out_of_reach() -> None:
    before = short_of_cache()
    assert before.verdict.stage == "kv_check"
    assert is_out_of_reach(before, [GRAPHS])
    assert not is_out_of_reach(before, [GRAPHS, LENGTH])  # a shorter request needs less
    assert not is_out_of_reach(before, [replace(GRAPHS, frees=("weights",))])
    assert not is_out_of_reach(plan("vllm serve Qwen/Qwen3-8B", gpu="H100", advise=False), [GRAPHS])


@pytest.mark.parametrize("seed", range(6))
def test_no_answer_is_lost(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice is the same where every set is planned."""
    source = random.Random(seed)
    names, answers = list(catalog.ids()), list[Advice]()
    while len(answers) < 3:
        gpu = source.choice(("RTX 4090", "RTX 3090", "L4", "RTX 5060 Ti 16GB", "H100"))
        try:
            before = plan(f"vllm serve {source.choice(names)}", gpu=gpu, engine="vllm==0.32.0", advise=False)
        except OomphError:
            continue
        if before.verdict.stage != "kv_check":
            continue
        bounded = with_advice(before).advice
        with monkeypatch.context() as patch:
            patch.setattr(combine, "is_out_of_reach", lambda plan, levers: False)
            assert with_advice(before).advice == bounded
        assert bounded is not None
        answers.append(bounded)


def test_an_idle_flag_is_part_of_no_set() -> None:
    before = short_of_cache()
    fitting = plan("vllm serve Qwen/Qwen3-8B", gpu="H100", advise=False)

    def planner(deployment: Deployment) -> Plan:
        return fitting if {"swap_space", "max_model_len"} <= deployment.flags.keys() else before

    swap = Lever("swap_space", (Change("swap_space", "--swap-space 4", flags={"swap_space": 4}),), idle="never read")
    judge = Judge(before, planner, lambda deployment: "")
    assert not list(smallest_combination(judge, [swap, LENGTH]))


def test_a_setting_between_two_ends_is_combined() -> None:
    """On memory that the CPU shares too high a budget and too low a one fail alike."""
    before = short_of_cache()
    fitting = plan("vllm serve Qwen/Qwen3-8B", gpu="H100", advise=False)
    risky = replace(fitting, verdict=replace(fitting.verdict, risk="the host"))

    def planner(deployment: Deployment) -> Plan:
        if deployment.flags.get("share") != 2:
            return before
        return fitting if "enforce_eager" in deployment.flags else risky

    shares = tuple(Change("share", f"--share {n}", flags={"share": n}) for n in (3, 2, 1))
    judge = Judge(before, planner, lambda deployment: "")
    (answer,) = around_a_middle(judge, [Lever("share", shares, two_sided=True), replace(GRAPHS, frees=None)])
    assert answer.change.flags == {"share": 2, "enforce_eager": True}


def test_gpt_oss_on_a_dgx_spark_needs_no_other_card() -> None:
    advice = plan("vllm serve openai/gpt-oss-120b", gpu="DGX Spark", engine="vllm==0.32.0").advice
    assert advice is not None
    first = advice.fixes[0]
    assert first.change.kind == "flag" and "gpu_memory_utilization" in first.change.flags
    assert_fits(first.command, "DGX Spark")


@pytest.mark.parametrize(
    ("command", "gpu"),
    [
        ("vllm serve Qwen/Qwen3-32B-AWQ", "RTX 4090"),
        ("vllm serve Qwen/Qwen3-32B", "RTX 4090"),
        ("vllm serve nvidia/Gemma-4-31B-IT-NVFP4 -tp 2", "2x RTX 5070 Ti"),
    ],
)
def test_a_fix_that_keeps_more_of_the_context_stands_beside_one_that_cuts_it(command: str, gpu: str) -> None:
    answer = plan(command, gpu=gpu, engine="vllm==0.32.0")
    assert answer.advice is not None
    lengths = [fix.change.flags.get("max_model_len", answer.resolved["max_model_len"]) for fix in answer.advice.fixes]
    assert max(lengths) >= 2 * min(lengths) and 4 * min(lengths) < answer.resolved["max_model_len"]
    assert lengths[0] == max(lengths)  # what fit picks on these GPUs comes before what cuts most of it away
    for fix in answer.advice.fixes:
        assert len(fix.change.flags) <= combine.MOST_FLAGS or fix.change.lever == "fit"
        assert_fits(fix.command, gpu)


def test_a_context_that_stays_long_needs_no_further_line() -> None:
    advice = plan("vllm serve Qwen/Qwen3-8B --max-model-len 40960", gpu="RTX 4090", engine="vllm==0.32.0").advice
    assert advice is not None
    assert all(" + " not in fix.change.lever for fix in advice.fixes)


@pytest.mark.parametrize(
    ("command", "gpu"),
    [
        ("vllm serve Qwen/Qwen2.5-32B", "DGX Spark"),
        ("vllm serve RedHatAI/Qwen3-14B-NVFP4 --gpu-memory-utilization 0.8", "RTX 3060 12GB"),
    ],
)
def test_fits_answer_is_given_where_three_flags_are_not_enough(command: str, gpu: str) -> None:
    answer = plan(command, gpu=gpu, engine="vllm==0.32.0")
    assert answer.advice is not None
    first = answer.advice.fixes[0]
    assert first.change.kind not in ("hardware", "offload")
    assert_fits(first.command, gpu)


def assert_fits(command: str, gpu: str) -> None:
    deployment = replace(parse(command, "vllm==0.32.0"), gpus=parse_gpus(gpu))
    assert run(deployment).verdict.outcome == "fits"
