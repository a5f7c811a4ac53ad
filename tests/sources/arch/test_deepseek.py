"""DeepSeek V2 to V4, Kimi K2 to K3, GLM-4.5, GLM-5."""

from __future__ import annotations

from typing import Any

import pytest
from arch_build import build, elements, mixers, tensors

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Experts, Linear, Model, Param, State, Vocab
from oomph.sources.build import build_model

FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}

V3: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "first_k_dense_replace": 3,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
    "topk_method": "noaux_tc",
    "torch_dtype": "bfloat16",
    "v_head_dim": 128,
    "vocab_size": 129280,
}

SMALL: dict[str, Any] = V3 | {
    "first_k_dense_replace": 1,
    "hidden_size": 256,
    "intermediate_size": 512,
    "kv_lora_rank": 64,
    "moe_intermediate_size": 128,
    "n_routed_experts": 8,
    "num_attention_heads": 4,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 128,
    "vocab_size": 512,
}
INDEX = {"index_topk": 64, "index_n_heads": 4, "index_head_dim": 128}


def v4(**changes: Any) -> Model:
    config: dict[str, Any] = {
        "compress_ratios": [0, 0, *([4, 128] * 20), 4, 0],
        "compress_rope_theta": 160000,
        "expert_dtype": "fp4",
        "head_dim": 512,
        "hidden_size": 4096,
        "index_head_dim": 128,
        "index_n_heads": 64,
        "index_topk": 512,
        "max_position_embeddings": 1048576,
        "moe_intermediate_size": 2048,
        "n_routed_experts": 256,
        "n_shared_experts": 1,
        "num_attention_heads": 64,
        "num_experts_per_tok": 6,
        "num_hash_layers": 3,
        "num_hidden_layers": 43,
        "num_key_value_heads": 1,
        "num_nextn_predict_layers": 1,
        "o_groups": 8,
        "o_lora_rank": 1024,
        "q_lora_rank": 1024,
        "quantization_config": FP8 | {"scale_fmt": "ue8m0"},
        "rope_scaling": {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65536},
        "torch_dtype": "bfloat16",
        "vocab_size": 129280,
    }
    return build("DeepseekV4ForCausalLM", **config | changes)


def linear(model: Model, layer: int, name: str) -> Linear:
    return next(m for m in model.layers[layer].block.modules if isinstance(m, Linear) and m.name == name)


def test_deepseek_v3() -> None:
    model = build("DeepseekV3ForCausalLM", **V3, quantization_config=FP8)
    assert sum(elements(model).values()) == 684_531_386_000
    assert model.nbytes == 688_574_839_360


def test_the_latent_cache_is_one_vector_whatever_the_heads() -> None:
    (mixer,) = set(mixers(build("DeepseekV3ForCausalLM", **SMALL)))
    assert isinstance(mixer, Attention)
    assert (mixer.kind, mixer.num_kv_heads, mixer.kv_lora_rank + mixer.qk_rope_head_dim) == ("mla", 1, 128)
    assert mixer.rope is not None
    assert (mixer.rope.positions, mixer.rope.kind) == (163840, "deepseek_yarn")


def test_without_a_query_rank_the_query_is_one_projection() -> None:
    names = tensors(build("DeepseekV2ForCausalLM", **SMALL | {"q_lora_rank": None, "topk_method": "greedy"}))
    assert names["model.layers.0.self_attn.q_proj.weight"] == ((768, 256), "BF16")
    assert "model.layers.1.mlp.gate.e_score_correction_bias" not in names


def test_the_router_stays_in_bf16_and_its_bias_in_float32() -> None:
    names = tensors(build("DeepseekV3ForCausalLM", **SMALL, quantization_config=FP8))
    assert names["model.layers.1.mlp.gate.weight"] == ((8, 256), "BF16")
    assert names["model.layers.1.mlp.gate.e_score_correction_bias"] == ((8,), "F32")
    assert names["model.layers.1.mlp.experts.*.up_proj.weight_scale_inv"] == ((1, 2), "F32")


def test_the_indexer_is_created_in_bf16_whatever_the_checkpoint_has() -> None:
    model = build("DeepseekV32ForCausalLM", **SMALL, **INDEX, quantization_config=FP8)
    names = tensors(model)
    assert names["model.layers.0.self_attn.indexer.wk.weight"] == ((128, 256), "F8_E4M3")
    fused = linear(model, 0, "self_attn.indexer.wk_weights_proj")
    assert (fused.scheme, fused.out_features) == (None, 132)
    assert fused.parts[0].only == "indexer keys fused"
    assert linear(model, 0, "self_attn.indexer.wk").parts[0].only == "indexer keys apart"
    mixer = mixers(model)[0]
    assert isinstance(mixer, Attention) and mixer.indexer is not None
    assert mixer.indexer.rope not in (None, mixer.rope)  # another table: the halves are laid out differently


def test_glm_5_chooses_tokens_on_some_layers_only() -> None:
    glm = SMALL | INDEX | {"model_type": "glm_moe_dsa", "indexer_rope_interleave": True, "num_hidden_layers": 8}
    model = build("GlmMoeDsaForCausalLM", **glm, index_topk_freq=4, index_skip_topk_offset=3)
    chooses = [m.indexer is not None for m in mixers(model) if isinstance(m, Attention)]
    assert chooses == [True, True, True, False, False, False, True, False]
    heads = [m.stored for m in model.drafts[0].block.modules if isinstance(m, Vocab)]
    assert heads == [False, False]


def test_deepseek_stores_embedding_and_head_once_more_in_the_draft_layer() -> None:
    model = build("DeepseekV3ForCausalLM", **SMALL)
    names = tensors(model)
    assert names["model.layers.4.shared_head.head.weight"] == names["lm_head.weight"]
    assert [m.role for m in model.drafts[0].block.modules if isinstance(m, Vocab)] == ["lm_head", "embed"]


@pytest.mark.parametrize(
    ("hidden", "heads", "layers", "experts", "inter", "q", "o", "ratios", "total"),
    [
        (4096, 64, 43, 256, 2048, 1024, 8, [0, 0, *([4, 128] * 20), 4, 0], 158_069_433_298),
        (7168, 128, 61, 384, 3072, 1536, 16, [128, 128, *([4, 128] * 29), 4, 0], 861_608_274_846),
    ],
)
def test_deepseek_v4_counts(
    hidden: int, heads: int, layers: int, experts: int, inter: int, q: int, o: int, ratios: list[int], total: int
) -> None:
    model = v4(
        hidden_size=hidden,
        num_attention_heads=heads,
        num_hidden_layers=layers,
        n_routed_experts=experts,
        moe_intermediate_size=inter,
        q_lora_rank=q,
        o_groups=o,
        compress_ratios=ratios,
    )
    assert model.elements == total


def test_deepseek_v4_caches() -> None:
    by_ratio = {m.compress_ratio: m for m in mixers(v4()) if isinstance(m, Attention)}
    assert set(by_ratio) == {0, 4, 128}
    assert [by_ratio[r].indexer is not None for r in (0, 4, 128)] == [False, True, False]
    assert by_ratio[0].rope != by_ratio[4].rope == by_ratio[128].rope
    assert {m.rope.dtype for m in by_ratio.values() if m.rope} == {"F32"}


def test_deepseek_v4_experts_remade_in_nvfp4() -> None:
    quant = FP8 | {"quantized_layers": {"layers.0.ffn.experts": {"quant_algo": "NVFP4", "group_size": 16}}}
    model = v4(quantization_config=quant)
    schemes = [
        m.scheme.method if m.scheme else None
        for layer in model.layers[:2]
        for m in layer.block.modules
        if isinstance(m, Experts)
    ]
    assert schemes == ["modelopt_fp4", "mxfp4"]


def test_kimi_k2_5_quantises_experts_only() -> None:
    ignore = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"]
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32}
    quant = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ignore,
    }
    text = V3 | {
        "first_k_dense_replace": 1,
        "n_routed_experts": 384,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "num_nextn_predict_layers": 0,
        "vocab_size": 163840,
        "quantization_config": quant,
    }
    model = build("KimiK25ForConditionalGeneration", text_config=text, vision_config={}, dtype="bfloat16")
    counts = elements(model)
    # the hub counts eight values to a packed word, and to each of the shapes beside it
    assert counts["BF16"] + 8 * (counts["I32"] + counts["I64"]) + counts["F32"] == 1_058_589_420_528
    assert tensors(model)["vision_tower.encoder.blocks.0.wqkv.weight"] == ((3456, 1152), "BF16")


KDA = {"full_attn_layers": [4], "kda_layers": [1, 2, 3], "head_dim": 32, "num_heads": 4, "short_conv_kernel_size": 4}
LINEAR: dict[str, Any] = {
    k: v for k, v in SMALL.items() if k not in ("n_routed_experts", "n_shared_experts", "num_nextn_predict_layers")
} | {"linear_attn_config": KDA, "num_experts": 8, "num_shared_experts": 1, "mla_use_nope": True, "q_lora_rank": None}


def test_kimi_linear_counts_layers_from_one() -> None:
    model = build("KimiLinearForCausalLM", **LINEAR)
    kinds = [m.kind for m in mixers(model)]
    assert kinds == ["kda", "kda", "kda", "mla"]
    latent = mixers(model)[3]
    assert isinstance(latent, Attention) and latent.rope is None


def test_kimi_k3_rounds_its_fused_input_up() -> None:
    text = LINEAR | {
        "linear_attn_config": KDA | {"use_full_rank_gate": True},
        "attn_res_block_size": 12,
        "mla_use_output_gate": True,
        "routed_expert_hidden_size": 128,
        "latent_moe_use_norm": True,
    }
    model = build("KimiK3ForConditionalGeneration", text_config=text, vision_config={}, dtype="bfloat16")
    assert linear(model, 0, "self_attn.in_proj_qkvgfab").align == 16
    names = tensors(model)
    assert names["language_model.model.layers.3.self_attn.g_proj.weight"] == ((512, 256), "BF16")
    assert names["language_model.model.layers.1.block_sparse_moe.experts.*.w2.weight"] == ((128, 128), "BF16")
    states = [m for m in mixers(model) if isinstance(m, State)]
    assert {m.backend for m in states} == {"KIMI_K3_KDA"}


def test_glm_4_5() -> None:
    model = build(
        "Glm4MoeForCausalLM",
        attention_bias=True,
        head_dim=128,
        hidden_size=5120,
        intermediate_size=12288,
        moe_intermediate_size=1536,
        n_routed_experts=160,
        first_k_dense_replace=3,
        num_hidden_layers=92,
        num_nextn_predict_layers=1,
        use_qk_norm=True,
        torch_dtype="bfloat16",
    )
    assert sum(elements(model).values()) == 358_337_791_296
    gate = linear(model, 3, "mlp.gate")
    assert (gate.dtype, gate.created_dtype) == ("BF16", "F32")
    assert any(isinstance(m, Param) and m.dtype == "F32" for m in model.layers[3].block.modules)


@pytest.mark.parametrize(
    "broken",
    [
        {"num_hidden_layers": 0},
        {"kv_lora_rank": None},
        {"kv_lora_rank": -1},
        {"n_routed_experts": "many"},
        {"moe_layer_freq": 0},
        {"qk_rope_head_dim": [64]},
    ],
)
def test_broken_configs(broken: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        build_model("test/model", {"architectures": ["DeepseekV3ForCausalLM"], **SMALL, **broken})


@pytest.mark.parametrize("ratios", [[4], [-4] * 44, "4", [1.5]])
def test_broken_ratios(ratios: object) -> None:
    with pytest.raises(ConfigError):
        v4(compress_ratios=ratios)
