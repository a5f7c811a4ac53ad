"""Every architecture of the registry is built from a small config: no family file is left that nothing ever runs.

The config has the keys of all families at once, and comes in a few variants (which kinds of layers, nested or not): a
family may refuse some of them with a sentence, never with anything else, and builds at least one.
"""

from __future__ import annotations

from typing import Any

import pytest

from oomph.errors import OomphError
from oomph.ir import Model
from oomph.sources.arch import FAMILIES
from oomph.sources.build import build_model

_TEXT: dict[str, Any] = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "head_dim": 32,
    "num_key_value_heads": 2, "vocab_size": 512, "max_position_embeddings": 4096, "sliding_window": 64,
    "num_experts": 4, "num_local_experts": 4, "moe_num_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "moe_topk": 2, "moe_top_k": 2, "moe_k": 2, "moe_intermediate_size": 64, "n_shared_experts": 1,
    "num_shared_experts": 1, "shared_expert_intermediate_size": 64, "shared_intermediate_size": 128,
    "moe_shared_expert_intermediate_size": 64,
    "intermediate_size_mlp": 256, "first_k_dense_replace": 1, "decoder_sparse_step": 1, "interleave_moe_layer_step": 1,
    "expert_ffn_hidden_size": 64, "zero_expert_num": 1, "num_nextn_predict_layers": 1,
    "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32,
    "index_n_heads": 2, "index_head_dim": 32, "index_topk": 64, "o_groups": 2, "o_lora_rank": 16,
    "compress_ratios": [0, 4, 4, 0], "hc_mult": 2, "attention_chunk_size": 64, "num_attention_groups": 2,
    "n_embd": 128, "n_layer": 4, "n_head": 4, "n_positions": 512, "d_model": 128, "n_layers": 4, "n_heads": 4,
    "max_seq_len": 512, "num_layers": 4, "ffn_dim": 256, "ffn_hidden_size": 256, "seq_length": 512, "rotary_dim": 32,
    "state_size": 16, "time_step_rank": 8, "conv_kernel": 4, "mamba_d_state": 16, "mamba_d_conv": 4,
    "mamba_expand": 2, "mamba_n_heads": 8, "mamba_d_head": 32, "mamba_n_groups": 1, "mamba_chunk_size": 64,
    "mamba_num_heads": 8, "mamba_head_dim": 32, "ssm_state_size": 16, "n_groups": 1, "num_mem_blocks": 2,
    "attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1,
    "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
    "linear_conv_kernel_dim": 4, "full_attention_interval": 2, "attn_type_list": [1, 0, 1, 0],
    "full_attn_idxs": [1, 3], "num_layers_per_stack": 2, "hybrid_layer_pattern": [0, 1, 1, 0],
    "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"], "num_kv_shared_layers": 1,
    "linear_attn_config": {"kda_layers": [1, 3], "num_heads": 4, "head_dim": 32, "short_conv_kernel_size": 4},
    "block_configs": [{"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 2.0}}] * 4,
    "attn_config": {"kv_n_heads": 2}, "ffn_config": {"moe_num_experts": 4, "moe_top_k": 2, "ffn_hidden_size": 64},
    "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 64, "altup_num_inputs": 2, "laurel_rank": 8,
    "global_head_dim": 32, "sliding_window_size": 64, "swa_num_attention_heads": 4, "swa_head_dim": 32,
    "decoder_layers": 4, "decoder_attention_heads": 4, "decoder_ffn_dim": 256, "encoder_layers": 4,
    "encoder_attention_heads": 4, "encoder_ffn_dim": 256, "num_mel_bins": 32, "max_source_positions": 64,
    "classify_num": 8, "mm_hidden_size": 128, "visual_vocab_size": 64, "num_positions": 17, "moe_layer_freq": 1,
    "adapter_hidden_size": 64, "num_blocks": 2, "markov_rank": 8,
    "dflash_config": {"selector_rank": 8, "conv_kernel_size": 4, "conv_group_size": 32},
}  # fmt: skip
_TOWER: dict[str, Any] = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "num_heads": 4,
    "image_size": 56, "patch_size": 14, "depth": 4, "embed_dim": 128, "out_hidden_size": 128, "width": 128,
    "layers": 4, "heads": 4, "hidden_dim": 128, "num_layers": 4, "dim_head": 32, "d_model": 128, "encoder_layers": 4,
    "encoder_attention_heads": 4, "encoder_ffn_dim": 256, "num_mel_bins": 32, "max_source_positions": 64,
    "output_dim": 64, "vision_output_dim": 64, "projector_input_dim": 64, "projector_output_dim": 64,
    "pixel_shuffle_ratio": 0.5, "num_position_embeddings": 64, "input_dim": 64, "model_type": "siglip_vision_model",
    "num_positions": 17, "encoder_hidden_size": 128, "output_hidden_size": 128, "merge_size": 2, "pos_emb_size": 16,
}  # fmt: skip
LAYERS = {  # the families that need it say which kinds of layers their own config names
    "plain": {}, "windows": {"layer_types": ["sliding_attention", "full_attention"] * 2},
    "linear": {"layer_types": ["linear_attention", "full_attention"] * 2},
    "lists": {"moe_layer_freq": [0, 1, 1, 1], "layers_block_type": ["mamba", "attention", "mlp", "moe"]},
    "few heads": {"rotary_dim": 16, "num_heads": 8},
}  # fmt: skip


_TEXT_ONLY = ("EmbeddingGemma2Model",)  # planned without its encoders


def every_key(architecture: str, language: str, layers: dict[str, Any], nested: bool) -> dict[str, Any]:
    text = {**_TEXT, "model_type": language, **layers}
    whole = {**text, "architectures": [architecture], "torch_dtype": "bfloat16", "version": "2.6"}
    if architecture in _TEXT_ONLY:
        return {**whole, "text_config": text} if nested else whole
    for part in (
        "vision_config",
        "audio_config",
        "encoder_config",
        "vit_config",
        "audio_encoder_config",
        "projector_config",
    ):
        whole[part] = dict(_TOWER)
    return {**whole, "text_config": text} if nested else whole


def _models(architecture: str) -> list[Model]:
    models = []
    for language in ("llama", "qwen2", "opt"):
        for layers in LAYERS.values():
            try:
                models.append(build_model(architecture, every_key(architecture, language, layers, language != "llama")))
            except OomphError as error:
                assert str(error)  # a sentence about this config
    return models


@pytest.mark.parametrize("family", sorted(set(FAMILIES.values())))
def test_every_architecture_is_built(family: str) -> None:
    for architecture in (name for name, own in FAMILIES.items() if own == family):
        models = _models(architecture)
        assert models, architecture
        for model in models:
            # Medusa has no layers: linear layers and heads only
            assert not model.opaque and (model.layers or architecture == "MedusaModel")
            assert model.architecture == architecture
            assert all(layer.block.modules or layer.mixers for layer in model.layers)
            assert model.nbytes > 0
