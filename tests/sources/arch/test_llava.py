"""LLaVA and InternVL: encoders before any known language model."""

from __future__ import annotations

from typing import Any

import pytest
from arch_build import build, tensors

from oomph.errors import ConfigError, UnknownCache
from oomph.ir.model import Linear

TEXT: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 500,
}
CLIP = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 2, "image_size": 28,
        "patch_size": 14}  # fmt: skip


def test_only_the_layers_that_are_read_are_built() -> None:
    model = build("LlavaForConditionalGeneration", text_config=TEXT, vision_config=CLIP, vision_feature_layer=-2)
    assert model.towers[0].layers == 4
    built = [
        times
        for times, block in model.towers[0].blocks
        if any(isinstance(m, Linear) and all(p.created for p in m.parts) for m in block.modules)
    ]
    assert built == [3]
    names = tensors(model)
    assert names["vision_tower.vision_model.post_layernorm.weight"] == ((32,), "BF16")
    assert names["language_model.model.layers.0.self_attn.q_proj.bias"] == ((64,), "BF16")
    assert [m.max_tokens for m in model.modalities] == [4]


def test_onevision_has_a_newline_and_counts_tiles() -> None:
    vision = {**CLIP, "model_type": "siglip_vision_model"}
    model = build(
        "LlavaOnevisionForConditionalGeneration",
        text_config=TEXT,
        vision_config=vision,
        image_grid_pinpoints=[[28, 28], [84, 84]],
    )
    assert tensors(model)["image_newline"] == ((64,), "BF16")
    assert [(m.name, m.max_tokens, m.patches) for m in model.modalities] == [("image", 36, 40), ("video", 17, 64)]


def test_internvl_reads_llm_config() -> None:
    vision = {**CLIP, "qk_normalization": True, "norm_type": "rms_norm"}
    model = build("InternVLChatModel", llm_config={**TEXT, "model_type": "qwen3", "head_dim": 16}, vision_config=vision)
    names = tensors(model)
    assert names["mlp1.1.weight"] == ((64, 128), "BF16")
    assert names["vision_model.encoder.layers.0.attn.q_norm.weight"] == ((32,), "BF16")
    assert "vision_model.encoder.layers.0.norm1.bias" not in names
    assert "language_model.model.layers.0.self_attn.q_norm.weight" in names


def test_a_language_model_that_is_not_known_is_refused() -> None:
    with pytest.raises(UnknownCache, match="mpt"):
        build("LlavaForConditionalGeneration", text_config={**TEXT, "model_type": "mpt"}, vision_config=CLIP)
    with pytest.raises(ConfigError, match="vision_feature_layer"):
        build("LlavaForConditionalGeneration", text_config=TEXT, vision_config=CLIP, vision_feature_layer=9)
