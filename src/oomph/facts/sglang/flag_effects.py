"""What the flags of SGLang's server that a plan does not read do to memory (facts/flag_effects.py says how it is said).

Grouped by what the field decides in ServerArgs; a test fails for a flag that is neither read nor here.
"""

from oomph.facts.flag_effects import Effects, by_field

_NO_MEMORY = {
    "how experts are balanced, not how many there are": """
        ep_dispatch_algorithm eplb_algorithm eplb_min_rebalancing_utilization_threshold
        eplb_rebalance_layers_per_chunk eplb_rebalance_num_iterations""",
    "how processes find and wait for each other": """
        disaggregation_bootstrap_port disaggregation_decode_dp disaggregation_decode_enable_fake_auto
        disaggregation_decode_polling_interval disaggregation_decode_tp disaggregation_enable_kv_checksum
        disaggregation_ib_device disaggregation_prefill_pp disaggregation_transfer_backend dist_init_addr
        dist_timeout enable_dp_attention_local_control_broadcast enable_p2p_check enable_pd_role_switch
        encoder_bootstrap_port encoder_register_urls encoder_transfer_backend encoder_urls
        engine_info_bootstrap_port load_publish_endpoint load_snapshot_publish_interval mooncake_ib_device
        node_rank numa_node optimistic_prefill_attempts optimistic_prefill_retries prefill_round_robin_balance
        scheduler_recv_interval trust_remote_code""",
    "how prompts, tools and answers are written as text": """
        chat_template completion_template constrained_json_disable_any_whitespace
        constrained_json_max_whitespace_cnt constrained_json_whitespace_pattern default_chat_template_kwargs
        disable_outlines_disk_cache enable_strict_thinking grammar_backend hf_chat_template_name
        preferred_sampling_params random_seed sampling_backend sampling_defaults
        trust_mm_content_hashes trust_request_chat_template""",
    "how the HTTP server listens, answers and keeps others out": """
        admin_api_key allow_auto_truncate allowed_media_domains api_key asr_max_buffer_seconds
        asr_max_concurrent_sessions batch_notify_size crash_dump_folder custom_sigquit_handler
        detokenizer_worker_num enable_http2 enable_http_worker_reuseport enable_response_store
        enable_ssl_refresh fastapi_root_path file_storage_path gated_launch_port grpc_mode grpc_port
        grpc_response_timeout_secs host http2_initial_connection_window_size http2_max_concurrent_streams
        incremental_streaming_output media_url_max_file_size_mb nccl_port port return_input_ids
        return_output_ids served_model_name skip_server_warmup sleep_on_idle smg_grpc_mode smg_http_sidecar_port
        ssl_ca_certs ssl_certfile ssl_keyfile ssl_keyfile_password stream_interval stream_output
        stream_response_default_include_usage strip_thinking_cache tool_server
        uvicorn_access_log_exclude_prefixes warmups""",
    "no part of a start on NVIDIA cards": "disable_custom_all_reduce",
    "the tokenizer and the preprocessing of images, which work on the host": """
        disable_fast_image_processor disable_tokenizer_batch_decode dynamic_batch_tokenizer_batch_size
        dynamic_batch_tokenizer_batch_timeout enable_adaptive_dispatch_to_encoder enable_dynamic_batch_tokenizer
        enable_precise_embedding_interpolation enable_tokenizer_batch_encode image_processor_backend
        mm_io_worker_num mm_max_concurrent_calls mm_per_request_timeout mm_processor_worker_num
        skip_tokenizer_init tokenizer_backend tokenizer_mode tokenizer_path tokenizer_worker_num""",
    "what is logged, traced and measured": """
        bucket_e2e_request_latency bucket_inter_token_latency bucket_time_to_first_token
        collect_tokens_histogram decode_log_interval enable_cache_report enable_cudagraph_gc
        enable_expert_distribution_metrics enable_forward_pass_metrics enable_layerwise_nvtx_marker
        enable_metrics enable_metrics_for_all_schedulers enable_mfu_metrics enable_request_time_stats_logging
        enable_torch_compile_debug_mode enable_trace expert_balancedness_report_mode export_metrics_to_file
        export_metrics_to_file_dir extra_metric_labels forward_pass_metrics_ipc_name
        forward_pass_metrics_worker_id gc_threshold gc_warning_threshold_secs generation_tokens_buckets
        log_level log_level_http log_requests log_requests_format log_requests_level log_requests_target
        mlx_enable_sampling otlp_service_name otlp_traces_endpoint prefill_delayer_forward_passes_buckets
        prefill_delayer_wait_seconds_buckets prompt_tokens_buckets show_time_cost soft_watchdog_timeout
        spec_trace_dir stat_loggers tokenizer_metrics_allowed_custom_labels
        tokenizer_metrics_custom_labels_header trace_modules watchdog_timeout""",
    "which request goes next, not how many tokens there is room for": """
        abort_on_priority_when_disabled default_priority_value disable_chunked_prefix_cache
        disable_priority_preemption enable_decoder_swa_bounded_replay enable_dynamic_chunking
        enable_encoder_swa_bounded_replay enable_mixed_chunk enable_prefill_delayer enable_priority_scheduling
        enable_session_radix_cache enable_streaming_session kv_events_config load_balance_method
        lora_drain_wait_threshold lora_eviction_policy lora_strict_loading max_queued_requests
        min_free_slots_delay num_continuous_decode_steps prefill_decode_interval prefill_decode_interval_min_bs
        prefill_delayer_max_delay_ms prefill_delayer_max_delay_passes prefill_delayer_queue_min_ratio
        prefill_delayer_token_usage_low_watermark prefill_max_requests priority_scheduling_preemption_threshold
        radix_eviction_policy radix_eviction_policy_config retraction_policy schedule_conservativeness
        schedule_low_priority_values_first schedule_policy swa_prefix_tails tbo_token_distribution_threshold""",
    "whose drafts are accepted, not how many there are": """
        speculative_accept_threshold_acc speculative_accept_threshold_single
        speculative_dspark_confidence_sts_path speculative_dspark_sps_table_path
        speculative_ngram_external_corpus_max_tokens speculative_ngram_external_corpus_path
        speculative_ngram_external_sam_budget speculative_ngram_match_type speculative_skip_dp_mlp_sync
        speculative_use_block_verification speculative_use_rejection_sampling""",
}

_NOT_ON_THE_GPU = {
    "adapters beyond --max-loras-per-batch wait in host memory": "max_loaded_loras",
    "files pass through host memory": """
        checkpoint_engine_wait_weights_before_ready delete_ckpt_after_loading download_dir model_checksum
        modelexpress_config remote_instance_weight_loader_backend remote_instance_weight_loader_seed_instance_ip
        remote_instance_weight_loader_seed_instance_service_port
        remote_instance_weight_loader_send_weights_group_ports
        remote_instance_weight_loader_start_seed_via_transfer_engine weight_loader_disable_mmap
        weight_loader_drop_cache_after_load weight_loader_prefetch_checkpoints
        weight_loader_prefetch_num_threads weight_version""",
    "preprocessed images are kept in host memory": "mm_preprocess_cache_size_mb",
    "the hierarchical cache is in host memory": """
        disable_hicache_numa_detect hicache_host_memory_fraction hicache_host_memory_mode hicache_io_backend
        hicache_mem_layout hicache_ratio hicache_size hicache_storage_backend
        hicache_storage_backend_extra_config hicache_storage_prefetch_policy
        hicache_storage_prefetch_retry_max_attempts hicache_storage_prefetch_retry_poll_interval
        hicache_write_policy""",
    "the pools can be given back while the server sleeps; they are as large as before": "enable_memory_saver",
}

_NOT_PLANNED = {
    "how LoRA slots are shared by experts and worked on": """
        enable_lora_overlap_loading experts_shared_outer_loras lora_backend lora_use_virtual_experts
        max_lora_chunk_size record_nolora_graph uno_lora_path""",
    "another checkpoint or config than the one that is planned": """
        config decrypted_config_file decrypted_draft_config_file dllm_algorithm
        dllm_algorithm_config dllm_fdfo enable_pdmux is_embedding json_model_override_args
        model_config_parser model_impl model_loader_extra_config modelopt_checkpoint_restore_path
        modelopt_checkpoint_save_path modelopt_export_path modelopt_quant pdmux_config_path quantize_and_serve
        revision rl_on_policy_target rl_quant_profile sidecar sidecar_args sm_group_num torchao_config use_ray""",
    "another kernel has another workspace, and may keep its weights in another form": """
        bf16_gemm_backend disable_aiter_allreduce_fusion_in_decode disable_aiter_allreduce_fusion_in_prefill
        disable_flashinfer_cutlass_moe_fp4_allgather dsa_paged_mqa_logits_backend dsa_topk_backend
        dsa_triton_union dsv4_attn_backend dsv4_prefill_backend enable_aiter_allreduce_fusion
        enable_amd_monokernel enable_attn_tp_input_scattered enable_cp_decode_attn_tp enable_dense_mlp_attn_tp
        enable_dsa_fused_indexer enable_flashinfer_allreduce_fusion enable_fused_moe_sum_all_reduce
        enable_fused_qk_norm_rope enable_lean_attention enable_mscclpp enable_nccl_nvls enable_nvidia_megakernel
        enable_quant_communications enable_tf32_matmul enable_torch_symm_mem
        enforce_disable_flashinfer_allreduce_fusion flashinfer_allreduce_fusion_backend
        flashinfer_mla_disable_ragged flashinfer_mxfp4_moe_precision fp4_gemm_runner_backend
        fp8_gemm_runner_backend linear_attn_backend linear_attn_decode_backend linear_attn_prefill_backend
        linear_attn_verify_backend mamba_backend mm_attention_backend moe_runner_backend pre_warm_nccl
        speculative_dsa_topk_backend triton_attention_num_kv_splits triton_attention_reduce_in_fp32
        triton_attention_split_tile_size""",
    "drafts: their weights, states and graphs follow from it": """
        decoupled_spec_bind_endpoint decoupled_spec_connect_endpoints decoupled_spec_rank decoupled_spec_role
        enable_draft_weights_cpu_backup enable_multi_layer_eagle speculative_adaptive
        speculative_adaptive_config speculative_attention_mode speculative_dflash_block_size
        speculative_dflash_draft_window_size speculative_domino_candidate_pool_size
        speculative_draft_attention_backend speculative_draft_kv_cache_dtype speculative_draft_load_format
        speculative_draft_model_quantization speculative_draft_model_revision
        speculative_draft_sink_size speculative_draft_window_size
        speculative_dspark_align_verify_tokens_to_graph_tier speculative_dspark_block_size
        speculative_enable_w4a4_mxfp4_megamoe speculative_moe_a2a_backend
        speculative_moe_runner_backend speculative_ngram_branch_length speculative_ngram_capacity
        speculative_ngram_max_match_window_size
        speculative_ngram_max_trie_depth speculative_ngram_min_bfs_breadth
        speculative_ngram_min_match_window_size speculative_token_map""",
    "how many experts a rank holds, and their buffers": """
        deepep_config deepep_dispatcher_output_dtype deepep_mode deepep_v2_mode disable_shared_experts_fusion
        dwdp_size elastic_ep_backend elastic_ep_initial_size elastic_ep_rejoin elastic_ep_scale_timeout
        enable_deepep_waterfill enable_megamoe_for_layernorm_sp enable_shared_experts_attn_tp
        enable_w4a4_mxfp4_megamoe enable_waterfill enforce_shared_experts_fusion ep_join_mode
        ep_join_rank_offset ep_num_redundant_experts expert_distribution_recorder_buffer_size
        flashinfer_a2a_dispatch_type fuseep_mode init_expert_location max_ep_size moe_dense_tp_size moe_dp_size
        shared_experts_tp_size""",
    "how the layers are split over the ranks": """
        boundary_reduction cp_strategy dcp_comm_backend dcp_replicate_q_proj disable_attn_tp_gather
        dsa_prefill_cp_mode enable_dp_lm_head enable_dsa_cache_layer_split enable_dsa_prefill_context_parallel
        enable_kv_cache_sharding enable_layernorm_sp enable_linker_mla_dedup enable_nsa_prefill_context_parallel
        enable_prefill_context_parallel enable_prefill_cp enable_scattered_sconv enable_single_batch_overlap
        enable_tp_lm_head_all_to_all nsa_prefill_cp_mode pp_async_batch_depth pp_max_micro_batch_size
        prefill_cp_mode""",
    "images and video: the encoder and its cache": """
        enable_broadcast_mm_inputs_process enable_mm_global_cache enable_prefix_mm_cache encoder_only
        keep_mm_feature_on_device limit_mm_data_per_request mm_enable_dp_encoder mm_global_cache_backend
        mm_process_config""",
    "outputs that are kept for every token": """
        debug_tensor_dump_inject debug_tensor_dump_input_file debug_tensor_dump_layers
        debug_tensor_dump_output_folder disable_flashinfer_autotune enable_custom_logit_processor
        enable_fp32_lm_head enable_mis enable_nan_detection enable_return_aux_hidden_states
        enable_return_hidden_states enable_return_routed_experts enable_watermark flashinfer_autotune_skip_ops
        forward_hooks msprobe_dump_config multi_item_scoring_delimiter return_aux_hidden_state_layer_ids
        return_hidden_states_mode sampling_mask_max_tokens watermark_config""",
    "recurrent states and what is kept beside them": """
        enable_gdn_replayssm_spec enable_int8_mamba_checkpoint enable_linear_replayssm
        enable_linear_replayssm_spec enable_mamba_cache_stochastic_rounding int8_mamba_ckpt_size
        linear_replayssm_cache_len mamba_cache_philox_rounds mamba_max_states_per_path mamba_track_interval""",
    "the plan is for GPUs": "device",
    "weights kept on the host or shared": """
        custom_weight_loader enable_elastic_expert_backup enable_paged_experts enable_weights_cpu_backup
        kt_cpuinfer kt_max_deferred_experts_per_token kt_method kt_num_gpu_experts kt_threadpool_count
        kt_weight_path offload_group_size offload_mode offload_num_in_group offload_prefetch_step
        paged_experts_num_resident ple_offload_backend ple_offload_dir ple_offload_embedding
        startup_weight_load_mode weight_cache_mode weight_cache_socket weight_cache_timeout""",
    "what is captured, and for which sizes": """
        cuda_graph_max_seq_len_prefill cuda_graph_prefill_max_context cuda_graph_tc_compiler debug_cuda_graph
        enable_breakable_cuda_graph enable_profile_cuda_graph piecewise_cuda_graph_compiler torch_compile_max_bs""",
    "what the KV cache holds and where its blocks are": """
        c128_page_size disable_hybrid_swa_memory disaggregation_decode_allocation_policy
        disaggregation_decode_enable_offload_kvcache disaggregation_decode_extra_slots
        disaggregation_decode_host_receive_threshold disaggregation_decode_retraction_backup
        ds_channel_config_path ds_heavy_channel_num ds_heavy_channel_type ds_heavy_token_num
        ds_sparse_decode_threshold enable_deepseek_v4_fp4_indexer enable_double_sparsity enable_flexkv
        enable_hisparse enable_lmcache enable_page_major_kv_layout enable_return_indexer_topk
        enable_unified_cache_external_linker enable_unified_memory flexkv_config_file hisparse_config
        hybrid_kvcache_ratio kv_canary kv_canary_real_data kv_canary_sweep_interval lmcache_config_file
        num_reserved_decode_tokens prefill_kv_cache_dequant_dtype prefill_only_disable_kv_cache
        qsa_indexer_dtype quantization_param_path radix_cache_backend unified_cache_external_linker_backend
        unified_cache_external_linker_config""",
}

EFFECTS = Effects(_NO_MEMORY, by_field(_NOT_ON_THE_GPU), by_field(_NOT_PLANNED))
