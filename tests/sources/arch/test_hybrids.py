"""Nemotron-H, Granite 4, Bamba, Jamba, Falcon-H1, and MiniMax, whose layers are all alike."""

from __future__ import annotations

from typing import Any

import pytest
from arch_build import build, elements, mixers, tensors

from oomph.engines.common.shard import outs
from oomph.errors import ConfigError
from oomph.ir.model import Attention, Experts, Linear, Model, State
from oomph.sources.build import build_model

NEMOTRON_3_NANO: dict[str, Any] = {
    "head_dim": 128,
    "hidden_size": 2688,
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    "intermediate_size": 1856,
    "mamba_head_dim": 64,
    "mamba_num_heads": 64,
    "mamba_ssm_cache_dtype": "float32",
    "max_position_embeddings": 262144,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "n_groups": 8,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_attention_heads": 32,
    "num_experts_per_tok": 6,
    "num_hidden_layers": 52,
    "num_key_value_heads": 2,
    "ssm_state_size": 128,
    "torch_dtype": "bfloat16",
    "vocab_size": 131072,
}

MAMBA: dict[str, Any] = {
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_n_groups": 1,
    "mamba_d_state": 32,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "max_position_embeddings": 256,
    "torch_dtype": "bfloat16",
}


def kinds(model: Model) -> list[str]:
    return ["+".join(m.kind for m in layer.mixers) for layer in model.layers]


def linears(model: Model, layer: int) -> dict[str, Linear]:
    found: dict[str, Linear] = {}
    for module in model.layers[layer].block.modules:
        if isinstance(module, Linear):
            found.setdefault(module.name, module)
    return found


def test_nemotron_3_nano() -> None:
    model = build("NemotronHForCausalLM", **NEMOTRON_3_NANO)
    assert elements(model) == {"BF16": 31_577_937_344, "F32": 2_944}
    assert kinds(model).count("mamba2") == 23
    assert kinds(model).count("full") == 6
    state = mixers(model)[0]
    assert isinstance(state, State) and state.dtype == "F32"
    assert all(m.rope is None for m in mixers(model) if isinstance(m, Attention))


def test_nemotron_layers_may_be_listed_by_name() -> None:
    pattern = [{"M": "mamba", "E": "moe", "*": "attention"}[c] for c in NEMOTRON_3_NANO["hybrid_override_pattern"]]
    config = {k: v for k, v in NEMOTRON_3_NANO.items() if k not in ("hybrid_override_pattern", "num_hidden_layers")}
    listed = build("NemotronHForCausalLM", **config, layers_block_type=pattern)
    assert listed.layers == build("NemotronHForCausalLM", **NEMOTRON_3_NANO).layers


def test_nemotron_experts_in_a_latent_space_have_no_gate() -> None:
    model = build("NemotronHForCausalLM", **NEMOTRON_3_NANO, moe_latent_size=512)
    (experts,) = [m for m in model.layers[1].block.modules if isinstance(m, Experts)]
    assert (experts.hidden, experts.gated, experts.projections) == (512, False, ("up_proj", "down_proj"))
    assert linears(model, 1)["mixer.fc1_latent_proj"].out_features == 512


def test_nemotron_router_weights_depend_on_the_gpu() -> None:
    model = build("NemotronHForCausalLM", **NEMOTRON_3_NANO)
    gates = [m for m in model.layers[1].block.modules if isinstance(m, Linear) and m.name == "mixer.gate"]
    assert [(g.created_dtype, g.parts[0].only) for g in gates] == [
        ("", "router in the model's dtype"),
        ("F32", "router in float32"),
    ]


def test_nemotron_drafts_follow_their_own_pattern() -> None:
    model = build(
        "NemotronHForCausalLM", **NEMOTRON_3_NANO, num_nextn_predict_layers=1, mtp_hybrid_override_pattern="*E"
    )
    assert [[m.kind for m in layer.mixers] for layer in model.drafts] == [["full"], []]
    assert elements(model) == {"BF16": 31_577_937_344, "F32": 2_944}


def test_mamba_2_splits_its_input_by_what_it_makes() -> None:
    model = build("NemotronHForCausalLM", **NEMOTRON_3_NANO)
    in_proj = linears(model, 0)["mixer.in_proj"]
    assert outs(in_proj, 1) == [4096, 4096, 1024, 1024, 64]
    assert outs(in_proj, 4) == [1024, 1024, 256, 256, 16]
    assert tensors(model)["backbone.layers.0.mixer.in_proj.weight"] == ((10304, 2688), "BF16")


def test_a_single_mamba_group_is_on_every_rank() -> None:
    model = build("BambaForCausalLM", **MAMBA, attn_layer_indices=[2])
    assert kinds(model) == ["mamba2", "mamba2", "full", "mamba2"]
    assert outs(linears(model, 0)["mamba.in_proj"], 4) == [32 + 32 + 32 + 32 + 2]  # one layer then


def test_granite_4_hybrid() -> None:
    layer_types = ["mamba", "attention", "mamba", "mamba"]
    moe = {"layer_types": layer_types, "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 48}
    model = build("GraniteMoeHybridForCausalLM", **MAMBA, **moe, position_embedding_type="nope")
    assert kinds(model) == ["mamba2", "full", "mamba2", "mamba2"]
    names = tensors(model)
    assert names["model.layers.1.block_sparse_moe.input_linear.weight"] == ((4, 192, 64), "BF16")
    assert names["model.layers.1.shared_mlp.input_linear.weight"] == ((96, 64), "BF16")
    assert not any("experts.*" in n for n in names)
    attention = mixers(model)[1]
    assert isinstance(attention, Attention) and attention.rope is None


def test_granite_4_h_small() -> None:
    model = build(
        "GraniteMoeHybridForCausalLM",
        hidden_size=4096,
        intermediate_size=768,
        shared_intermediate_size=1536,
        num_local_experts=72,
        num_experts_per_tok=10,
        num_hidden_layers=40,
        layer_types=["attention" if i in (5, 15, 25, 35) else "mamba" for i in range(40)],
        num_attention_heads=32,
        num_key_value_heads=8,
        mamba_n_heads=128,
        mamba_d_head=64,
        mamba_d_state=128,
        vocab_size=100352,
        tie_word_embeddings=True,
        torch_dtype="bfloat16",
    )
    assert elements(model) == {"BF16": 32_207_337_984}


def test_falcon_h1_has_both_in_every_layer() -> None:
    model = build("FalconH1ForCausalLM", **MAMBA, mamba_d_ssm=128)
    assert kinds(model) == ["full+mamba2"] * 4
    assert "model.layers.0.mamba.norm.weight" not in tensors(model)
    assert outs(linears(model, 0)["mamba.mup_vector"], 1) == [128, 128, 32, 32, 8]


def test_jamba_mini() -> None:
    model = build("JambaForCausalLM", mamba_dt_rank=256, torch_dtype="bfloat16")
    assert elements(model) == {"BF16": 51_570_323_328}
    assert [i for i, k in enumerate(kinds(model)) if k == "full"] == [4, 12, 20, 28]
    assert [i for i, x in enumerate(model.layers) if any(isinstance(m, Experts) for m in x.block.modules)][:3] == [
        1,
        3,
        5,
    ]


MINIMAX: dict[str, Any] = {
    "num_hidden_layers": 62,
    "hidden_size": 3072,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 1536,
    "vocab_size": 200064,
    "num_experts_per_tok": 8,
    "num_local_experts": 256,
    "max_position_embeddings": 196608,
    "rotary_dim": 64,
    "torch_dtype": "bfloat16",
}


def test_minimax_m2() -> None:
    model = build("MiniMaxM2ForCausalLM", **MINIMAX)
    assert sum(elements(model).values()) == 228_689_764_864
    mixer = mixers(model)[0]
    assert isinstance(mixer, Attention) and mixer.rope is not None and mixer.rope.dim == 64


def test_minimax_m3_has_an_index_branch_on_sparse_layers() -> None:
    small = MINIMAX | {"num_hidden_layers": 3, "num_local_experts": 4, "num_key_value_heads": 4}
    sparse = {"sparse_index_dim": 128, "sparse_num_index_heads": 4, "sparse_attention_freq": [0, 1, 1]}
    text = small | {"sparse_attention_config": sparse, "moe_layer_freq": [0, 1, 1], "dense_intermediate_size": 64}
    model = build("MiniMaxM3SparseForConditionalGeneration", text_config=text, vision_config={}, torch_dtype="bfloat16")
    assert [m.indexer is not None for m in mixers(model) if isinstance(m, Attention)] == [False, True, True]
    qkv = linears(model, 1)["self_attn.qkv_proj"]
    assert outs(qkv, 4) == [1536, 128, 128, 128, 128]


@pytest.mark.parametrize(
    ("architecture", "config"),
    [
        ("NemotronHForCausalLM", NEMOTRON_3_NANO | {"hybrid_override_pattern": "MX"}),
        ("NemotronHForCausalLM", NEMOTRON_3_NANO | {"hybrid_override_pattern": ""}),
        ("NemotronHForCausalLM", NEMOTRON_3_NANO | {"n_groups": 7}),
        ("NemotronHForCausalLM", NEMOTRON_3_NANO | {"layers_block_type": ["mamba", 3]}),
        ("GraniteMoeHybridForCausalLM", MAMBA | {"layer_types": ["mamba"]}),
        ("FalconH1ForCausalLM", MAMBA | {"mamba_d_head": 17}),
        ("BambaForCausalLM", MAMBA | {"num_hidden_layers": 0}),
        ("JambaForCausalLM", {"attn_layer_period": 0}),
        ("MiniMaxM2ForCausalLM", MINIMAX | {"num_local_experts": 0}),
    ],
)
def test_broken_configs(architecture: str, config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        build_model("test/model", {"architectures": [architecture], **config})


def test_a_pattern_counts_more_than_num_hidden_layers() -> None:
    pattern = "M-M*"
    model = build(
        "NemotronHForCausalLM", **NEMOTRON_3_NANO | {"num_hidden_layers": 7, "hybrid_override_pattern": pattern}
    )
    assert len(model.layers) == len(pattern)
