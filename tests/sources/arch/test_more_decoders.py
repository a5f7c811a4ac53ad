"""The further decoders: rows of dense.py and sparse.py, the old ones, LFM2 and Mamba."""

from __future__ import annotations

from typing import Any

import pytest
from arch_build import build, elements, mixers, tensors, windows

from oomph.errors import ConfigError
from oomph.ir.model import Attention, Linear, State
from oomph.sources.arch.dense import STYLES

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 500,
    "max_position_embeddings": 256,
}


@pytest.mark.parametrize("architecture", sorted(STYLES))
def test_every_row_builds(architecture: str) -> None:
    model = build(architecture, **SMALL)
    assert len(model.layers) == 4
    assert model.nbytes > 0


def test_names_of_their_own() -> None:
    internlm = tensors(build("InternLM2ForCausalLM", **SMALL))
    assert internlm["model.layers.0.attention.wqkv.weight"] == ((128, 64), "BF16")
    assert internlm["model.layers.0.feed_forward.w3.weight"] == ((96, 64), "BF16")
    assert {"model.tok_embeddings.weight", "output.weight"} <= internlm.keys()
    starcoder = tensors(build("Starcoder2ForCausalLM", **SMALL))
    assert starcoder["model.layers.0.mlp.c_fc.bias"] == ((96,), "BF16")
    assert starcoder["model.norm.bias"] == ((64,), "BF16")
    assert "lm_head.weight" not in starcoder
    phi = tensors(build("PhiForCausalLM", **SMALL | {"num_key_value_heads": 4}))
    assert {"model.layers.0.self_attn.dense.bias", "model.final_layernorm.bias", "lm_head.bias"} <= phi.keys()
    glm = tensors(build("Glm4ForCausalLM", **SMALL, head_dim=16))
    assert glm["model.layers.0.mlp.gate_up_proj.weight"] == ((192, 64), "BF16")
    assert "model.layers.0.post_mlp_layernorm.weight" in glm
    assert "model.layers.0.self_attn.o_proj.bias" not in glm


def test_olmo_norms_over_all_heads_and_plain_rope_on_sliding_layers() -> None:
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    model = build("Olmo3ForCausalLM", **SMALL, sliding_window=32, rope_scaling=rope)
    assert tensors(model)["model.layers.0.self_attn.k_norm.weight"] == ((32,), "BF16")
    assert windows(model) == [32, 32, 32, 0]
    kinds = [m.rope.kind for m in mixers(model) if isinstance(m, Attention) and m.rope is not None]
    assert kinds == ["default"] * 3 + ["yarn"]


def test_exaone_writes_its_pattern_in_letters() -> None:
    assert windows(build("Exaone4ForCausalLM", **SMALL, sliding_window=8, sliding_window_pattern="LG")) == [8, 0, 8, 0]


def test_sparse_families() -> None:
    ernie = build(
        "Ernie4_5_MoeForCausalLM",
        **SMALL,
        moe_num_experts=4,
        moe_k=2,
        moe_intermediate_size=24,
        moe_layer_start_index=2,
    )
    names = tensors(ernie)
    assert names["model.layers.2.mlp.gate.weight"] == ((4, 64), "F32")
    assert names["model.layers.2.mlp.shared_experts.up_proj.weight"] == ((48, 64), "BF16")
    assert "model.layers.1.mlp.gate_proj.weight" in names
    phimoe = tensors(build("PhiMoEForCausalLM", **SMALL, num_local_experts=4))
    assert {"lm_head.bias", "model.layers.0.block_sparse_moe.experts.*.w2.weight"} <= phimoe.keys()
    hunyuan = build("HunYuanMoEV1ForCausalLM", **SMALL, num_experts=4, moe_topk=[2] * 4, moe_intermediate_size=[24] * 4)
    assert "model.layers.0.mlp.experts.*.gate_proj.weight" in tensors(hunyuan)
    with pytest.raises(ConfigError, match="moe_topk"):
        build("HunYuanMoEV1ForCausalLM", **SMALL, num_experts=4, moe_topk=[2], moe_intermediate_size=24)


def test_gpt2_and_opt_are_as_published() -> None:
    """openai-community/gpt2: 548,105,171 bytes with its masks; facebook/opt-125m: 125,239,296 parameters."""
    gpt2 = build("GPT2LMHeadModel", model_type="gpt2")
    assert elements(gpt2) == {"F32": 124_439_808 + 12 * 1024 * 1024}
    assert gpt2.max_position == 1024
    opt = build("OPTForCausalLM", torch_dtype="float16", hidden_size=768, num_attention_heads=12)
    assert elements(opt) == {"F16": 125_239_296}
    assert all(m.rope is None for m in mixers(opt) if isinstance(m, Attention))


def test_bloom_and_gpt_j_are_as_published() -> None:
    """bigscience/bloom-560m, EleutherAI/gpt-j-6b."""
    bloom = build("BloomForCausalLM", hidden_size=1024, n_layer=24, n_head=16, vocab_size=250880, torch_dtype="float16")
    assert elements(bloom) == {"F16": 559_214_592}
    assert "word_embeddings_layernorm.bias" in tensors(bloom)
    gptj = build("GPTJForCausalLM", n_embd=4096, n_layer=28, n_head=16, vocab_size=50400, torch_dtype="float16")
    assert elements(gptj) == {"F16": 6_050_882_784}


def test_falcon_shares_one_head_of_keys() -> None:
    """tiiuae/falcon-7b: 6,921,720,704 parameters."""
    model = build(
        "FalconForCausalLM", hidden_size=4544, num_hidden_layers=32, num_attention_heads=71, vocab_size=65024,
        multi_query=True, parallel_attn=True, new_decoder_architecture=False, torch_dtype="bfloat16",
    )  # fmt: skip
    assert elements(model) == {"BF16": 6_921_720_704}
    qkv = next(m for m in model.layers[0].block.modules if isinstance(m, Linear))
    assert [p.heads for p in qkv.parts if p.created] == [71, 1, 1]


def test_chatglm_takes_its_vocabulary_padded() -> None:
    model = build(
        "ChatGLMModel", hidden_size=64, num_layers=2, num_attention_heads=4, ffn_hidden_size=96, padded_vocab_size=512,
        seq_length=128, multi_query_attention=True, multi_query_group_num=2, add_qkv_bias=True, add_bias_linear=False,
        torch_dtype="bfloat16",
    )  # fmt: skip
    names = tensors(model)
    assert names["transformer.embedding.word_embeddings.weight"] == ((512, 64), "BF16")
    assert names["transformer.encoder.layers.0.self_attention.query_key_value.bias"] == ((128,), "BF16")
    assert model.max_position == 128


def test_lfm2_convolutions_and_experts() -> None:
    config = {**SMALL, "layer_types": ["conv", "full_attention", "conv", "conv"], "block_multiple_of": 16}
    model = build("Lfm2ForCausalLM", **config)
    assert [type(m) for m in mixers(model)] == [State, Attention, State, State]
    assert tensors(model)["model.layers.0.feed_forward.w1.weight"] == ((64, 64), "BF16")
    moe = build(
        "Lfm2MoeForCausalLM",
        **config,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=24,
        num_dense_layers=1,
    )
    names = tensors(moe)
    assert names["model.layers.0.feed_forward.w1.weight"] == ((96, 64), "BF16")
    assert names["model.layers.1.feed_forward.expert_bias"] == ((4,), "F32")


def test_mamba_models_have_no_attention() -> None:
    first = build("MambaForCausalLM", hidden_size=64, num_hidden_layers=2, vocab_size=500)
    assert tensors(first)["backbone.layers.0.mixer.x_proj.weight"] == ((4 + 32, 128), "BF16")
    second = build(
        "Mamba2ForCausalLM", hidden_size=64, num_hidden_layers=2, vocab_size=500, num_heads=8, head_dim=16, n_groups=1
    )
    assert [m.kind for m in (*mixers(first), *mixers(second))] == ["mamba1", "mamba1", "mamba2", "mamba2"]
