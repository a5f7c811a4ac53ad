"""What vLLM says after the cache is sized, and what oomph says of commands it cannot see through."""

from __future__ import annotations

import pytest

from oomph.answers.plan import plan
from oomph.errors import UnknownCache
from oomph.facts.vllm.versions import NEWEST
from oomph.ir.plan import Plan

HYBRID = "vllm serve Qwen/Qwen3.6-27B"


def planned(command: str, version: str, gpu: str = "H100 NVL") -> Plan:
    return plan(command.split(), gpu=gpu, engine=f"vllm=={version}")


def test_fewer_states_than_sequences() -> None:
    """kaito issue 2319 (0.25.1, Azure's H100 NVL): 1024 sequences, 614 blocks."""
    made = planned(HYBRID, "0.25.1")
    assert made.kv is not None
    assert abs(made.kv.num_blocks - 614) < 8
    assert (made.verdict.fits, made.verdict.stage) == (False, "kv_check")
    assert made.verdict.message.startswith("max_num_seqs (1024) exceeds available Mamba cache blocks (6")


@pytest.mark.parametrize(
    ("flags", "version"),
    [
        ("--max-num-seqs 256", "0.25.1"),
        ("--enforce-eager", "0.25.1"),
        ("--compilation-config {\"cudagraph_mode\":\"PIECEWISE\"}", "0.25.1"),
        ("", "0.19.1"),  # fewer sizes were captured instead
    ],
)  # fmt: skip
def test_enough_states(flags: str, version: str) -> None:
    assert planned(f"{HYBRID} {flags}", version).verdict.fits


def test_a_given_cache_is_not_judged_by_its_states() -> None:
    made = plan(HYBRID.split(), gpu="H100", engine="vllm==0.25.1", given={"available_kv": 17 << 30})
    assert made.verdict.fits
    assert any("exceeds available Mamba cache blocks" in note for note in made.warnings)


def test_caches_on_the_host_are_refused() -> None:
    flag = '--attention-config {"hisparse_config":{"device_buffer_size":4096}}'
    with pytest.raises(UnknownCache, match="HiSparse"):
        planned(f"vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8 {flag}", NEWEST, "8x H200")


def test_blocks_larger_than_a_step() -> None:
    """validate_block_size (0.17 to 0.26): a step takes in whole blocks of states."""
    command = "vllm serve Qwen/Qwen3.6-27B --enable-prefix-caching --max-num-batched-tokens 512 --max-num-seqs 16"
    assert "must be <= max_num_batched_tokens (512)" in planned(command, "0.21.0").verdict.message
    assert planned(command, NEWEST).verdict.fits


def test_encoders_that_no_prompt_uses_are_built_too() -> None:
    """interfaces.py _mark_tower_model: the encoder's constructor refuses MXFP8 though no prompt may have an image."""
    command = (
        "vllm serve Qwen/Qwen3-VL-30B-A3B-Instruct -tp 8 --quantization mxfp8 "
        '--limit-mm-per-prompt {"image":0,"video":0}'
    )
    refused = planned(command, "0.32.0", "8x H100")
    assert refused.verdict.message == "MXFP8 requires input_size_per_partition (144) to be divisible by 32."


@pytest.mark.parametrize("version", ["0.21.0", "0.32.0"])
def test_chunked_layers_that_turboquant_spares(version: str) -> None:
    command = "vllm serve meta-llama/Llama-4-Maverick-17B-128E-Instruct -tp 8 --kv-cache-dtype turboquant_k8v4"
    refused = planned(command, version, "8x B200")
    assert refused.verdict.message.startswith("Unknown TurboQuant cache dtype: 'auto'.")


@pytest.mark.parametrize(
    ("command", "gpu", "message"),
    [
        ("tiiuae/falcon-7b --enable-lora", "H100", "FalconForCausalLM does not support LoRA yet."),
        ("PaddlePaddle/PaddleOCR-VL --enable-lora", "L4", "PaddleOCRVLForConditionalGeneration does not support LoRA"),
        ("Qwen/Qwen3-8B --quantization online", "H100", "OnlineQuantizationConfig.__init__() missing 1 required"),
        ("Qwen/Qwen3-30B-A3B --quantization nvfp4_per_token", "H200", "requires a Blackwell (SM100) GPU."),
        ("Qwen/Qwen2.5-VL-7B-Instruct --limit-mm-per-prompt {\"image\":-1}", "H100", "limit_per_prompt.count"),
        ("Qwen/Qwen3-30B-A3B --enable-return-routed-experts -pp 2", "2x H100", "pipeline parallelism (PP > 1)."),
        ("Qwen/Qwen3-8B --enable-return-routed-experts", "H100", "only supports MoE models."),
        ("BAAI/bge-m3 --enable-return-routed-experts", "L4", "only supports generate runners."),
    ],
)  # fmt: skip
def test_flags_that_a_class_or_card_does_not_take(command: str, gpu: str, message: str) -> None:
    verdict = planned(f"vllm serve {command}", "0.32.0", gpu).verdict
    assert not verdict.fits and message in verdict.message


@pytest.mark.parametrize(
    ("command", "gpu"),
    [
        ("Qwen/Qwen3-8B --enable-lora", "H100"),
        ("Qwen/Qwen3-30B-A3B --enable-return-routed-experts", "H200"),
        ("Qwen/Qwen3-8B --quantization online --quantization-config {\"linear\":\"mxfp8\"}", "H100"),
        ("Qwen/Qwen3-8B --quantization nvfp4_per_token", "B200"),
        ("Qwen/Qwen2.5-VL-7B-Instruct --limit-mm-per-prompt {\"image\":0}", "H100"),
    ],
)  # fmt: skip
def test_flags_that_are_taken(command: str, gpu: str) -> None:
    assert planned(f"vllm serve {command}", "0.32.0", gpu).verdict.fits


@pytest.mark.parametrize(
    ("model", "version", "refused"),
    [
        ("openai/gpt-oss-20b", "0.11.0", True),
        ("openai/gpt-oss-20b", "0.11.2", False),
        ("MiniMaxAI/MiniMax-M2", "0.14.1", True),
        ("MiniMaxAI/MiniMax-M2", "0.15.0", False),
        ("bigcode/starcoder2-7b", "0.24.0", True),
        ("bigcode/starcoder2-7b", "0.25.0", False),
        ("Qwen/Qwen3-30B-A3B", "0.9.2", True),
        ("Qwen/Qwen3-30B-A3B", "0.10.0", False),
    ],
)
def test_adapters_came_to_classes_release_by_release(model: str, version: str, refused: bool) -> None:
    """v1/worker/lora_model_runner_mixin.py asks each class, and classes learned it one after the other."""
    verdict = planned(f"vllm serve {model} --enable-lora --max-model-len 4096", version, "8x H100").verdict
    assert ("does not support LoRA" in verdict.message) == refused


@pytest.mark.parametrize(("version", "refused"), [("0.28.0", True), ("0.29.0", False)])
def test_audio_encoders_whose_heads_do_not_divide(version: str, refused: bool) -> None:
    """qwen3_omni_moe_thinker.py:211 (0.29.0): every rank holds all of the encoder, of 20 heads."""
    command = "vllm serve Qwen/Qwen3-Omni-30B-A3B-Instruct -tp 8 --max-model-len 4096"
    assert ("20 is not divisible by 8" in planned(command, version, "8x H100").verdict.message) == refused
