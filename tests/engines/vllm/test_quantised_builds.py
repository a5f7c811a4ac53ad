"""Quantised models as each release builds or refuses them; figures are what vLLM's own code gave for these configs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from oomph.answers.plan import plan
from oomph.ir.plan import Plan
from oomph.sources.build import build_model

SMOL: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
JAMBA: dict[str, Any] = {
    "architectures": ["JambaForCausalLM"],
    "model_type": "jamba",
    "hidden_size": 2048,
    "intermediate_size": 7168,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "vocab_size": 65536,
    "max_position_embeddings": 262144,
    "num_experts": 4,
    "mamba_dt_rank": 128,
    "torch_dtype": "bfloat16",
}
LITE: dict[str, Any] = {
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "num_hidden_layers": 3,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "vocab_size": 102400,
    "max_position_embeddings": 163840,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "moe_intermediate_size": 1408,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "torch_dtype": "bfloat16",
}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic"}
GPTQ8 = {"quant_method": "gptq", "bits": 8, "group_size": 128, "desc_act": False, "sym": True}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}


def packed(**weights: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "symmetric": True, **weights}}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": group}}


def planned(
    config: Mapping[str, Any],
    quant: Any = None,
    version: str = "0.21.0",
    gpu: str = "H100",
    tp: int = 1,
    flags: str = "",
) -> Plan:
    raw = {**config, "quantization_config": quant} if quant else dict(config)
    words = f"vllm serve test/model --tensor-parallel-size {tp} {flags}".split()
    return plan(words, gpu=f"{tp}x {gpu}", engine=f"vllm=={version}", model=build_model("test/model", raw))


def created(made: Plan) -> int:
    return made.ranks[0].created_bytes


def test_weights_quantised_while_loading_are_registered_in_16_bits() -> None:
    plain, online = planned(SMOL), planned(SMOL, flags="--quantization fp8")
    assert created(online) - created(plain) == 24 * 8  # and the scales of the KV cache
    later = planned(SMOL, flags="--quantization fp8", version="0.32.0")
    assert created(later) == created(planned(SMOL, version="0.32.0"))
    assert online.ranks[0].terms["weights"].bytes < 0.6 * plain.ranks[0].terms["weights"].bytes


def test_a_mamba_mixer_knows_no_quantisation() -> None:
    assert created(planned(JAMBA, FP8)) == 3_066_061_728


@pytest.mark.parametrize(("version", "fits"), [("0.21.0", False), ("0.24.0", True), ("0.32.0", True)])
def test_marlin_pads_in_later_releases(version: str, fits: bool) -> None:
    made = planned({**SMOL, "intermediate_size": 8320}, packed(strategy="channel"), version, tp=4)  # 2080 a rank
    assert made.verdict.fits is fits


def test_every_kernel_says_why_it_cannot() -> None:
    made = planned(LITE, GPTQ8, tp=8, gpu="RTX PRO 6000")
    lines = made.verdict.message.splitlines()
    assert lines[0] == "Failed to find a kernel that can implement the WNA16 linear layer. Reasons: "
    assert "MarlinLinearKernel cannot implement due to: Weight output_size_per_partition = 2736" in made.verdict.message
    assert lines[-1].endswith("Exllama only supports float16 activations")


def test_experts_that_marlin_does_not_take() -> None:
    """moe_wna16.py halves the groups until they divide, down to 32."""
    lite = {**LITE, "intermediate_size": 10752, "moe_intermediate_size": 1536}
    made = planned(lite, GPTQ8, tp=8)  # 192 features a rank: groups of 64
    experts = 2 * 64 * 3 * 192 * 2048
    scales = 2 * 64 * (2 * 192 * (2048 // 64) + 2048 * (192 // 64)) * 2
    own = [r.terms["weights"].parts["experts"] for r in made.ranks[:1]]
    assert own == [experts + scales]


def test_packed_experts_want_whole_groups() -> None:
    lite = {**LITE, "intermediate_size": 12288, "moe_intermediate_size": 1536}
    made = planned(lite, packed(strategy="group", group_size=128), "0.32.0", tp=8)
    assert "(192) to be divisible by group_size (128)" in made.verdict.message


def test_awq_that_does_not_align() -> None:
    made = planned({**SMOL, "intermediate_size": 8256}, AWQ, tp=2)
    assert made.verdict.message.startswith("The input size is not aligned with the quantized weight shape.")


@pytest.mark.parametrize(
    ("version", "text"),
    [("0.21.0", ""), ("0.28.0", "Unknown quantization method: bitsandbytes."), ("0.32.0", "Unknown")],
)
def test_bitsandbytes_left(version: str, text: str) -> None:
    quant = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    assert planned(SMOL, quant, version).verdict.message.startswith(text)


def test_blocks_that_a_rank_would_cut() -> None:
    """A config that names its blocks may cut them between parts; compressed-tensors' does not name them."""
    odd = {**SMOL, "intermediate_size": 8384}
    weights = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}
    blocks = {"quant_method": "compressed-tensors", "format": "float-quantized",
              "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}  # fmt: skip
    message = planned(odd, blocks, tp=2).verdict.message
    assert message == "Weight output_partition_size = 4192 is not divisible by weight quantization block_n = 128."
    own = planned(odd, {**FP8, "weight_block_size": [128, 128]}, tp=2).verdict.message
    assert own == "Weight input_size_per_partition = 4192 is not divisible by weight quantization block_k = 128."


@pytest.mark.parametrize(
    ("architecture", "version", "text"),
    [
        ("BaichuanForCausalLM", "0.32.0", "was supported in vLLM until v0.23.0"),
        ("BaichuanForCausalLM", "0.21.0", ""),
        ("MPTForCausalLM", "0.29.0", "was supported in vLLM until v0.28.0"),
    ],
)
def test_architectures_that_left(architecture: str, version: str, text: str) -> None:
    config = {**SMOL, "architectures": [architecture], "d_model": 64, "n_heads": 4, "n_layers": 2, "attn_config": {}}
    assert text in planned(config, version=version).verdict.message


def test_no_pipeline_for_whisper() -> None:
    whisper = {"architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 64,
               "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
               "encoder_ffn_dim": 128, "decoder_ffn_dim": 128, "vocab_size": 500, "num_mel_bins": 80}  # fmt: skip
    words = ["vllm", "serve", "test/model", "--pipeline-parallel-size", "2"]
    made = plan(words, gpu="2x H100", engine="vllm==0.21.0", model=build_model("test/model", whisper))
    assert made.verdict.message.startswith("Pipeline parallelism is not supported for this model.")
