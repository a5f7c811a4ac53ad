"""Mixtral, Qwen2-MoE, Qwen3-MoE and gpt-oss."""

from __future__ import annotations

from typing import Any

import pytest
from arch_build import build, elements, mixers, tensors, windows

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Experts, Vocab

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_experts": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 500,
    "max_position_embeddings": 256,
    "torch_dtype": "bfloat16",
}


def test_mixtral_names_its_experts_w1_w3_w2() -> None:
    names = tensors(build("MixtralForCausalLM", **SMALL))
    assert names["model.layers.3.block_sparse_moe.experts.*.w2.weight"] == ((64, 96), "BF16")
    assert names["model.layers.3.block_sparse_moe.gate.weight"] == ((8, 64), "BF16")


def test_qwen3_moe_layers_without_experts() -> None:
    model = build("Qwen3MoeForCausalLM", **SMALL, decoder_sparse_step=2, mlp_only_layers=[3])
    sparse = [any(isinstance(m, Experts) for m in layer.block.modules) for layer in model.layers]
    assert sparse == [False, True, False, False]


def test_qwen2_moe_has_a_gated_shared_expert() -> None:
    names = tensors(build("Qwen2MoeForCausalLM", **SMALL, shared_expert_intermediate_size=48))
    assert names["model.layers.0.mlp.shared_expert_gate.weight"] == ((1, 64), "BF16")
    assert names["model.layers.0.mlp.shared_expert.up_proj.weight"] == ((48, 64), "BF16")


def test_no_quantiser_touches_the_router() -> None:
    quant = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}
    names = tensors(build("Qwen3MoeForCausalLM", **SMALL, head_dim=16, quantization_config=quant))
    assert names["model.layers.0.mlp.gate.weight"] == ((8, 64), "BF16")
    assert names["model.layers.0.mlp.experts.*.gate_proj.qweight"] == ((8, 32), "I32")


def test_mixture_classes_build_their_vocabulary_on_every_stage() -> None:
    root = build("Qwen3MoeForCausalLM", **SMALL).root
    assert all(m.everywhere for m in root.modules if isinstance(m, Vocab))


def test_gpt_oss() -> None:
    model = build("GptOssForCausalLM", **SMALL, sliding_window=16, quantization_config={"quant_method": "mxfp4"})
    names = tensors(model)
    assert names["model.layers.0.mlp.experts.gate_up_proj_blocks"] == ((8, 192, 2, 16), "U8")
    assert names["model.layers.0.mlp.experts.down_proj_bias"] == ((8, 64), "BF16")
    assert names["model.layers.0.self_attn.sinks"] == ((4,), "BF16")
    assert windows(model) == [16, 0, 16, 0]
    first = mixers(model)[0]
    assert isinstance(first, Attention)
    assert first.rope is not None
    assert (first.sinks, first.rope.dtype) == (True, "F32")


def test_published_counts() -> None:
    """mistralai/Mixtral-8x7B-v0.1, Qwen/Qwen3-30B-A3B, RedHatAI/Qwen3-30B-A3B-NVFP4, openai/gpt-oss-20b."""
    mixtral = build(
        "MixtralForCausalLM", hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=32000, torch_dtype="bfloat16",
    )  # fmt: skip
    assert elements(mixtral) == {"BF16": 46_702_792_704}
    qwen3: dict[str, Any] = {
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "vocab_size": 151936,
        "torch_dtype": "bfloat16",
    }
    assert elements(build("Qwen3MoeForCausalLM", **qwen3)) == {"BF16": 30_532_122_624}
    nvfp4 = {
        "quant_method": "compressed-tensors",
        "format": "nvfp4-pack-quantized",
        "ignore": ["lm_head", "re:.*mlp.gate$"],
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
                "input_activations": {"num_bits": 4, "type": "float", "dynamic": "local"},
            }
        },
    }
    assert elements(build("Qwen3MoeForCausalLM", **qwen3, quantization_config=nvfp4)) == {
        "BF16": 635_123_712,
        "U8": 14_948_499_456,
        "F8_E4M3": 1_868_562_432,
        "F32": 37_248,
    }
    oss = build(
        "GptOssForCausalLM", num_hidden_layers=24, num_local_experts=32, quantization_config={"quant_method": "mxfp4"}
    )
    assert elements(oss) == {"BF16": 1_804_459_584, "U8": 10_152_345_600}


@pytest.mark.parametrize("change", [{"num_experts": -1}, {"mlp_only_layers": ["x"]}, {"decoder_sparse_step": 0}])
def test_configs_that_lie(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        build("Qwen3MoeForCausalLM", **SMALL | change)
