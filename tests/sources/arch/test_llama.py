"""Llama, Mistral, Qwen2, Qwen3, Phi-3 and Cohere decoders."""

from __future__ import annotations

from typing import Any

import pytest
from arch_build import build, elements, mixers, tensors, windows

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Linear, Model

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "torch_dtype": "bfloat16",
}


def test_llama_layer() -> None:
    names = tensors(build("LlamaForCausalLM", **SMALL))
    assert names["model.layers.2.self_attn.k_proj.weight"] == ((16, 64), "BF16")
    assert names["model.layers.0.mlp.down_proj.weight"] == ((64, 160), "BF16")
    assert names["lm_head.weight"] == ((1000, 64), "BF16")
    assert len(names) == 3 + 3 * 9


def test_biases_where_the_config_or_the_class_says() -> None:
    llama = tensors(build("LlamaForCausalLM", **SMALL, attention_bias=True, mlp_bias=True))
    assert {"model.layers.0.self_attn.o_proj.bias", "model.layers.0.mlp.up_proj.bias"} <= llama.keys()
    qwen2 = tensors(build("Qwen2ForCausalLM", **SMALL))
    assert "model.layers.0.self_attn.q_proj.bias" in qwen2
    assert "model.layers.0.self_attn.o_proj.bias" not in qwen2


def test_qwen3_norms_over_each_head() -> None:
    names = tensors(build("Qwen3ForCausalLM", **SMALL, head_dim=32))
    assert names["model.layers.1.self_attn.q_norm.weight"] == ((32,), "BF16")
    assert names["model.layers.1.self_attn.q_proj.weight"] == ((256, 64), "BF16")


def test_tied_head_is_stored_once() -> None:
    model = build("LlamaForCausalLM", **SMALL, tie_word_embeddings=True)
    assert model.tied
    assert "lm_head.weight" not in tensors(model)


def test_phi3_stores_packed_projections_that_split_by_heads() -> None:
    model = build("Phi3ForCausalLM", **SMALL)
    names = tensors(model)
    assert names["model.layers.0.self_attn.qkv_proj.weight"] == ((96, 64), "BF16")
    assert names["model.layers.0.mlp.gate_up_proj.weight"] == ((320, 64), "BF16")
    qkv = model.layers[0].block.modules[0]
    assert isinstance(qkv, Linear)
    assert [(p.out_features, p.heads) for p in qkv.parts if p.created] == [(64, 8), (16, 2), (16, 2)]


def test_cohere_has_one_norm_a_layer_and_a_tied_head() -> None:
    model = build("CohereForCausalLM", **SMALL, model_max_length=4096, use_qk_norm=True)
    names = tensors(model)
    assert "model.layers.0.post_attention_layernorm.weight" not in names
    assert names["model.layers.0.self_attn.k_norm.weight"] == ((2, 8), "BF16")
    assert model.tied
    assert model.max_position == 4096
    attention = mixers(model)[0]
    assert isinstance(attention, Attention)
    assert attention.rope is not None
    assert attention.rope.positions == 4096


@pytest.mark.parametrize(
    ("architecture", "config", "expected"),
    [
        ("MistralForCausalLM", {}, [4096] * 3),  # the config class's default
        ("MistralForCausalLM", {"sliding_window": None}, [0] * 3),
        ("LlamaForCausalLM", {"sliding_window": 128}, [128] * 3),
        ("Qwen2ForCausalLM", {"sliding_window": 128, "use_sliding_window": False}, [0] * 3),
        ("Cohere2ForCausalLM", {"sliding_window": 64, "sliding_window_pattern": 2}, [64, 0, 64]),
        (
            "LlamaForCausalLM",
            {"sliding_window": 32, "layer_types": ["full_attention", "sliding_attention", "full_attention"]},
            [0, 32, 0],
        ),
    ],
)
def test_windows(architecture: str, config: dict[str, Any], expected: list[int]) -> None:
    assert windows(build(architecture, **SMALL | config)) == expected


@pytest.mark.parametrize(
    ("rope", "rows", "length"),
    [
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64}, 512, 512),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}, 2048, 2048),
        ({"type": "linear", "factor": 2.0}, 1024, 1024),
        ({"rope_type": "longrope", "original_max_position_embeddings": 128}, 640, 512),
        ({"rope_type": "default", "mrope_section": [2, 1, 1]}, 2048, 512),
    ],
)
def test_rotary_rows_and_context_length(rope: dict[str, Any], rows: int, length: int) -> None:
    model = build("LlamaForCausalLM", **SMALL, rope_scaling=rope)
    attention = mixers(model)[0]
    assert isinstance(attention, Attention)
    assert attention.rope is not None
    assert (attention.rope.positions, model.max_position) == (rows, length)


def test_equal_layers_are_one_block() -> None:
    model = build("LlamaForCausalLM", **SMALL)
    assert model.layers[0].block is model.layers[2].block


def test_auto_gptq_left_biases_of_zeros() -> None:
    quant = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}
    names = tensors(build("LlamaForCausalLM", **SMALL, quantization_config=quant))
    assert names["model.layers.0.mlp.gate_proj.bias"] == ((160,), "F16")
    signed = {**quant, "meta": {"quantizer": ["gptqmodel:2.0"]}}
    assert "model.layers.0.mlp.gate_proj.bias" not in tensors(
        build("LlamaForCausalLM", **SMALL, quantization_config=signed)
    )


def test_rotary_frequencies_in_checkpoints_of_old_transformers() -> None:
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    assert tensors(build("LlamaForCausalLM", **SMALL, transformers_version="4.31.0.dev0"))[name] == ((4,), "F32")
    assert name not in tensors(build("LlamaForCausalLM", **SMALL, transformers_version="4.46.0"))


def test_qwen_block_fp8_scales_are_bf16() -> None:
    quant = {"quant_method": "fp8", "weight_block_size": [32, 32], "activation_scheme": "dynamic"}
    names = tensors(build("Qwen3ForCausalLM", **SMALL, head_dim=8, quantization_config=quant))
    assert names["model.layers.0.mlp.up_proj.weight_scale_inv"] == ((5, 2), "BF16")
    llama = tensors(build("LlamaForCausalLM", **SMALL, quantization_config=quant))
    assert llama["model.layers.0.mlp.up_proj.weight_scale_inv"] == ((5, 2), "F32")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_hidden_layers": 10_001}, "num_hidden_layers"),
        ({"num_attention_heads": 7, "num_key_value_heads": 7, "head_dim": 0}, "not divisible"),
        ({"num_key_value_heads": 3}, "cannot share"),
        ({"hidden_size": [64]}, "not a whole number"),
        ({"intermediate_size": None}, "no intermediate_size"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": float("nan")}}, "not a number"),
        ({"rope_scaling": [1]}, "not an object"),
    ],
)
def test_configs_that_lie(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build("Qwen3ForCausalLM", **SMALL | change)


def _llama(hidden: int, inner: int, layers: int, heads: int, kv: int, vocab: int, **more: Any) -> Model:
    architecture = more.pop("architecture", "LlamaForCausalLM")
    sizes = {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "vocab_size": vocab,
    }
    return build(architecture, **sizes, **{"rope_theta": 500000.0, "torch_dtype": "bfloat16", **more})


def test_published_counts() -> None:
    """meta-llama/Llama-3.1-8B, 70B; Qwen/Qwen3-8B; microsoft/phi-4; CohereLabs/c4ai-command-r-v01."""
    assert elements(_llama(4096, 14336, 32, 32, 8, 128256)) == {"BF16": 8_030_261_248}
    assert elements(_llama(8192, 28672, 80, 64, 8, 128256)) == {"BF16": 70_553_706_496}
    qwen3 = _llama(4096, 12288, 36, 32, 8, 151936, architecture="Qwen3ForCausalLM", head_dim=128)
    assert elements(qwen3) == {"BF16": 8_190_735_360}
    phi = _llama(5120, 17920, 40, 40, 10, 100352, architecture="Phi3ForCausalLM")
    assert elements(phi) == {"BF16": 14_659_507_200}
    command = _llama(8192, 22528, 40, 64, 64, 256000, architecture="CohereForCausalLM", torch_dtype="float16")
    assert elements(command) == {"F16": 34_980_831_232}


def test_qwen2_72b_awq_pads_its_mlp() -> None:
    """Qwen/Qwen2.5-72B-Instruct-AWQ: the padded width stands in its config."""
    model = _llama(
        8192, 29696, 80, 64, 8, 152064, architecture="Qwen2ForCausalLM", torch_dtype="float16",
        quantization_config={"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
    )  # fmt: skip
    assert elements(model)["I32"] == 8_876_851_200
