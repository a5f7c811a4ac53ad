"""The role that a tensor's name alone tells: what headers without a template are sorted by."""

from __future__ import annotations

import pytest

from oomph.sources.build import role_of


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("model.embed_tokens.weight", "embed"),
        ("model.layers.61.shared_head.head.weight", "lm_head"),
        ("lm_head.weight", "lm_head"),
        ("model.layers.3.self_attn.q_a_proj.weight", "attention"),
        ("model.layers.3.self_attn.q_a_layernorm.weight", "norm"),
        ("model.layers.3.mlp.gate.e_score_correction_bias", "router"),
        ("model.layers.3.mlp.experts.7.up_proj.weight_scale_inv", "experts"),
        ("model.layers.3.mlp.shared_experts.up_proj.weight", "shared_experts"),
        ("model.layers.3.block_sparse_moe.input_linear.weight", "experts"),
        ("model.layers.3.block_sparse_moe.router.layer.weight", "router"),
        ("model.layers.3.shared_mlp.input_linear.weight", "shared_experts"),
        ("backbone.layers.3.mixer.in_proj.weight", "linear_attn"),
        ("backbone.layers.3.mixer.q_proj.weight", "attention"),
        ("backbone.layers.3.mixer.down_proj.weight", "mlp"),
        ("backbone.layers.3.mixer.experts.0.down_proj.weight", "experts"),
        ("backbone.layers.3.mixer.fc1_latent_proj.weight", "experts"),
        ("backbone.layers.3.mixer.shared_experts.up_proj.weight", "shared_experts"),
        ("model.vision_tower.encoder.layers.3.mlp.down_proj.linear.weight", "multimodal"),
        ("patch_merge_mlp.linear_1.weight", "multimodal"),
        ("model.audio_tower.output_proj.weight", "multimodal"),
        ("some.unheard_of.tensor", "other"),
    ],
)
def test_role(name: str, role: str) -> None:
    assert role_of(name) == role
