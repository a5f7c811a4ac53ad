"""The keys that vLLM's JSON arguments take, read from the config classes of 0.11.0 to 0.32.0.

Words carry their releases as in flag_rows.py. Up to 0.15 an unknown key was dropped without a word (in
--compilation-config up to 0.11); since then the engine stops at it.
"""

from collections.abc import Mapping

KEYS_REFUSED_SINCE = {"compilation_config": "0.12.0"}  # the others since 0.16.0

# The rows below were printed by tools/drift_flags.py --keys; see there before editing by hand.
# fmt: off
KEYS: Mapping[str, str] = {
    "attention_config": "backend backend_per_kind>=0.26.0 disable_flashinfer_prefill<0.22.0 "
        "disable_flashinfer_q_quantization flash_attn_max_num_splits_for_cuda_graph flash_attn_version "
        "flex_attn_block_m>=0.22.0 flex_attn_block_n>=0.22.0 flex_attn_kv_block_size>=0.22.0 "
        "flex_attn_q_block_size>=0.22.0 hisparse_config>=0.30.0 indexer_kv_dtype>=0.24.0 "
        "indexer_sparse_logits>=0.31.0 minimax_m3_msa_decode_backend>=0.27.0 mla_prefill_backend>=0.21.0 "
        "sparse_mla_force_mqa>=0.26.0 sparse_mla_prefill_workspace_factor>=0.32.0 "
        "tokenspeed_mla_min_split_kv>=0.32.0 tq_max_kv_splits_for_cuda_graph>=0.20.0 use_cudnn_prefill<0.22.0 "
        "use_fp4_indexer_cache>=0.20.0<0.30.0 use_non_causal>=0.21.0 use_prefill_decode_attention<0.29.0 "
        "use_prefill_query_quantization>=0.17.0 use_trtllm_attention use_trtllm_ragged_deepseek_prefill<0.22.0",
    "aux_output_config": "enable_return_routed_experts max_bytes",
    "compilation_config": "backend cache_dir compile_cache_save_format>=0.11.1 compile_mm_encoder>=0.11.1 "
        "compile_ranges_endpoints>=0.18.0 compile_ranges_split_points>=0.13.0<0.18.0 compile_sizes "
        "cudagraph_capture_sizes cudagraph_copy_inputs cudagraph_decoder_replay>=0.32.0 "
        "cudagraph_mm_encoder>=0.19.0 cudagraph_mode cudagraph_num_of_warmups "
        "cudagraph_specialize_lora>=0.11.1 custom_ops debug_dump_path "
        "decoder_replay_cudagraph_capture_sizes>=0.32.0 decoder_replay_trim_threshold>=0.32.0 "
        "dynamic_shapes_config>=0.12.0 encoder_cudagraph_max_frames_per_batch>=0.20.0 "
        "encoder_cudagraph_max_images_per_batch>=0.19.0<0.20.0 "
        "encoder_cudagraph_max_vision_items_per_batch>=0.20.0 encoder_cudagraph_token_budgets>=0.19.0 "
        "fast_moe_cold_start>=0.16.0 full_cuda_graph<0.11.1 inductor_compile_config inductor_passes "
        "ir_enable_torch_wrap>=0.20.0 level<0.18.0 max_cudagraph_capture_size>=0.11.1 mode>=0.11.1 pass_config "
        "splitting_ops use_cudagraph<0.11.1 use_inductor<0.12.0 use_inductor_graph_partition",
    "diffusion_config": "canvas_length max_denoising_steps",
    "ec_manager_config": "encoder_cache_manager_cls manager_config",
    "ec_transfer_config": "ec_buffer_device ec_buffer_size ec_connector ec_connector_extra_config "
        "ec_connector_module_path ec_ip ec_parallel_size<0.32.0 ec_port ec_rank<0.32.0 ec_role engine_id",
    "engram_config": "cpu_offload dp_shared_memory embedding_across_dp use_thp>=0.31.0",
    "eplb_config": "communicator>=0.20.0 enable_migration_batching>=0.32.0 log_balancedness "
        "log_balancedness_interval>=0.14.0 num_redundant_experts policy>=0.13.0 step_interval "
        "use_async>=0.12.0 window_size",
    "fault_tolerance_config": "engine_recovery_timeout_sec",
    "ir_op_priority": "fused_add_rms_norm>=0.21.0 gelu_and_mul_sparse>=0.30.0 rms_norm",
    "kernel_config": "enable_bf16x3_router_gemm>=0.26.0<0.30.0 enable_cutedsl_warmup>=0.25.0 "
        "enable_flashinfer_autotune enable_jit_warmup>=0.27.0 enable_rocm_segmented_attn_autotune>=0.32.0 "
        "ir_op_priority>=0.20.0 linear_backend>=0.22.0 linear_backend_per_quant>=0.30.0 moe_backend>=0.17.0 "
        "sparse_indexer_topk_backend>=0.30.0",
    "kv_events_config": "buffer_steps enable_kv_cache_events endpoint hwm max_queue_size publisher "
        "replay_endpoint topic",
    "kv_transfer_config": "enable_permute_local_kv>=0.11.1 engine_id kv_buffer_device "
        "kv_buffer_size<0.32.0 kv_connector kv_connector_extra_config kv_connector_module_path kv_ip<0.32.0 "
        "kv_load_failure_policy>=0.13.0 kv_parallel_size<0.32.0 kv_port kv_rank<0.32.0 kv_role",
    "logging_config": "configure_logging formatter>=0.32.0 log_level pylogging_config_file",
    "override_pooler_config": "activation dimensions enable_chunked_processing logit_bias max_embed_len "
        "normalize pooling_type returned_token_ids softmax step_tag_id use_activation>=0.11.1",
    "pooler_config": "activation<0.16.0 dimensions enable_chunked_processing "
        "enable_flash_late_interaction>=0.32.0 logit_bias<0.23.0 logit_mean>=0.20.0 logit_scale>=0.20.0<0.23.0 "
        "logit_sigma>=0.20.0 max_embed_len normalize<0.16.0 pooling_type returned_token_ids "
        "seq_pooling_type>=0.14.0 softmax<0.16.0 step_tag_id task>=0.19.0 tok_pooling_type>=0.14.0 "
        "use_activation>=0.11.1",
    "profiler_config": "active_iterations>=0.18.0 capture_torch_profiler>=0.26.0 delay_iterations "
        "detailed_trace_annotation>=0.26.0 ignore_frontend max_iterations profiler proton_backend>=0.28.0 "
        "proton_context>=0.28.0 proton_data>=0.28.0 proton_graph_attribution>=0.30.0 proton_hook>=0.28.0 "
        "proton_mode>=0.28.0 proton_output_format>=0.28.0 proton_profiler_dir>=0.28.0 "
        "torch_profiler_activities>=0.31.0 torch_profiler_dir torch_profiler_dump_cuda_time_total "
        "torch_profiler_record_shapes torch_profiler_use_gzip torch_profiler_with_flops "
        "torch_profiler_with_memory torch_profiler_with_stack wait_iterations>=0.18.0 " "warmup_iterations>=0.18.0",
    "reasoning_config": "reasoning_end_str reasoning_parser>=0.20.0 reasoning_start_str",
    "speculative_config": "attention_backend>=0.21.0 code_revision disable_by_batch_size<0.17.0 "
        "disable_eagle_block_drop>=0.30.0 disable_log_stats<0.11.1 disable_logprobs<0.11.1 "
        "disable_padded_drafter_batch draft_load_config>=0.17.0 draft_model_config draft_parallel_config "
        "draft_sample_method>=0.21.0 draft_tensor_parallel_size dspark_draft_topk>=0.28.0 "
        "enable_adaptive_verification>=0.28.0 enable_chunked_prefill<0.11.1 enforce_eager "
        "index_share_for_mtp_iteration>=0.29.0 kv_cache_dtype>=0.26.0 max_model_len method model "
        "moe_backend>=0.19.0 num_speculative_tokens num_speculative_tokens_per_batch_size>=0.24.0 "
        "parallel_drafting>=0.16.0 prompt_lookup_max prompt_lookup_min quantization "
        "rejection_sample_method>=0.18.0 revision speculative_token_tree<0.21.0 "
        "suffix_decoding_max_cached_requests>=0.11.1 suffix_decoding_max_spec_factor>=0.11.1 "
        "suffix_decoding_max_tree_depth>=0.11.1 suffix_decoding_min_token_prob>=0.11.1 "
        "synthetic_acceptance_length>=0.20.0 synthetic_acceptance_rate>=0.19.0<0.20.0 "
        "synthetic_acceptance_rates>=0.20.0 target_model_config target_parallel_config "
        "tensor_parallel_size>=0.15.0 use_heterogeneous_vocab>=0.25.0 use_local_argmax_reduction>=0.17.0",
    "structured_outputs_config": "backend disable_additional_properties disable_any_whitespace "
        "disable_fallback<0.18.0 enable_in_reasoning>=0.11.1 reasoning_parser reasoning_parser_plugin>=0.11.1",
    "watermark_config": "algorithm allow_target_only_watermarking alpha context_width deduplicate_contexts "
        "deduplicate_contexts_max_history key prf",
    "weight_transfer_config": "backend",
}
# fmt: on
