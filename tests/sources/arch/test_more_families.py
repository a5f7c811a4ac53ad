"""Families by small configurations of our own; the bytes are what vLLM 0.21.0's own classes create from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.errors import OomphError

BASE: dict[str, Any] = {
    "torch_dtype": "bfloat16", "rms_norm_eps": 1e-5, "vocab_size": 64000, "max_position_embeddings": 32768,
    "rope_theta": 10000.0, "tie_word_embeddings": False,
}  # fmt: skip
WINDOWS = (["sliding_attention"] * 3 + ["full_attention"]) * 2
FAMILIES: dict[str, tuple[dict[str, Any], int, int]] = {
    "K-EXAONE": ({
        "architectures": ["ExaoneMoEForCausalLM"], "model_type": "exaone_moe", "hidden_size": 6144,
        "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 8, "num_attention_heads": 64,
        "num_key_value_heads": 8, "head_dim": 128, "num_experts": 64, "num_experts_per_tok": 8,
        "num_shared_experts": 1, "n_group": 1, "topk_group": 1, "norm_topk_prob": True, "first_k_dense_replace": 1,
        "sliding_window": 128, "layer_types": WINDOWS, "is_moe_layer": [False, *[True] * 7],
        "num_nextn_predict_layers": 1, "vocab_size": 153600, "max_position_embeddings": 262144,
    }, 40_690_468_736, 20_381_648_768),
    "Trinity": ({
        "architectures": ["AfmoeForCausalLM"], "model_type": "afmoe", "hidden_size": 2048, "intermediate_size": 6144,
        "moe_intermediate_size": 1024, "num_hidden_layers": 8, "num_dense_layers": 2, "num_attention_heads": 32,
        "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128, "num_experts_per_tok": 8,
        "num_shared_experts": 1, "n_group": 1, "score_func": "sigmoid", "route_norm": True, "sliding_window": 2048,
        "layer_types": WINDOWS, "vocab_size": 200192, "max_position_embeddings": 131072,
    }, 12_006_337_664, 6_023_163_008),
    "TeleChat2": ({
        "architectures": ["TeleChat2ForCausalLM"], "model_type": "telechat", "hidden_size": 4096, "n_layer": 10,
        "n_head": 32, "num_key_value_heads": 32, "ffn_hidden_size": 12288, "vocab_size": 131072, "seq_length": 8192,
        "max_position_embeddings": 8192,
    }, 6_511_992_992, 3_257_213_088),
    "Step3": ({
        "architectures": ["Step3TextForCausalLM"], "model_type": "step3_text", "hidden_size": 7168,
        "intermediate_size": 18432, "num_attention_heads": 64, "num_hidden_layers": 6, "vocab_size": 128815,
        "moe_intermediate_size": 5120, "moe_num_experts": 48, "moe_top_k": 3, "share_expert_dim": 5120,
        "share_q_dim": 2048, "head_dim": 256, "max_position_embedding": 65536, "moe_layers_enum": "3,4,5",
    }, 40_509_552_736, 20_382_791_776),
    "Grok-1": ({
        "architectures": ["Grok1ModelForCausalLM"], "model_type": "grok-1", "hidden_size": 6144,
        "intermediate_size": 32768, "num_hidden_layers": 4, "num_attention_heads": 48, "num_key_value_heads": 8,
        "num_local_experts": 8, "vocab_size": 131072, "max_position_embeddings": 8192,
    }, 42_583_273_536, 21_292_986_432),
    "Phi-3.5-vision": ({
        "architectures": ["Phi3VForCausalLM"], "model_type": "phi3_v", "hidden_size": 3072, "intermediate_size": 8192,
        "num_hidden_layers": 6, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064,
        "max_position_embeddings": 131072, "original_max_position_embeddings": 4096, "sliding_window": 262144,
        "embd_layer": {"use_hd_transform": True, "with_learnable_separator": True},
        "img_processor": {"image_dim_out": 1024, "num_img_tokens": 144},
        "rope_scaling": {"type": "su", "long_factor": [1.05] * 48, "short_factor": [1.0] * 48},
    }, 2_601_882_216, 1_337_331_304),
}  # fmt: skip
PARAMS: dict[str, Any] = {
    "dim": 4096, "n_layers": 8, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32, "n_kv_heads": 8, "norm_eps": 1e-5,
    "vocab_size": 32768, "rope_theta": 1000000.0,
}  # fmt: skip
YARN = {"factor": 16.0, "original_max_position_embeddings": 16384, "beta": 32.0, "alpha": 1.0, "apply_scale": False}
OWN_FILES: dict[str, tuple[dict[str, Any], int]] = {
    "Mistral-7B": ({}, 4_059_439_232),
    "Mistral-Small": ({"dim": 5120, "hidden_dim": 32768, "vocab_size": 131072, "max_seq_len": 32768}, 11_609_221_248),
    "Ministral-FP8": ({
        "n_layers": 10, "vocab_size": 131072, "max_position_embeddings": 262144, "yarn": YARN,
        "quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"},
    }, 4_395_803_424),
}  # fmt: skip


def created(folder: Path, flags: str = "") -> int:
    plan = oomph.plan(f"vllm serve {folder} {flags}", gpu="2x B200", engine="vllm==0.21.0")
    return plan.ranks[0].created_bytes


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_creates_what_vllm_creates(name: str, tmp_path: Path) -> None:
    config, whole, half = FAMILIES[name]
    (tmp_path / "config.json").write_text(json.dumps(BASE | config))
    assert created(tmp_path) == whole
    assert created(tmp_path, "-tp 2") == half


@pytest.mark.parametrize("name", OWN_FILES)
def test_a_folder_with_params_json_alone_is_planned(name: str, tmp_path: Path) -> None:
    params, size = OWN_FILES[name]
    (tmp_path / "params.json").write_text(json.dumps(PARAMS | params))
    assert created(tmp_path) == size


@pytest.mark.parametrize(
    "params",
    [{"moe": {"num_experts": 8}}, {"quantization": {"q": 1}}, {"sliding_window": [None] * 99}, {"vision_encoder": 3},
     {"multimodal": {"whisper_model_args": {"encoder_args": {}}}}, {"n_layers": "many"}],
)  # fmt: skip
def test_params_json_that_is_not_known_is_one_sentence(params: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text(json.dumps(PARAMS | params))
    with pytest.raises(OomphError):
        created(tmp_path)
