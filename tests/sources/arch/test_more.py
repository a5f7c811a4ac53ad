"""Further architectures: published element counts, and what is peculiar to each."""

from __future__ import annotations

from typing import Any

import pytest
from arch_build import build, mixers, tensors

from oomph.engines.common.shard import outs
from oomph.errors import ConfigError
from oomph.ir.model import Attention, Linear, Param, State
from oomph.sources.build import build_model

BF16 = {"torch_dtype": "bfloat16"}
LFM2_CONVS = [2, 5, 8, 10, 12, 14]
COUNTS: list[tuple[str, int, dict[str, Any]]] = [
    (
        "Glm4MoeLiteForCausalLM",
        31_221_488_576,
        {
            "hidden_size": 2048,
            "intermediate_size": 10240,
            "kv_lora_rank": 512,
            "moe_intermediate_size": 1536,
            "n_routed_experts": 64,
            "num_attention_heads": 20,
            "num_experts_per_tok": 4,
            "num_hidden_layers": 47,
            "num_key_value_heads": 20,
            "num_nextn_predict_layers": 1,
            "q_lora_rank": 768,
            "qk_nope_head_dim": 192,
            "qk_rope_head_dim": 64,
            "v_head_dim": 256,
            "vocab_size": 154880,
        },
    ),
    (
        "DeepseekForCausalLM",
        16_375_728_128,
        {
            "first_k_dense_replace": 1,
            "hidden_size": 2048,
            "intermediate_size": 10944,
            "moe_intermediate_size": 1408,
            "n_routed_experts": 64,
            "n_shared_experts": 2,
            "num_attention_heads": 16,
            "num_experts_per_tok": 6,
            "num_hidden_layers": 28,
            "vocab_size": 102400,
        },
    ),
    (
        "SmolVLMForConditionalGeneration",
        2_246_784_880,
        {
            "scale_factor": 3,
            "text_config": {
                "hidden_size": 2048,
                "intermediate_size": 8192,
                "num_attention_heads": 32,
                "num_hidden_layers": 24,
                "num_key_value_heads": 32,
                "vocab_size": 49280,
            },
            "vision_config": {
                "image_size": 384,
                "intermediate_size": 4304,
                "num_hidden_layers": 27,
                "patch_size": 14,
            },
        },
    ),
    (
        "Glm4vForConditionalGeneration",
        10_292_777_472,
        {"text_config": {"attention_bias": True}, "vision_config": {}},
    ),
    (
        "Glm4vMoeForConditionalGeneration",
        107_710_933_120,
        {"text_config": {"attention_bias": True, "head_dim": 128}, "vision_config": {"intermediate_size": 10944}},
    ),
    (
        "Lfm2ForCausalLM",
        1_170_340_608,
        {
            "block_ff_dim": 12288,
            "block_ffn_dim_multiplier": 1.0,
            "conv_L_cache": 3,
            "full_attn_idxs": LFM2_CONVS,
            "hidden_size": 2048,
            "num_hidden_layers": 16,
        },
    ),
    (
        "WhisperForConditionalGeneration",
        1_543_490_560,
        {
            "d_model": 1280,
            "decoder_attention_heads": 20,
            "decoder_ffn_dim": 5120,
            "decoder_layers": 32,
            "encoder_attention_heads": 20,
            "encoder_ffn_dim": 5120,
            "encoder_layers": 32,
            "num_mel_bins": 128,
            "vocab_size": 51866,
        },
    ),
    (
        "FalconMambaForCausalLM",
        7_272_665_088,
        {
            "hidden_size": 4096,
            "intermediate_size": 8192,
            "num_hidden_layers": 64,
            "time_step_rank": 256,
            "vocab_size": 65024,
            "tie_word_embeddings": False,
        },
    ),
    ("Mamba2ForCausalLM", 7_285_403_648, {"hidden_size": 4096, "num_hidden_layers": 64, "vocab_size": 32768}),
    (
        "DbrxForCausalLM",
        131_596_523_520,
        {
            "d_model": 6144,
            "n_heads": 48,
            "n_layers": 40,
            "max_seq_len": 32768,
            "vocab_size": 100352,
            "attn_config": {"kv_n_heads": 8, "rope_theta": 500000},
            "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
        },
    ),
]


@pytest.mark.parametrize(("architecture", "total", "config"), COUNTS, ids=[c[0] for c in COUNTS])
def test_published_counts(architecture: str, total: int, config: dict[str, Any]) -> None:
    assert build(architecture, **BF16, **config).elements == total


def config_of(architecture: str) -> dict[str, Any]:
    return next(config for name, _, config in COUNTS if name == architecture)


def test_whisper_looks_at_its_encoder_from_every_layer() -> None:
    model = build("WhisperForConditionalGeneration", **BF16, **config_of("WhisperForConditionalGeneration"))
    assert [m.kind for m in model.layers[0].mixers] == ["full", "cross"]
    names = tensors(model)
    assert "model.decoder.layers.0.self_attn.k_proj.bias" not in names
    biases = [m for m in model.layers[0].block.modules if isinstance(m, Param) and m.name == "self_attn.qkv_proj.bias"]
    assert [(m.shape, m.stored) for m in biases] == [((3840,), False)]
    assert model.max_position == 448
    assert [(m.name, m.max_tokens) for m in model.modalities] == [("audio", 1500)]


def test_lfm2_convolves_where_it_does_not_attend() -> None:
    model = build("Lfm2ForCausalLM", **BF16, **config_of("Lfm2ForCausalLM"))
    attends = [i for i, m in enumerate(mixers(model)) if isinstance(m, Attention)]
    assert attends == LFM2_CONVS
    conv = mixers(model)[0]
    assert isinstance(conv, State) and (conv.kind, conv.conv_kernel) == ("short_conv", 3)
    assert tensors(model)["model.layers.0.feed_forward.w1.weight"] == ((8192, 2048), "BF16")


def test_pure_mamba_models_are_attention_free() -> None:
    assert build("Mamba2ForCausalLM", **BF16, **config_of("Mamba2ForCausalLM")).attention_free
    assert not build("Lfm2ForCausalLM", **BF16, **config_of("Lfm2ForCausalLM")).attention_free


LING: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_shared_experts": 1,
    "first_k_dense_replace": 1,
    "vocab_size": 512,
    "partial_rotary_factor": 0.5,
    "use_qk_norm": True,
    "router_dtype": "fp32",
    "moe_router_enable_expert_bias": True,
}


def test_ling_keeps_q_k_and_v_in_one_tensor() -> None:
    model = build("BailingMoeV2ForCausalLM", **BF16, **LING)
    assert tensors(model)["model.layers.0.attention.query_key_value.weight"] == ((128, 64), "BF16")
    qkv = next(m for m in model.layers[0].block.modules if isinstance(m, Linear) and "query_key" in m.name)
    assert outs(qkv, 2) == [32, 16, 16]
    attention = mixers(model)[0]
    assert isinstance(attention, Attention) and attention.rope is not None
    assert (attention.rope.dim, attention.rope.narrow) == (16, 8)


def test_kimi_vl_has_no_table_over_time() -> None:
    text = {
        "hidden_size": 256,
        "intermediate_size": 512,
        "kv_lora_rank": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "vocab_size": 512,
    }
    vision = {"hidden_size": 48, "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    model = build("KimiVLForConditionalGeneration", **BF16, text_config=text, vision_config=vision)
    names = tensors(model)
    assert names["multi_modal_projector.linear_2.weight"] == ((256, 192), "BF16")
    parts = [m.name for t in model.towers for _, block in t.blocks for m in block.modules]
    assert not any("time_weight" in n for n in parts)


def test_voxtral_joins_four_frames() -> None:
    text = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    text |= {"vocab_size": 512, "num_key_value_heads": 2, "head_dim": 16}
    audio = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = build("VoxtralForConditionalGeneration", **BF16, text_config=text, audio_config=audio)
    assert tensors(model)["multi_modal_projector.linear_1.weight"] == ((64, 128), "BF16")


def test_zamba_2_shares_its_transformer_block() -> None:
    kinds = ["mamba", "hybrid", "mamba", "hybrid"]
    small = {"hidden_size": 64, "num_attention_heads": 4, "vocab_size": 512, "adapter_rank": 8}
    model = build("Zamba2ForCausalLM", **BF16, **small, num_hidden_layers=4, layers_block_type=kinds)
    assert [[m.kind for m in layer.mixers] for layer in model.layers] == [
        ["mamba2"],
        ["full", "mamba2"],
        ["mamba2"],
        ["full", "mamba2"],
    ]
    names = tensors(model)
    assert names["model.layers.1.shared_transformer.self_attn.q_proj.weight"] == ((128, 128), "BF16")
    assert not any(n.startswith("model.layers.3.shared_transformer") for n in names)
    adapters = [n for n in names if "adapter_list" in n]
    assert len(adapters) == 4  # two layers, two matrices


@pytest.mark.parametrize(
    ("architecture", "config"),
    [
        ("Zamba2ForCausalLM", {"layers_block_type": ["mamba", "attention"]}),
        ("Zamba2ForCausalLM", {"num_hidden_layers": 3}),
        ("WhisperForConditionalGeneration", {"decoder_attention_heads": 7}),
        ("WhisperForConditionalGeneration", {"decoder_layers": 0}),
        ("Lfm2ForCausalLM", {"hidden_size": 64, "num_hidden_layers": 2, "layer_types": ["conv"]}),
        ("Lfm2ForCausalLM", {"hidden_size": 64, "num_hidden_layers": 2, "block_ffn_dim_multiplier": 1e308}),
        ("Mamba2ForCausalLM", {"hidden_size": 4096, "num_hidden_layers": 2, "vocab_size": 512, "n_groups": 7}),
        ("BailingMoeV2ForCausalLM", LING | {"num_experts": [8]}),
        ("DbrxForCausalLM", {"ffn_config": "large"}),
    ],
)
def test_broken_configs(architecture: str, config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        build_model("test/model", {"architectures": [architecture], **config})
