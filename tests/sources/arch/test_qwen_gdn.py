"""Qwen3-Next and Qwen3.5/3.6/3.8."""

from __future__ import annotations

from typing import Any

import pytest
from arch_build import build, elements, mixers, tensors

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Linear, State

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 500,
    "max_position_embeddings": 256,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "mamba_ssm_dtype": "float32",
}
EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 24,
}


def test_three_states_and_one_attention() -> None:
    found = mixers(build("Qwen3_5ForCausalLM", **SMALL))
    assert [type(m) for m in found] == [State, State, State, Attention]
    state = found[0]
    assert isinstance(state, State)
    assert (state.kind, state.num_heads, state.groups, state.conv_kernel, state.dtype) == ("gdn", 4, 2, 4, "F32")


def test_qwen3_5_stores_qkv_and_z_and_builds_four_parts() -> None:
    model = build("Qwen3_5ForCausalLM", **SMALL)
    names = tensors(model)
    assert names["model.layers.0.linear_attn.in_proj_qkv.weight"] == ((64, 64), "BF16")
    assert names["model.layers.0.linear_attn.in_proj_z.weight"] == ((32, 64), "BF16")
    assert names["model.layers.3.self_attn.q_proj.weight"] == ((128, 64), "BF16")
    fused = next(m for m in model.layers[0].block.modules if isinstance(m, Linear))
    assert [p.out_features for p in fused.parts if p.created] == [16, 16, 32, 32]


def test_qwen3_next_stores_them_fused_and_always_has_mtp() -> None:
    model = build("Qwen3NextForCausalLM", **SMALL, **EXPERTS)
    names = tensors(model)
    assert names["model.layers.0.linear_attn.in_proj_qkvz.weight"] == ((96, 64), "BF16")
    assert names["mtp.layers.0.mlp.experts.*.up_proj.weight"] == ((24, 64), "BF16")
    assert names["mtp.fc.weight"] == ((64, 128), "BF16")
    assert len(model.drafts) == 1


def test_mtp_only_where_the_config_has_it() -> None:
    assert not build("Qwen3_5ForCausalLM", **SMALL).drafts
    assert len(build("Qwen3_5ForCausalLM", **SMALL, mtp_num_hidden_layers=2).drafts) == 2


def test_experts_are_stacked_until_they_are_quantised() -> None:
    vision = {"depth": 1, "hidden_size": 32, "num_heads": 2, "out_hidden_size": 64}
    config = {"text_config": {**SMALL, **EXPERTS}, "vision_config": vision}
    whole = tensors(build("Qwen3_5MoeForConditionalGeneration", **config))
    assert "model.language_model.layers.0.mlp.experts.gate_up_proj" in whole
    quant = {"quant_method": "fp8", "weight_block_size": [8, 8], "modules_to_not_convert": ["model.visual"]}
    each = tensors(build("Qwen3_5MoeForConditionalGeneration", **config, quantization_config=quant))
    assert each["model.language_model.layers.0.mlp.experts.*.gate_proj.weight_scale_inv"] == ((3, 8), "BF16")
    assert each["model.visual.blocks.0.attn.qkv.weight"] == ((96, 32), "BF16")


def test_published_counts() -> None:
    """Qwen/Qwen3-Next-80B-A3B-Instruct, Qwen/Qwen3.6-27B, Qwen/Qwen3.5-35B-A3B."""
    following = build(
        "Qwen3NextForCausalLM", hidden_size=2048, intermediate_size=5120, num_hidden_layers=48, num_attention_heads=16,
        num_key_value_heads=2, vocab_size=151936, num_experts=512, moe_intermediate_size=512,
        shared_expert_intermediate_size=512,
    )  # fmt: skip
    assert elements(following) == {"BF16": 81_324_862_720}
    dense = build(
        "Qwen3_5ForConditionalGeneration",
        text_config={"hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 64,
                     "num_attention_heads": 24, "num_key_value_heads": 4, "linear_num_value_heads": 48,
                     "vocab_size": 248320, "mtp_num_hidden_layers": 1},
        vision_config={"out_hidden_size": 5120},
    )  # fmt: skip
    assert elements(dense) == {"BF16": 27_781_427_952}
    sparse = build(
        "Qwen3_5MoeForConditionalGeneration",
        text_config={"hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 16, "num_key_value_heads": 2,
                     "vocab_size": 248320, "num_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 512,
                     "shared_expert_intermediate_size": 512, "mtp_num_hidden_layers": 1},
        vision_config={"out_hidden_size": 2048},
    )  # fmt: skip
    assert elements(sparse) == {"BF16": 35_951_822_704}


@pytest.mark.parametrize(
    "change",
    [{"layer_types": ["linear_attention"]}, {"layer_types": ["mamba"] * 4}, {"linear_num_value_heads": 0}],
)
def test_configs_that_lie(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        build("Qwen3_5ForCausalLM", **SMALL | change)
