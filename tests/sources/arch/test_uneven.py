"""Families whose layers differ: DeciLM, MiMo, MiMo-V2, Laguna."""

from __future__ import annotations

from typing import Any

import pytest
from arch_build import build, elements, mixers, tensors, windows

from oomph.errors import ConfigError
from oomph.ir.model import Attention

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 500,
    "max_position_embeddings": 256,
}


def _block(group: int | None, mult: float) -> dict[str, Any]:
    return {
        "attention": {"n_heads_in_group": group, "no_op": group is None},
        "ffn": {"ffn_mult": mult, "no_op": mult == 0},
    }


def test_decilm_layers_of_their_own() -> None:
    config = {**SMALL, "num_key_value_heads": None, "block_configs": [_block(2, 6.0), _block(None, 3.0), _block(4, 0)]}
    model = build("DeciLMForCausalLM", **config)
    names = tensors(model)
    assert names["model.layers.0.mlp.up_proj.weight"] == ((256, 64), "BF16")
    assert "model.layers.1.self_attn.q_proj.weight" not in names
    assert "model.layers.2.post_attention_layernorm.weight" not in names
    assert [m.num_kv_heads for m in mixers(model) if isinstance(m, Attention)] == [2, 1]
    assert [len(layer.mixers) for layer in model.layers] == [1, 0, 1]


def test_mimo_draft_layers() -> None:
    """XiaomiMiMo/MiMo-7B-Base: 7,833,409,536 with its one draft layer."""
    model = build(
        "MiMoForCausalLM", hidden_size=4096, intermediate_size=11008, num_hidden_layers=36, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=151680, num_nextn_predict_layers=1,
    )  # fmt: skip
    assert elements(model) == {"BF16": 7_833_409_536}
    assert tensors(model)["model.mtp_layers.0.input_proj.weight"] == ((4096, 8192), "BF16")


def test_mimo_v2_sliding_layers_have_heads_of_their_own() -> None:
    config = {
        **SMALL, "head_dim": 24, "v_head_dim": 16, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 4,
        "swa_head_dim": 24, "swa_v_head_dim": 16, "sliding_window": 8, "hybrid_layer_pattern": [0, 1, 1],
        "moe_layer_freq": [0, 1, 1], "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
        "add_swa_attention_sink_bias": True, "partial_rotary_factor": 0.5,
    }  # fmt: skip
    model = build("MiMoV2FlashForCausalLM", **config)
    names = tensors(model)
    assert names["model.layers.0.self_attn.k_proj.weight"] == ((48, 64), "BF16")
    assert names["model.layers.1.self_attn.v_proj.weight"] == ((64, 64), "BF16")
    assert names["model.layers.1.self_attn.attention_sink_bias"] == ((4,), "BF16")
    assert names["model.layers.1.mlp.gate.e_score_correction_bias"] == ((4,), "F32")
    assert windows(model) == [0, 8, 8]


def test_laguna_heads_by_layer() -> None:
    config = {
        **SMALL, "head_dim": 16, "num_experts": 4, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 24,
        "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        "num_attention_heads_per_layer": [4, 8, 8], "mlp_layer_types": ["dense", "sparse", "sparse"],
        "rope_parameters": {
            "full_attention": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64,
                               "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    }  # fmt: skip
    model = build("LagunaForCausalLM", **config)
    names = tensors(model)
    assert names["model.layers.1.self_attn.g_proj.weight"] == ((8, 64), "BF16")
    assert names["model.layers.0.mlp.gate_proj.weight"] == ((96, 64), "BF16")
    assert names["model.layers.1.mlp.experts.e_score_correction_bias"] == ((4,), "F32")
    ropes = [m.rope for m in mixers(model) if isinstance(m, Attention) and m.rope is not None]
    assert [(r.dim, r.positions) for r in ropes] == [(8, 256), (16, 256), (16, 256)]
    assert model.max_position == 256


@pytest.mark.parametrize(
    ("architecture", "config"),
    [
        ("DeciLMForCausalLM", {}),
        ("DeciLMForCausalLM", {"block_configs": [1, 2, 3]}),
        ("DeciLMForCausalLM", {"block_configs": [_block(9, 1.0)] * 3}),
        ("DeciLMForCausalLM", {"block_configs": [_block(2, 1e300)] * 3}),
        ("MiMoV2FlashForCausalLM", {"hybrid_layer_pattern": [1], "moe_layer_freq": [0]}),
        ("LagunaForCausalLM", {"num_attention_heads_per_layer": [4]}),
    ],
)
def test_configs_that_lie(architecture: str, config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        build(architecture, **SMALL | config)
