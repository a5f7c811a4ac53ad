"""Questions that two commands answer: both answers are the same, or one says why not."""

from __future__ import annotations

from typing import Any

import pytest

import oomph
from oomph.answers.plan import plan
from oomph.search.request import Want
from oomph.units import parse_count, parse_tokens


def test_one_model_on_one_card_by_fit_gpus_models_and_plan() -> None:
    """C1: Qwen3-14B on one RTX 3060."""
    fit = oomph.fit("Qwen/Qwen3-14B", gpu="RTX 3060")
    assert fit.pick is not None and fit.pick.speed is not None
    assert "offload" not in str(fit.pick.plan.deployment.flags)
    assert 12 < fit.pick.speed.one_user < 45  # 360 GB/s and 9.3 GiB of weights
    cards: Any = oomph.gpus("Qwen/Qwen3-14B", cards=("RTX 3060",))
    assert [(card.count, card.checkpoint) for card in cards.cards] == [(1, fit.pick.point.arm.model)]


def test_a_flag_that_fixes_is_not_useless() -> None:
    """C2."""
    advice = plan("python -m sglang.launch_server --model-path openai/gpt-oss-120b", gpu="H100").advice
    assert advice is not None and advice.fixes
    for fix in advice.fixes:
        assert all(fix.change.flags.keys() != other.change.flags.keys() for other in advice.useless)


def test_compare_and_fit_agree_on_what_an_engine_serves() -> None:
    """C3: 200 users of 8,192 tokens, gpt-oss-120b on two H100."""
    table = oomph.compare("openai/gpt-oss-120b", gpu="2x H100", context=8192, users=200, engines=("vllm", "sglang"))
    fit = oomph.fit("openai/gpt-oss-120b", gpu="2x H100", context=8192, users=200)
    assert fit.pick is not None
    row = table.rows[0]
    assert row.command == " ".join(fit.to_dict()["pick"]["args"])
    assert "fp8" in table.rows[1].command and "fp8" in row.command  # the same freedom for both


def test_no_placement_is_called_the_best_that_a_plan_beats() -> None:
    """C5: shares of 0.85 and 0.1 as wishes on two H100."""
    packed = oomph.pack([
        "vllm serve openai/gpt-oss-120b -tp 2 --max-model-len 65536 --gpu-memory-utilization 0.85",
        "vllm serve Qwen/Qwen3-Embedding-0.6B --runner pooling --gpu-memory-utilization 0.1",
    ], gpu="2x H100")  # fmt: skip
    tokens = {each.plan.model: each.plan.kv.logged_tokens for each in packed.placed if each.plan.kv is not None}
    assert tokens["openai/gpt-oss-120b"] >= 1_300_000
    shares = sorted(each.share for each in packed.placed)
    assert shares[0] == 0.1 and 0.82 <= shares[1] <= 0.85
    assert "by this measure" in packed.text()


@pytest.mark.parametrize(("text", "tokens"), [
    ("8k", 8192), ("8K", 8192), ("128k", 131072), ("32k", 32768), ("8000", 8000), ("1m", 1048576), ("1.5k", 1536),
])  # fmt: skip
def test_one_meaning_of_8k(text: str, tokens: int) -> None:
    """C7. Inside an engine's command its own reading holds."""
    assert parse_tokens(text, what="--context") == tokens
    assert parse_count("8k", what="max_model_len") == 8000
    assert plan("vllm serve Qwen/Qwen3-8B --max-model-len 8k", gpu="H100").resolved["max_model_len"] == 8000


def test_the_official_four_bit_checkpoint_is_among_the_fixes() -> None:
    """C8."""
    advice = plan("vllm serve Qwen/Qwen3-8B", gpu="RTX 3060").advice
    assert advice is not None and any("Qwen/Qwen3-8B-AWQ" in fix.command for fix in advice.fixes)


@pytest.mark.parametrize(("gpu", "command"), [
    ("Arc B580", "vllm serve Qwen/Qwen3-8B"), ("Jetson Orin Nano 8GB", "vllm serve Qwen/Qwen3-4B"),
    ("2x RTX 4090", "vllm serve Qwen/Qwen3-32B --max-model-len 32768"),
    ("4x RTX 3090", "vllm serve meta-llama/Llama-3.3-70B-Instruct --max-model-len 32768"),
])  # fmt: skip
def test_a_plan_names_what_fit_finds_on_the_machine_that_is_there(gpu: str, command: str) -> None:
    """C11, and smaller checkpoints over idle GPUs."""
    before = plan(command, gpu=gpu)
    assert before.advice is not None
    first = before.advice.fixes[0]
    assert first.change.kind != "hardware" and "offload" not in first.command
    again = plan(first.command, gpu=gpu, advise=False)
    assert again.verdict.outcome == "fits"
    if "--max-model-len" in command:
        assert again.resolved["max_model_len"] == 32768


def test_both_engines_name_the_larger_machine() -> None:
    """C12: DeepSeek-V3.1 on eight H100."""
    for command in ("vllm serve deepseek-ai/DeepSeek-V3.1 -tp 8",
                    "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3.1 --tp-size 8"):  # fmt: skip
        advice = plan(command, gpu="8x H100").advice
        assert advice is not None and any(
            "H200" in fix.change.label or "16" in fix.change.label for fix in advice.fixes
        )


def test_a_server_keeps_its_own_limit_of_requests() -> None:
    for engine, flag in (("vllm", "max_num_seqs"), ("sglang", "max_running_requests")):
        fit = oomph.fit("Qwen/Qwen3-32B", gpu="H100", engine=engine)
        assert fit.pick is not None and flag not in fit.pick.plan.deployment.flags


def test_a_named_checkpoint_is_served() -> None:
    fit = oomph.fit("Qwen/Qwen3-235B-A22B-FP8", gpu="8x H100")
    assert fit.pick is not None and fit.pick.point.arm.model == "Qwen/Qwen3-235B-A22B-FP8"


def test_a_slow_answer_says_so_in_its_headline() -> None:
    fit = oomph.fit("Qwen/Qwen3-32B-AWQ", "RTX 4090", Want(32768, 4), only=True)
    head = " ".join(fit.text().split())[:260]
    assert not fit.met or ("FITS, BUT SLOWLY" in head and "tokens/s per user" in head)
