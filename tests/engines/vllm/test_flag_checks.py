"""Combinations of flags that vLLM refuses before it looks at any memory, in its own words and its own order."""

from __future__ import annotations

import pytest

from oomph.answers.plan import plan
from oomph.facts.vllm.facts import at

QWEN = "Qwen/Qwen3-8B"
MOE = "Qwen/Qwen3-30B-A3B"


def message(command: str, release: str = "0.32.0", gpu: str = "8x H100") -> str:
    verdict = plan(f"vllm serve {command}", gpu=gpu, engine=f"vllm=={release}").verdict
    return verdict.message if verdict.stage == "other" else ""


REFUSED = [
    (f"{QWEN} --enable-elastic-ep", "Elastic EP is only supported with enable_eplb=True."),
    (f"{QWEN} -dp 2 --data-parallel-size-local 3", "data_parallel_size_local (3) must be <= data_parallel_size (2)"),
    (f"""{MOE} -tp 2 --eplb-config '{{"num_redundant_experts": 4}}'""", "num_redundant_experts is set to 4 but EPLB"),
    (f"{QWEN} -tp 4 -dcp 3", "tp_size=4 must be divisible by dcp_size=3."),
    (
        f"{QWEN} -tp 2 --prefill-context-parallel-size 2 -dcp 3",
        "Got TP=2, PCP=2, DCP=3; valid DCP sizes are [1, 2, 4].",
    ),
    (
        f"""{QWEN} --speculative-config '{{"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_min": 5, """
        """"prompt_lookup_max": 3}'""",
        "prompt_lookup_min=5 must be <= prompt_lookup_max=3",
    ),
    (
        f"""{QWEN} -tp 4 --speculative-config '{{"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 2, """
        """"draft_tensor_parallel_size": 2}'""",
        "speculative_draft_tensor_parallel_size=2 cannot be other value than 1 or target model tensor_parallel_size",
    ),
    (
        f"""{QWEN} --speculative-config '{{"model": "meta-llama/Llama-3.2-1B", "num_speculative_tokens": 2}}'""",
        "Target model vocab_size=151936. Draft model vocab_size=128256.",
    ),
    (
        f"{QWEN} --max-model-len 4096 --long-prefill-token-threshold 8192",
        "long_prefill_token_threshold (8192) cannot be greater than the max_model_len (4096).",
    ),
    (f"{QWEN} --enable-lora --max-loras 4 --max-cpu-loras 2", "max_cpu_loras (2) must be >= max_loras (4)."),
    (f"{MOE} -tp 2 -dp 2 --enable-expert-parallel --enable-dbo", "allgather_reducescatter is not supported."),
    (f"{QWEN} --quantization quark", "QuarkConfig.__init__() missing 1 required positional argument"),
    (f"{QWEN} --quantization moe_wna16", "Cannot find the config file for moe_wna16"),
]


@pytest.mark.parametrize(("command", "text"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_the_config_classes_refuse(command: str, text: str) -> None:
    assert text in message(command)


def test_checks_come_in_the_order_of_the_configs() -> None:
    """ModelConfig before ParallelConfig before SpeculativeConfig before SchedulerConfig."""
    draft = """--speculative-config '{"method": "ngram", "num_speculative_tokens": 0}'"""
    late = f"-tp 4 -dcp 3 {draft} --max-num-batched-tokens 16 --max-num-seqs 64"
    assert "does not support float16" in message(f"google/gemma-3-1b-it --dtype float16 {late}")
    assert message(f"{QWEN} {late}").startswith("tp_size=4")
    assert "num_speculative_tokens" in message(f"{QWEN} {late.replace('-dcp 3', '')}")
    assert message(f"{QWEN} --max-num-batched-tokens 16 --max-num-seqs 64").startswith("max_num_batched_tokens (16)")


@pytest.mark.parametrize("word", ["awq", "awq_marlin", "auto_awq"])
def test_words_that_mean_the_checkpoint_s_own_method(word: str) -> None:
    """auto_awq.py: every name that AWQ ever had is taken; another method is not."""
    assert not message(f"Qwen/Qwen3-8B-AWQ --quantization {word}")
    assert "does not match" in message("Qwen/Qwen3-8B-AWQ --quantization gptq_marlin")


def test_the_plain_kernels_want_float16() -> None:
    """Before 0.24 --quantization awq means AWQ's own kernels, which have no bfloat16."""
    command = "Qwen/Qwen3-8B-AWQ --quantization awq"
    assert "torch.bfloat16 is not supported for quantization method awq" in message(command, "0.21.0")
    assert not message(f"{command} --dtype float16", "0.21.0")


def test_a_modelopt_checkpoint_decides_itself() -> None:
    assert not message("nvidia/Llama-3.1-70B-Instruct-FP8 -tp 4 --quantization awq")


def test_a_converted_model_has_no_head() -> None:
    def created(flags: str) -> int:
        answer = plan(f"vllm serve Qwen/Qwen3-8B {flags}", gpu="H100", engine="vllm==0.32.0")
        return int(answer.to_dict()["ranks"][0]["terms"]["weights"]["created_bytes"])

    head = 151936 * 4096 * 2
    assert created("") - created("--runner pooling") == head
    assert created("") - created("--convert classify") == head - 2 * 4096 * 4
    assert message("Qwen/Qwen3-8B --convert embed", "0.21.0", "H100") == "AssertionError"  # a bare assert
    assert plan("vllm serve Qwen/Qwen3-8B --convert embed", gpu="H100", engine="vllm==0.21.0").verdict.fits is False


def test_every_text_can_be_written() -> None:
    """A text that names a value which does not exist would fail only for the user who meets it."""
    from oomph.engines.vllm.resolve.verify import _Values
    from oomph.facts.vllm.flag_checks import FlagChecks, FlagSet

    for release in ("0.8.5", "0.19.0", "0.21.0", "0.27.0", "0.32.0"):
        checks = at(release).checks
        for name in (name for name in vars(FlagChecks) if not name.startswith("_")):
            for check in getattr(checks, name):
                assert "{" not in check.text.format_map(_Values(FlagSet({})))


def test_packed_experts_and_their_backends() -> None:
    """oracle/int_wna16.py: a choice of its own, by the card and by the checkpoint's layout."""
    command = "Qwen/Qwen3-30B-A3B-GPTQ-Int4 --moe-backend"
    assert "kernel does not support current device" in message(f"{command} flashinfer_trtllm", gpu="A100 80GB")
    assert "moe_backend='deep_gemm' is not supported for WNA16 MoE." in message(f"{command} deep_gemm")
    assert not message(f"{command} marlin")


def test_gpt_oss_has_no_repeated_kv_heads() -> None:
    assert message("openai/gpt-oss-120b -tp 16", gpu="16x H100") == "integer modulo by zero"
    assert not message("openai/gpt-oss-120b -tp 8")


def test_an_encoder_is_whole_only_where_its_class_says_so() -> None:
    """--mm-encoder-tp-mode data: InternVL of transformers falls back to cutting it, Qwen's does not."""

    def created(model: str, mode: str) -> int:
        command = f"vllm serve {model} -tp 4 --mm-encoder-tp-mode {mode}"
        answer = plan(command, gpu="4x H100", engine="vllm==0.32.0")
        return int(answer.to_dict()["ranks"][0]["terms"]["weights"]["created_bytes"])

    qwen, mistral = "Qwen/Qwen2.5-VL-7B-Instruct", "mistralai/Mistral-Small-3.2-24B-Instruct-2506"
    assert created(qwen, "data") > created(qwen, "weights")
    assert created(mistral, "data") == created(mistral, "weights")
