import json

import atheris

with atheris.instrument_imports(include=["oomph"]):
    from oomph.sources import json_input
    from oomph.sources.build import build_model

from common import mutate_json, run

BASE = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512, "max_position_embeddings": 2048, "dtype": "bfloat16",
    "tie_word_embeddings": False, "rope_theta": 10000.0, "rms_norm_eps": 1e-6, "sliding_window": 128,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
MOE = {"num_experts": 8, "num_local_experts": 8, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1,
       "moe_intermediate_size": 32, "first_k_dense_replace": 1, "decoder_sparse_step": 1, "n_group": 1}  # fmt: skip
MLA = {"kv_lora_rank": 32, "q_lora_rank": 48, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16,
       "num_nextn_predict_layers": 1, "index_head_dim": 16, "index_n_heads": 4, "index_topk": 64}  # fmt: skip
GDN = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
       "linear_conv_kernel_dim": 4, "full_attention_interval": 4, "shared_expert_intermediate_size": 32}  # fmt: skip
MAMBA = {"hybrid_override_pattern": "M-*E", "moe_shared_expert_intermediate_size": 32,
         "mamba_num_heads": 4, "mamba_head_dim": 16, "ssm_state_size": 16,
         "n_groups": 2, "conv_kernel": 4, "chunk_size": 128, "time_step_limit": [0.0, float("inf")]}  # fmt: skip
FP8 = {"quant_method": "fp8", "weight_block_size": [16, 16], "activation_scheme": "dynamic"}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "modules_to_not_convert": ["lm_head"]}
COMPRESSED = {
    "quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": ["lm_head", "re:.*self_attn.*"],
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
        "num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}}},
}  # fmt: skip
FAMILIES = {
    "LlamaForCausalLM": {"rope_scaling": YARN, "quantization_config": AWQ},
    "Qwen3ForCausalLM": {"quantization_config": COMPRESSED},
    "Qwen3MoeForCausalLM": {**MOE, "quantization_config": FP8},
    "GptOssForCausalLM": {**MOE, "layer_types": ["sliding_attention", "full_attention"] * 2},
    "DeepseekV32ForCausalLM": {**MOE, **MLA},
    "Gemma3ForCausalLM": {"sliding_window_pattern": 2, "query_pre_attn_scalar": 16},
    "Qwen3NextForCausalLM": {**MOE, **GDN},
    "NemotronHForCausalLM": {**MOE, **MAMBA},
    "Glm4MoeForCausalLM": MOE,
    "MiniMaxM2ForCausalLM": MOE,
}


def seeds() -> list[bytes]:
    configs = [{"architectures": [name], **BASE, **more} for name, more in FAMILIES.items()]
    nested = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": BASE, "vision_config": {
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 56,
        "patch_size": 14}, "mm_tokens_per_image": 4}  # fmt: skip
    return [json.dumps(c).encode() for c in (*configs, nested)]


def one(data: bytes) -> None:
    raw = json_input.parse_object(data, "config.json")
    build_model("org/name", raw, hf_quant_config=raw.get("hf_quant_config"))


if __name__ == "__main__":
    run(one, seeds(), mutate_json)
