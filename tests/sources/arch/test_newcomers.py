"""Apertus, OLMo 1, InternVL of Transformers, StarCoder 1, MPT, ModernBERT, NomicBERT, FlexOlmo, Qwen2-Audio."""

from __future__ import annotations

from typing import Any

from arch_build import build, mixers, tensors

from oomph.ir.model import Attention, Experts, Linear, Vocab
from oomph.sources.arch import FAMILIES

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 500,
    "max_position_embeddings": 256,
}
W8: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "strategy": "channel"}}},
}


def head(model: Any) -> Vocab:
    return next(m for m in model.root.modules if isinstance(m, Vocab) and m.role == "lm_head")


def test_apertus_learns_its_activation() -> None:
    names = tensors(build("ApertusForCausalLM", **SMALL))
    assert names["model.layers.0.mlp.act_fn.alpha_p"] == ((1,), "BF16")
    assert names["model.layers.0.self_attn.q_norm.weight"] == ((16,), "BF16")
    assert "model.layers.0.mlp.gate_proj.weight" not in names


def test_olmo_1_has_norms_without_weights() -> None:
    assert not [name for name in tensors(build("OlmoForCausalLM", **SMALL)) if "norm" in name]


def test_a_head_that_the_outer_config_ties() -> None:
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
              "image_size": [56, 56], "patch_size": [14, 14], "attention_bias": True}  # fmt: skip
    said: dict[str, Any] = {"vision_config": vision, "text_config": {**SMALL, "model_type": "qwen3", "head_dim": 16}}
    model = build("InternVLForConditionalGeneration", **said)
    assert (head(model).tied, head(model).stored, head(model).assumed) == (True, True, True)
    assert not head(build("InternVLForConditionalGeneration", **said, tie_word_embeddings=False)).tied
    names = tensors(model)
    assert names["vision_tower.embeddings.position_embeddings"] == ((1, 17, 32), "BF16")
    assert names["multi_modal_projector.linear_1.weight"] == ((64, 128), "BF16")
    quantised = build("InternVLForConditionalGeneration", **said, quantization_config=W8)
    layer = next(m for m in quantised.towers[0].blocks[1][1].modules if m.name.endswith("fc1"))
    assert isinstance(layer, Linear)
    assert (layer.scheme, layer.quantisable) == (None, False)


def test_starcoder_1_has_one_kv_head() -> None:
    model = build("GPTBigCodeForCausalLM", n_embd=64, n_head=4, n_layer=2, n_positions=128, vocab_size=500)
    names = tensors(model)
    assert names["transformer.h.0.attn.c_attn.weight"] == ((96, 64), "F32")
    assert names["transformer.h.0.mlp.c_fc.weight"] == ((256, 64), "F32")
    assert "lm_head.weight" not in names
    assert [m.num_kv_heads for m in mixers(model) if isinstance(m, Attention)] == [1, 1]


def test_mpt_without_biases() -> None:
    names = tensors(build("MPTForCausalLM", d_model=64, n_heads=4, n_layers=2, vocab_size=500, attn_config={}))
    assert names["transformer.blocks.0.attn.Wqkv.weight"] == ((192, 64), "F32")
    assert not [name for name in names if name.endswith(".bias")]


def test_modernbert_looks_around_and_everywhere() -> None:
    small = {k: v for k, v in SMALL.items() if k != "num_key_value_heads"} | {"num_hidden_layers": 4}
    model = build("ModernBertForSequenceClassification", **small, id2label={"0": "a"}, torch_dtype="float16")
    assert [m.window for m in mixers(model) if isinstance(m, Attention)] == [0, 64, 64, 0]
    names = tensors(model)
    assert names["model.layers.0.mlp.Wi.weight"] == ((192, 64), "F16")
    assert names["classifier.weight"] == ((1, 64), "F16")
    assert "model.layers.0.attn_norm.weight" not in names
    assert model.pooling


def test_nomic_is_as_long_as_it_was_trained() -> None:
    model = build("NomicBertModel", n_embd=64, n_head=4, n_inner=128, n_layer=2, n_positions=8192, vocab_size=500)
    assert (model.max_position, model.param("derived_max_len")) == (2048, 2048)
    assert tensors(model)["encoder.layers.1.mlp.fc12.weight"] == ((128, 64), "F32")


def test_vllm_never_quantised_flex_olmos_experts() -> None:
    model = build("FlexOlmoForCausalLM", **SMALL, num_experts=3, quantization_config=W8)
    experts = next(m for m in model.layers[0].block.modules if isinstance(m, Experts))
    assert (experts.count, experts.other, experts.only) == (3, None, "FlexOlmoForCausalLM by transformers")


def test_qwen2_audio_has_a_whole_encoder() -> None:
    audio = {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 64}
    model = build("Qwen2AudioForConditionalGeneration", text_config=SMALL, audio_config=audio)
    names = tensors(model)
    assert names["audio_tower.embed_positions.weight"] == ((1500, 32), "BF16")
    assert "audio_tower.layers.0.self_attn.k_proj.bias" not in names
    assert names["multi_modal_projector.linear.weight"] == ((64, 32), "BF16")
    assert [m.max_tokens for m in model.modalities] == [750]


def test_families_are_sorted() -> None:
    assert sorted(FAMILIES) == list(FAMILIES)


def test_minimax_text_mixes_linear_and_full_attention() -> None:
    model = build("MiniMaxText01ForCausalLM", **SMALL, head_dim=16, rotary_dim=8, num_local_experts=4,
                  attn_type_list=[0, 1])  # fmt: skip
    names = tensors(model)
    assert [type(m).__name__ for m in mixers(model)] == ["State", "Attention"]
    assert names["model.layers.0.self_attn.output_gate.weight"] == ((64, 64), "BF16")
    assert any(name.endswith("w1.weight") for name in names)
    assert head(model).created_dtype == "F32"


def test_paddleocr_vl_is_an_ernie_behind_a_siglip() -> None:
    vision = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = build("PaddleOCRVLForConditionalGeneration", **SMALL, head_dim=16, vision_config=vision)
    names = tensors(model)
    assert names["mlp_AR.linear_1.weight"] == ((256, 256), "BF16")
    assert names["visual.vision_model.embeddings.position_embedding.weight"] == ((729, 64), "BF16")
    assert [m.max_tokens for m in model.modalities] == [3600]


def test_deepseek_ocr_has_ordinary_attention() -> None:
    language = {**SMALL, "num_key_value_heads": 4, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "n_routed_experts": 4,
                "n_shared_experts": 1, "moe_intermediate_size": 32, "num_experts_per_tok": 2,
                "first_k_dense_replace": 1}  # fmt: skip
    model = build("DeepseekOCRForCausalLM", language_config=language)
    assert [m.kind for m in mixers(model) if isinstance(m, Attention)] == ["full", "full"]
    names = tensors(model)
    assert names["model.sam_model.pos_embed"] == ((1, 64, 64, 768), "BF16")
    assert names["model.projector.layers.weight"] == ((64, 2048), "BF16")


def test_step_3_5_sets_every_layer_by_its_kind() -> None:
    small = {k: v for k, v in SMALL.items() if k != "num_key_value_heads"}
    other = {"attention_type": "sliding_attention", "num_attention_heads": 6, "num_attention_groups": 2, "head_dim": 16}
    model = build(
        "Step3p5ForCausalLM",
        **small,
        num_attention_groups=2,
        head_dim=16,
        sliding_window=8,
        layer_types=["full_attention", "sliding_attention"],
        attention_other_setting=other,
        use_head_wise_attn_gate=True,
        rope_theta=[5e6, 1e4],
        partial_rotary_factors=[0.5, 1.0],
        moe_num_experts=4,
        moe_intermediate_size=32,
        moe_top_k=2,
        moe_layers_enum="1",
    )
    found = [m for m in mixers(model) if isinstance(m, Attention)]
    assert [(m.num_heads, m.window) for m in found] == [(4, 0), (6, 8)]
    assert [(m.rope.dim, m.rope.theta) for m in found if m.rope] == [(8, 5e6), (16, 1e4)]
    assert [any(isinstance(m, Experts) for m in x.block.modules) for x in model.layers] == [False, True]
    assert tensors(model)["model.layers.1.self_attn.g_proj.weight"] == ((6, 64), "BF16")
