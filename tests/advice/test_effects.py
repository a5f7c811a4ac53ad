"""The judge at its boundaries: how much is a gain, what is refused, what stands behind which stage (`make mutants`)."""

from __future__ import annotations

from functools import cache

import pytest
from msgspec.structs import replace

from oomph.advice.combine import MOST_FLAGS, smallest_combination
from oomph.advice.judge import LEAST_GAIN, Judge, gain, is_earlier, tokens
from oomph.answers.plan import plan, try_changes
from oomph.errors import InputError
from oomph.ir.advice import Change, Lever
from oomph.ir.deployment import Deployment
from oomph.ir.plan import Plan
from oomph.ir.timeline import STAGES

ONE = Change("max_num_seqs", "--max-num-seqs 8", flags={"max_num_seqs": 8})
OTHER = Change("max_model_len", "--max-model-len 64", flags={"max_model_len": 64})


@cache
def fitting() -> Plan:
    return plan("vllm serve Qwen/Qwen3-8B --max-model-len 8192", gpu="RTX 4090", engine="vllm==0.21.0", advise=False)


@cache
def failing() -> Plan:
    return plan("vllm serve Qwen/Qwen3-8B", gpu="RTX 4070", engine="vllm==0.21.0", advise=False)


def with_kv(plan: Plan, more: int) -> Plan:
    assert plan.kv is not None
    return replace(plan, kv=replace(plan.kv, available_bytes=plan.kv.available_bytes + more))


def judge_of(before: Plan, after: Plan | None) -> Judge:
    def planner(_: Deployment) -> Plan:
        if after is None:
            raise InputError("no such model")
        return after

    return Judge(before, planner, lambda deployment: "")


@pytest.mark.parametrize(
    ("more", "effect"),
    [(LEAST_GAIN - 1, "nothing"), (LEAST_GAIN, "helps"), (1 - LEAST_GAIN, "nothing"), (-LEAST_GAIN, "worse")],
)
def test_a_mebibyte_is_the_least_that_counts(more: int, effect: str) -> None:
    judged = judge_of(fitting(), with_kv(fitting(), more)).judge(ONE)
    assert (judged.effect, judged.gain_bytes) == (effect, more)


def test_the_gain_of_a_plan_that_fits_is_its_cache_and_nothing_where_it_then_fails() -> None:
    assert "host" not in fitting().resolved
    assert gain(fitting(), with_kv(fitting(), 5)) == 5
    assert gain(fitting(), failing()) == 0


def test_the_gain_of_layers_on_the_host_is_what_comes_back_to_the_gpu() -> None:
    few, many = (
        replace(fitting(), resolved={**fitting().resolved, "host": {"weights": size}}) for size in (3 << 30, 5 << 30)
    )
    assert gain(many, few) == 2 << 30


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_gain_is_that_of_the_rank_that_fails_or_of_the_last(rank: int) -> None:
    before, first = failing(), failing().ranks[0]
    second = replace(first, total_bytes=first.total_bytes + 7)
    verdict = replace(before.verdict, rank=rank)
    after = replace(before, ranks=(first, second), verdict=verdict)
    assert gain(before, after) == (7 if rank else 0)


@pytest.mark.parametrize("stage", STAGES)
def test_a_plan_without_a_stage_counts_as_the_first_trouble_of_all(stage: str) -> None:
    assert is_earlier(None, stage) == is_earlier("other", stage)
    assert is_earlier(stage, None) == is_earlier(stage, "other")
    assert not is_earlier(stage, stage)


def test_a_refused_change_neither_fixes_nor_may_fix() -> None:
    judge = judge_of(failing(), None)
    assert not judge.fixes(ONE) and not judge.may_fix(ONE)
    levers = [Lever("max_num_seqs", (ONE,)), Lever("max_model_len", (OTHER,))]
    assert not list(smallest_combination(judge, levers, base=Change("checkpoint", "other/model", model="other/model")))


def test_one_further_flag_is_enough_beside_a_change_in_force() -> None:
    def planner(deployment: Deployment) -> Plan:
        return fitting() if deployment.flags.get("max_num_seqs") == 8 and deployment.model == "a/b" else failing()

    judge = Judge(failing(), planner, lambda deployment: "")
    base = Change("checkpoint", "a/b", model="a/b")
    (answer,) = smallest_combination(judge, [Lever("max_num_seqs", (ONE,))], base=base)
    assert answer.effect == "fixes" and answer.change.flags == ONE.flags


def test_what_if_counts_the_tokens_beyond_those_of_now() -> None:
    rows = try_changes(fitting()).rows
    assert rows
    for row in rows:
        assert row.tokens_change is None or row.tokens_change == row.judged.tokens - tokens(fitting())


@pytest.mark.parametrize("needed", [2, MOST_FLAGS, MOST_FLAGS + 1])
def test_a_set_has_at_most_three_flags(needed: int) -> None:
    names = [f"flag_{number}" for number in range(needed)]

    def planner(deployment: Deployment) -> Plan:
        return fitting() if all(name in deployment.flags for name in names) else failing()

    levers = [Lever(name, (Change(name, name, flags={name: 1}),)) for name in names]
    answers = list(smallest_combination(Judge(failing(), planner, lambda deployment: ""), levers))
    assert [set(answer.change.flags) for answer in answers] == ([set(names)] if needed <= MOST_FLAGS else [])
