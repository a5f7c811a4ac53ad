"""Gemma 1 to 4, Gemma 3n, PaliGemma."""

from __future__ import annotations

from typing import Any

import pytest
from arch_build import build, elements, mixers, tensors, windows

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Linear, Model, Param, Vocab
from oomph.sources.build import build_model

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 512,
    "max_position_embeddings": 256,
    "sliding_window": 32,
    "torch_dtype": "bfloat16",
}

TYPES_31B = (["sliding_attention"] * 5 + ["full_attention"]) * 10
GEMMA_4_31B: dict[str, Any] = {
    "dtype": "bfloat16",
    "tie_word_embeddings": True,
    "text_config": {
        "attention_k_eq_v": True,
        "global_head_dim": 512,
        "head_dim": 256,
        "hidden_size": 5376,
        "hidden_size_per_layer_input": 0,
        "intermediate_size": 21504,
        "layer_types": TYPES_31B,
        "max_position_embeddings": 262144,
        "num_attention_heads": 32,
        "num_global_key_value_heads": 4,
        "num_hidden_layers": 60,
        "num_key_value_heads": 16,
        "sliding_window": 1024,
        "vocab_size": 262144,
    },
    "vision_config": {
        "head_dim": 72,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_attention_heads": 16,
        "num_hidden_layers": 27,
        "num_key_value_heads": 16,
        "standardize": True,
    },
}


def gemma4(**text: Any) -> Model:
    config = GEMMA_4_31B | {"text_config": GEMMA_4_31B["text_config"] | text}
    return build("Gemma4ForConditionalGeneration", **config)


def rope_rows(model: Model) -> set[tuple[int, int]]:
    return {(m.rope.positions, m.rope.dim) for m in mixers(model) if isinstance(m, Attention) and m.rope}


def test_gemma_1_has_no_windows_and_two_norms() -> None:
    model = build("GemmaForCausalLM", **SMALL)
    assert windows(model) == [0] * 6
    assert "model.layers.0.pre_feedforward_layernorm.weight" not in tensors(model)


def test_gemma_2_alternates() -> None:
    assert windows(build("Gemma2ForCausalLM", **SMALL)) == [32, 0] * 3


def test_gemma_3_has_full_attention_on_each_sixth_layer_and_two_tables() -> None:
    model = build("Gemma3ForCausalLM", **SMALL, rope_scaling={"rope_type": "linear", "factor": 8.0})
    assert windows(model) == [32] * 5 + [0]
    assert rope_rows(model) == {(256, 16), (2048, 16)}
    assert "model.layers.0.self_attn.q_norm.weight" in tensors(model)


def test_a_gemma_config_without_dimensions_has_the_defaults_of_its_class() -> None:
    text = {"hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}
    vision = {"hidden_size": 1152, "intermediate_size": 4304, "num_attention_heads": 16, "num_hidden_layers": 27}
    vision |= {"patch_size": 14, "image_size": 896}
    model = build("Gemma3ForConditionalGeneration", text_config=text, vision_config=vision, torch_dtype="bfloat16")
    assert elements(model) == {"BF16": 4_300_079_472}
    assert (model.vocab_size, model.num_heads, model.num_kv_heads, model.tied) == (262208, 8, 4, True)
    assert [m.max_tokens for m in model.modalities] == [256]


def test_tied_embeddings_leave_no_head_in_the_checkpoint() -> None:
    model = build("Gemma2ForCausalLM", **SMALL)
    assert "lm_head.weight" not in tensors(model)
    assert all(m.everywhere for m in model.root.modules if isinstance(m, Vocab))


def test_paligemma_projects_with_one_linear_layer() -> None:
    vision = {"hidden_size": 48, "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    vision |= {"patch_size": 14, "image_size": 224, "projection_dim": 64}
    model = build("PaliGemmaForConditionalGeneration", text_config=SMALL, vision_config=vision)
    assert tensors(model)["multi_modal_projector.linear.weight"] == ((64, 48), "BF16")
    assert [m.max_tokens for m in model.modalities] == [256]


def test_gemma_4_31b() -> None:
    assert elements(gemma4()) == {"BF16": 31_273_088_876}
    assert gemma4().nbytes == 62_546_177_752


def test_gemma_4_31b_nvfp4_leaves_attention_alone() -> None:
    ignore = ["lm_head", "model.embed_vision*", "model.vision_tower*", "model.language_model.layers.*.self_attn*"]
    quant = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ignore}
    model = build("Gemma4ForConditionalGeneration", **GEMMA_4_31B, quantization_config=quant)
    assert model.nbytes == 32_633_255_032
    assert elements(model)["U8"] == 60 * 3 * 5376 * 21504 // 2


def test_gemma_4_full_attention_is_wider_and_has_no_v() -> None:
    model = gemma4()
    names = tensors(model)
    assert "model.language_model.layers.5.self_attn.v_proj.weight" not in names
    assert names["model.language_model.layers.5.self_attn.q_proj.weight"] == ((16384, 5376), "BF16")
    qkv = next(m for m in model.layers[5].block.modules if isinstance(m, Linear) and m.name.endswith("qkv_proj"))
    assert [p.out_features for p in qkv.parts] == [16384, 2048, 2048]
    assert rope_rows(model) == {(262144, 256), (262144, 512)}


def test_gemma_4_experts_are_one_tensor_until_they_are_quantised() -> None:
    moe = {"enable_moe_block": True, "num_experts": 4, "moe_intermediate_size": 704, "top_k_experts": 2}
    plain = gemma4(**moe)
    assert tensors(plain)["model.language_model.layers.0.experts.gate_up_proj"] == ((4, 1408, 5376), "BF16")
    quant = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["*.mlp*", "*.self_attn*", "*vision*"]}
    config = GEMMA_4_31B | {"text_config": GEMMA_4_31B["text_config"] | moe, "quantization_config": quant}
    names = tensors(build("Gemma4ForConditionalGeneration", **config))
    assert names["model.language_model.layers.0.experts.*.down_proj.weight"] == ((5376, 352), "U8")


def test_gemma_4_layers_that_share_a_cache() -> None:
    shared = {"num_kv_shared_layers": 12, "use_double_wide_mlp": True, "attention_k_eq_v": False}
    model = gemma4(**shared)
    owners = [m.shares_cache_of for m in mixers(model) if isinstance(m, Attention)]
    assert owners[47] is None
    assert owners[48] == 46  # the last sliding layer before the shared ones
    assert owners[53] == 47  # the last full one
    names = tensors(model)
    assert names["model.language_model.layers.50.mlp.up_proj.weight"] == ((43008, 5376), "BF16")
    # the checkpoint has the weights nevertheless; releases since 0.30.0 do not build them
    assert "model.language_model.layers.50.self_attn.k_proj.weight" in names
    norms = [m for m in model.layers[50].block.modules if isinstance(m, Param) and "k_norm" in m.name]
    assert [n.only for n in norms] == ["kv of layers that share a cache"]


def test_gemma_4_per_layer_embeddings() -> None:
    model = gemma4(hidden_size_per_layer_input=8)
    assert tensors(model)["model.language_model.embed_tokens_per_layer.weight"] == ((262144, 480), "BF16")
    assert model.param("per_layer_embeddings") == 480


def test_gemma_4_audio_tower_has_clipped_linears() -> None:
    model = build("Gemma4ForConditionalGeneration", **GEMMA_4_31B, audio_config={})
    names = tensors(model)
    assert names["model.audio_tower.layers.0.self_attn.q_proj.input_max"] == ((), "BF16")
    assert [m.name for m in model.modalities] == ["image", "audio", "video"]


def test_gemma_3n_from_its_class_alone() -> None:
    model = build(
        "Gemma3nForConditionalGeneration", text_config={}, vision_config={}, audio_config={}, dtype="bfloat16"
    )
    assert elements(model) == {"BF16": 7_849_978_192}
    owners = [m.shares_cache_of for m in mixers(model) if isinstance(m, Attention)]
    assert owners[19] is None
    assert {owners[20], owners[24]} == {18, 19}


@pytest.mark.parametrize(
    "broken",
    [
        {"num_hidden_layers": 0},
        {"num_hidden_layers": 10_001},
        {"layer_types": ["sliding_attention"]},
        {"layer_types": ["windowless"] * 6},
        {"num_attention_heads": 3},
        {"head_dim": [16]},
        {"sliding_window": -1},
        {"hidden_size": 1e308},
    ],
)
@pytest.mark.parametrize("architecture", ["Gemma2ForCausalLM", "Gemma3ForCausalLM"])
def test_broken_configs(architecture: str, broken: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        build_model("test/model", {"architectures": [architecture], **SMALL, **broken})


def test_gemma_4_unified_has_no_towers_to_drop() -> None:
    text = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 6, "num_attention_heads": 2}
    text |= {"num_key_value_heads": 1, "head_dim": 64, "global_head_dim": 128, "vocab_size": 512}
    model = build(
        "Gemma4UnifiedForConditionalGeneration", text_config=text, vision_config={}, audio_config={}, dtype="bfloat16"
    )
    assert model.towers == ()
    names = tensors(model)
    assert names["model.vision_embedder.patch_dense.weight"] == ((3840, 6912), "BF16")
    assert names["model.embed_audio.embedding_projection.weight"] == ((128, 640), "BF16")
    assert [m.name for m in model.modalities] == ["image", "audio", "video"]


def test_gemma_4_assistants_have_queries_only_and_no_cache() -> None:
    text = {"hidden_size": 256, "intermediate_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 4}
    model = build(
        "Gemma4AssistantForCausalLM",
        text_config=text,
        backbone_hidden_size=1536,
        use_ordered_embeddings=True,
        dtype="bfloat16",
    )
    names = tensors(model)
    assert names["model.layers.3.self_attn.q_proj.weight"] == ((2048, 256), "BF16")
    assert not any("k_proj" in n for n in names)
    assert names["masked_embedding.token_ordering"] == ((262144,), "I64")
    assert mixers(model) == []


def test_embedding_gemma_looks_both_ways() -> None:
    config = SMALL | {"use_bidirectional_attention": True}
    model = build("Gemma3TextModel", **config)
    assert model.pooling
    assert {m.kind for m in mixers(model) if isinstance(m, Attention)} == {"encoder_only"}
    assert "layers.0.self_attn.q_proj.weight" in tensors(model)
    assert not any(isinstance(m, Vocab) and m.role == "lm_head" for m in model.root.modules)
