"""--quantization, and attention kernels and formats that a card or a checkpoint does not have (0.5.23's words)."""

from __future__ import annotations

import pytest

from oomph import plan
from oomph.errors import CannotPlan
from oomph.ir.plan import Plan

SERVE = ["python", "-m", "sglang.launch_server", "--model-path"]


def planned(model: str, *flags: str, gpu: str = "H100") -> Plan:
    return plan([*SERVE, model, *flags], gpu=gpu, engine="sglang==0.5.23")


def test_a_checkpoint_is_quantised_when_all_of_it_is_loaded() -> None:
    whole, small = planned("Qwen/Qwen3-8B"), planned("Qwen/Qwen3-8B", "--quantization", "fp8")
    stored = planned("Qwen/Qwen3-8B-FP8").ranks[0].terms["weights"].bytes
    terms = small.ranks[0].terms
    assert abs(terms["weights"].bytes - stored) < 0.02 * stored
    assert terms["load_peak"].bytes == whole.ranks[0].terms["load_peak"].bytes
    assert small.kv is not None and whole.kv is not None and small.kv.logged_tokens > whole.kv.logged_tokens


def test_what_does_not_fit_before_it_is_quantised_does_not_start() -> None:
    answer = planned("Qwen/Qwen3-14B", "--quantization", "fp8", gpu="RTX 4090")
    assert (answer.verdict.outcome, answer.verdict.stage) == ("fails", "weights_load")


@pytest.mark.parametrize(
    ("model", "flags", "gpu", "words"),
    [
        ("Qwen/Qwen3-8B", "--quantization awq", "H100", "Cannot find the config file for awq"),
        ("Qwen/Qwen3-8B", "--quantization gptq_marlin", "H100", "Cannot find the config file for gptq_marlin"),
        ("Qwen/Qwen3-8B-AWQ", "--quantization fp8", "H100", "model config (awq) does not match"),
        ("Qwen/Qwen3-4B", "--quantization fp8", "T4", "Minimum capability: 80. Current capability: 75"),
        ("Qwen/Qwen3-4B", "--attention-backend trtllm_mha", "RTX 3090", "requires Hopper (SM90)"),
        ("Qwen/Qwen3-4B", "--attention-backend fa3", "B200", "requires SM>=80 and SM<=90"),
        ("Qwen/Qwen3-4B", "--decode-attention-backend trtllm_mla", "H100", "only supported on Blackwell"),
    ],
)
def test_sglang_refuses(model: str, flags: str, gpu: str, words: str) -> None:
    verdict = planned(model, *flags.split(), gpu=gpu).verdict
    assert verdict.outcome == "fails" and words in verdict.message


@pytest.mark.parametrize("flags", ["--quantization awq", "--quantization awq_marlin", "--attention-backend fa3"])
def test_what_sglang_takes(flags: str) -> None:
    assert planned("Qwen/Qwen3-8B-AWQ", *flags.split()).verdict.outcome == "fits"


def test_what_is_not_known_is_not_planned() -> None:
    with pytest.raises(CannotPlan, match="bitsandbytes on a checkpoint that is not quantised"):
        planned("Qwen/Qwen3-8B", "--quantization", "bitsandbytes")


def test_a_drafter_that_cannot_be_read_stops_vllm_too() -> None:
    config = '{"method": "eagle3", "model": "/nowhere/drafter", "num_speculative_tokens": 3}'
    with pytest.raises(CannotPlan, match="the draft model cannot be read"):
        plan(["vllm", "serve", "Qwen/Qwen3-8B", "--speculative-config", config], gpu="H100")


def test_the_checkpoint_without_the_flag_is_the_first_way_out() -> None:
    advice = planned("Qwen/Qwen3-8B-AWQ", "--quantization", "fp8").advice
    assert advice is not None and advice.fixes[0].change.label == "without --quantization fp8"
