"""Qwen2-VL, Qwen2.5-VL and Qwen3-VL."""

from __future__ import annotations

from typing import Any

from arch_build import build, elements, mixers, tensors

from oomph.ir.model import Attention

TEXT: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 500,
    "max_position_embeddings": 256,
}
VISION = {"depth": 3, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64}


def test_qwen2_5_vl_names_and_tower() -> None:
    config = {**TEXT, "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}, "vision_config": VISION}
    model = build("Qwen2_5_VLForConditionalGeneration", **config)
    names = tensors(model)
    assert names["visual.blocks.0.attn.qkv.weight"] == ((96, 32), "BF16")
    assert names["visual.merger.mlp.2.weight"] == ((64, 128), "BF16")
    assert "model.layers.1.self_attn.q_proj.bias" in names
    assert model.towers[0].layers == 3
    assert [(m.name, m.max_tokens) for m in model.modalities] == [("image", 16384), ("video", 114688)]
    attention = mixers(model)[0]
    assert isinstance(attention, Attention)
    assert attention.rope is not None
    assert attention.rope.positions == 4 * 256


def test_qwen2_vl_tower() -> None:
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 4}
    names = tensors(build("Qwen2VLForConditionalGeneration", **TEXT, vision_config=vision))
    assert names["visual.blocks.0.mlp.fc1.weight"] == ((128, 32), "BF16")
    assert names["visual.merger.ln_q.bias"] == ((32,), "BF16")


def test_qwen3_vl_deepstack() -> None:
    text = {**TEXT, "head_dim": 16, "rope_scaling": {"rope_type": "default", "mrope_section": [2, 3, 3]}}
    vision = {**VISION, "deepstack_visual_indexes": [0, 2], "num_position_embeddings": 16}
    model = build("Qwen3VLForConditionalGeneration", text_config=text, vision_config=vision, dtype="bfloat16")
    names = tensors(model)
    assert names["model.visual.deepstack_merger_list.1.norm.weight"] == ((128,), "BF16")
    assert names["model.language_model.layers.0.self_attn.q_norm.weight"] == ((16,), "BF16")
    assert model.param("deepstack_levels") == 2
    attention = mixers(model)[0]
    assert isinstance(attention, Attention)
    assert attention.rope is not None
    assert (attention.rope.positions, attention.rope.short) == (1024, 256)


def test_qwen3_vl_moe_stacks_its_experts() -> None:
    text = {**TEXT, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
    names = tensors(build("Qwen3VLMoeForConditionalGeneration", text_config=text, vision_config=VISION))
    assert names["model.language_model.layers.0.mlp.experts.gate_up_proj"] == ((4, 48, 64), "BF16")


def test_published_counts() -> None:
    """Qwen/Qwen2.5-VL-7B-Instruct, Qwen/Qwen3-VL-2B-Instruct, Qwen/Qwen3-VL-30B-A3B-Instruct."""
    seven = build(
        "Qwen2_5_VLForConditionalGeneration", hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
        num_attention_heads=28, num_key_value_heads=4, vocab_size=152064, vision_config={"out_hidden_size": 3584},
    )  # fmt: skip
    assert elements(seven) == {"BF16": 8_292_166_656}
    two = build(
        "Qwen3VLForConditionalGeneration", tie_word_embeddings=True,
        text_config={"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16,
                     "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936},
        vision_config={"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "out_hidden_size": 2048,
                       "deepstack_visual_indexes": [5, 11, 17]},
    )  # fmt: skip
    assert elements(two) == {"BF16": 2_127_532_032}
    thirty = build(
        "Qwen3VLMoeForConditionalGeneration",
        text_config={"hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "head_dim": 128,
                     "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
                     "vocab_size": 151936},
        vision_config={"out_hidden_size": 2048, "deepstack_visual_indexes": [8, 16, 24]},
    )  # fmt: skip
    assert elements(thirty) == {"BF16": 31_070_754_032}


def test_qwen3_omni_counts_the_thinker() -> None:
    text = {**TEXT, "head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
    audio = {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 64, "output_dim": 64}
    thinker = {"text_config": text, "vision_config": VISION, "audio_config": audio}
    model = build("Qwen3OmniMoeForConditionalGeneration", thinker_config=thinker, dtype="bfloat16")
    names = tensors(model)
    assert names["thinker.audio_tower.conv_out.weight"] == ((32, 480 * 16), "BF16")
    assert names["thinker.visual.merger_list.2.mlp.2.weight"] == ((64, 128), "BF16")
    assert names["thinker.model.layers.0.mlp.experts.*.up_proj.weight"] == ((24, 64), "BF16")
    assert [t.modality for t in model.towers] == ["audio", "vision"]
    assert model.warnings
