"""Every flag of SGLang's server from 0.5.7 to 0.5.23, by what its value is.

A word is a field of ServerArgs with the releases that have it. `field:name,other` has other names on the command line
than `--field` (dashes for underscores), each with its own releases where they are not the field's. Read out of the
`add_argument` calls and the annotated fields of every release.
"""

ROWS: dict[str, str] = {
    "human": """
        context_length cuda_graph_prefill_max_context>=0.5.21:cuda-graph-prefill-max-context,context-bucket
        max_prefill_tokens max_total_tokens
    """,
    "bool": """
        dcp_replicate_q_proj>=0.5.17 dllm_fdfo>=0.5.16 enable_decoder_swa_bounded_replay>=0.5.21
        enable_dsa_fused_indexer>=0.5.22 enable_fused_qk_norm_rope enable_tf32_matmul>=0.5.15
        enable_tp_lm_head_all_to_all>=0.5.18 experts_shared_outer_loras>=0.5.10 lora_strict_loading>=0.5.11
        mm_enable_dp_encoder ple_offload_embedding>=0.5.20 record_nolora_graph>=0.5.11<0.5.13
        speculative_enable_w4a4_mxfp4_megamoe>=0.5.22
    """,
    "float": """
        disaggregation_decode_host_receive_threshold>=0.5.21 dynamic_batch_tokenizer_batch_timeout
        elastic_ep_scale_timeout>=0.5.16 eplb_min_rebalancing_utilization_threshold gc_warning_threshold_secs
        hicache_host_memory_fraction>=0.5.21 hicache_ratio lora_drain_wait_threshold>=0.5.12 mamba_full_memory_ratio
        mem_fraction_static prefill_delayer_max_delay_ms>=0.5.12 prefill_delayer_queue_min_ratio>=0.5.12
        prefill_delayer_token_usage_low_watermark>=0.5.8 schedule_conservativeness soft_watchdog_timeout
        speculative_accept_threshold_acc speculative_accept_threshold_single swa_full_tokens_ratio
        tbo_token_distribution_threshold watchdog_timeout
    """,
    "int": """
        asr_max_buffer_seconds>=0.5.13 asr_max_concurrent_sessions>=0.5.13
        attn_cp_size>=0.5.9:attn-cp-size,attention-context-parallel-size
        attn_dp_size>=0.5.22:attn-dp-size,attention-data-parallel-size base_gpu_id batch_notify_size>=0.5.11
        c128_page_size>=0.5.18 chunked_prefill_size constrained_json_max_whitespace_cnt>=0.5.21 cpu_offload_gb
        cuda_graph_max_bs<0.5.14 cuda_graph_max_bs_decode>=0.5.14:cuda-graph-max-bs-decode,cuda-graph-max-bs<0.5.20
        cuda_graph_max_bs_prefill>=0.5.14:cuda-graph-max-bs-prefill,piecewise-cuda-graph-max-tokens<0.5.20
        cuda_graph_max_seq_len_prefill>=0.5.21 dcp_size>=0.5.15:dcp-size,decode-context-parallel-size
        decode_log_interval decoupled_spec_rank>=0.5.15 default_priority_value>=0.5.10 detokenizer_worker_num>=0.5.12
        disaggregation_bootstrap_port disaggregation_decode_dp<0.5.10 disaggregation_decode_extra_slots>=0.5.14
        disaggregation_decode_polling_interval disaggregation_decode_tp<0.5.10 disaggregation_prefill_pp<0.5.10
        dist_timeout dp_size:dp-size,data-parallel-size ds_heavy_channel_num<0.5.11 ds_heavy_token_num<0.5.11
        ds_sparse_decode_threshold<0.5.11 dsa_triton_union>=0.5.22 dwdp_size>=0.5.17
        dynamic_batch_tokenizer_batch_size elastic_ep_initial_size>=0.5.16 encoder_bootstrap_port>=0.5.13
        engine_info_bootstrap_port>=0.5.10 ep_join_rank_offset>=0.5.16:elastic-ep-join-rank-offset
        ep_num_redundant_experts ep_size:ep-size,ep,expert-parallel-size eplb_rebalance_layers_per_chunk
        eplb_rebalance_num_iterations expert_distribution_recorder_buffer_size fuseep_mode>=0.5.16
        gated_launch_port>=0.5.19 gpu_id_step grpc_port>=0.5.16 grpc_response_timeout_secs>=0.5.21 hicache_size
        hicache_storage_prefetch_retry_max_attempts>=0.5.19 hicache_storage_prefetch_retry_poll_interval>=0.5.19
        http2_initial_connection_window_size>=0.5.19 http2_max_concurrent_streams>=0.5.18 int8_mamba_ckpt_size>=0.5.14
        kt_cpuinfer kt_max_deferred_experts_per_token kt_num_gpu_experts kt_threadpool_count
        kv_canary_sweep_interval>=0.5.13 linear_replayssm_cache_len>=0.5.15 load_snapshot_publish_interval>=0.5.13
        log_requests_level mamba_cache_philox_rounds>=0.5.15 mamba_max_states_per_path>=0.5.17 mamba_track_interval
        max_ep_size>=0.5.16 max_loaded_loras max_lora_chunk_size max_lora_rank max_loras_per_batch
        max_mamba_cache_size max_queued_requests max_running_requests media_url_max_file_size_mb>=0.5.18
        min_free_slots_delay>=0.5.15 mm_io_worker_num>=0.5.17 mm_max_concurrent_calls<0.5.10
        mm_per_request_timeout<0.5.10 mm_preprocess_cache_size_mb>=0.5.18 mm_processor_worker_num>=0.5.17
        moe_dense_tp_size moe_dp_size>=0.5.9:moe-dp-size,moe-data-parallel-size multi_item_scoring_delimiter<0.5.11
        nccl_port nnodes node_rank num_continuous_decode_steps num_reserved_decode_tokens offload_group_size
        offload_num_in_group offload_prefetch_step optimistic_prefill_attempts>=0.5.16
        optimistic_prefill_retries>=0.5.13<0.5.16 page_size paged_experts_num_resident>=0.5.23
        piecewise_cuda_graph_max_tokens<0.5.14 port pp_async_batch_depth pp_max_micro_batch_size
        pp_size:pp-size,pipeline-parallel-size prefill_decode_interval>=0.5.19 prefill_decode_interval_min_bs>=0.5.23
        prefill_delayer_max_delay_passes>=0.5.8 prefill_max_requests priority_scheduling_preemption_threshold
        random_seed remote_instance_weight_loader_seed_instance_service_port sampling_mask_max_tokens>=0.5.20
        scheduler_recv_interval shared_experts_tp_size>=0.5.21 sm_group_num
        smg_http_sidecar_port>=0.5.11:smg-http-sidecar-port>=0.5.16,grpc-http-sidecar-port
        speculative_dflash_block_size>=0.5.11 speculative_dflash_draft_window_size>=0.5.11<0.5.12
        speculative_domino_candidate_pool_size>=0.5.20 speculative_draft_sink_size>=0.5.21
        speculative_draft_window_size>=0.5.12:speculative-draft-window-size,speculative-dflash-draft-window-size<0.5.20
        speculative_dspark_block_size>=0.5.16 speculative_eagle_topk speculative_ngram_branch_length<0.5.10
        speculative_ngram_capacity speculative_ngram_external_corpus_max_tokens>=0.5.11
        speculative_ngram_external_sam_budget>=0.5.11 speculative_ngram_max_bfs_breadth
        speculative_ngram_max_match_window_size<0.5.10 speculative_ngram_max_trie_depth>=0.5.10
        speculative_ngram_min_bfs_breadth speculative_ngram_min_match_window_size<0.5.10 speculative_num_draft_tokens
        speculative_num_steps stream_interval swa_prefix_tails>=0.5.21 tokenizer_worker_num torch_compile_max_bs
        tp_size:tp-size,tensor-parallel-size triton_attention_num_kv_splits triton_attention_split_tile_size
        weight_cache_timeout>=0.5.17 weight_loader_prefetch_num_threads>=0.5.11
    """,
    "json": """
        cuda_graph_config>=0.5.14 decoupled_spec_connect_endpoints>=0.5.15 default_chat_template_kwargs>=0.5.16
        extra_metric_labels>=0.5.9 forward_hooks limit_mm_data_per_request mm_process_config modelopt_quant
        preferred_sampling_params radix_eviction_policy_config>=0.5.20
        remote_instance_weight_loader_send_weights_group_ports sidecar_args>=0.5.16 stat_loggers>=0.5.17<0.5.20
        unified_cache_external_linker_config>=0.5.23
    """,
    "list[int]": """
        cuda_graph_bs<0.5.14 cuda_graph_bs_decode>=0.5.14:cuda-graph-bs-decode,cuda-graph-bs<0.5.20
        cuda_graph_bs_prefill>=0.5.14:cuda-graph-bs-prefill,piecewise-cuda-graph-tokens<0.5.20
        debug_tensor_dump_layers gc_threshold>=0.5.10 numa_node piecewise_cuda_graph_tokens<0.5.14
        return_aux_hidden_state_layer_ids>=0.5.23
    """,
    "list[str]": """
        allowed_media_domains>=0.5.18 bucket_e2e_request_latency bucket_inter_token_latency bucket_time_to_first_token
        custom_weight_loader encoder_register_urls>=0.5.13 encoder_urls flashinfer_autotune_skip_ops>=0.5.17
        generation_tokens_buckets log_requests_target>=0.5.8 lora_paths lora_target_modules
        prefill_delayer_forward_passes_buckets>=0.5.8 prefill_delayer_wait_seconds_buckets>=0.5.8
        prompt_tokens_buckets tokenizer_metrics_allowed_custom_labels uvicorn_access_log_exclude_prefixes>=0.5.8
    """,
    "maybe": """
        model_checksum>=0.5.8
    """,
    "store_true": """
        abort_on_priority_when_disabled allow_auto_truncate checkpoint_engine_wait_weights_before_ready
        collect_tokens_histogram<0.5.20 constrained_json_disable_any_whitespace debug_cuda_graph>=0.5.11
        delete_ckpt_after_loading disable_aiter_allreduce_fusion_in_decode>=0.5.21
        disable_aiter_allreduce_fusion_in_prefill>=0.5.21 disable_attn_tp_gather>=0.5.13 disable_chunked_prefix_cache
        disable_cuda_graph disable_cuda_graph_padding disable_custom_all_reduce disable_decode_cuda_graph>=0.5.14
        disable_fast_image_processor disable_flashinfer_autotune disable_flashinfer_cutlass_moe_fp4_allgather
        disable_hicache_numa_detect>=0.5.8<0.5.10 disable_hybrid_swa_memory disable_outlines_disk_cache
        disable_overlap_schedule disable_piecewise_cuda_graph>=0.5.10<0.5.14 disable_prefill_cuda_graph>=0.5.14
        disable_priority_preemption>=0.5.10 disable_radix_cache disable_shared_experts_fusion
        disable_tokenizer_batch_decode disaggregation_decode_enable_fake_auto<0.5.9
        disaggregation_decode_enable_offload_kvcache disaggregation_decode_enable_radix_cache>=0.5.11
        disaggregation_enable_kv_checksum>=0.5.21 elastic_ep_rejoin>=0.5.11<0.5.21
        enable_adaptive_dispatch_to_encoder>=0.5.10 enable_aiter_allreduce_fusion>=0.5.10
        enable_amd_monokernel>=0.5.23:enable-amd-monokernel,monokernel-backend enable_attn_tp_input_scattered
        enable_breakable_cuda_graph>=0.5.11<0.5.14 enable_broadcast_mm_inputs_process enable_cache_report
        enable_cp_decode_attn_tp>=0.5.17 enable_cudagraph_gc enable_custom_logit_processor
        enable_deepep_waterfill>=0.5.12<0.5.16 enable_deepseek_v4_fp4_indexer>=0.5.13 enable_dense_mlp_attn_tp>=0.5.19
        enable_deterministic_inference enable_double_sparsity<0.5.11 enable_dp_attention
        enable_dp_attention_local_control_broadcast>=0.5.11 enable_dp_lm_head enable_draft_weights_cpu_backup
        enable_dsa_cache_layer_split>=0.5.16
        enable_dsa_prefill_context_parallel>=0.5.13<0.5.20:enable-dsa-prefill-context-parallel,enable-nsa-prefill-context-parallel
        enable_dynamic_batch_tokenizer enable_dynamic_chunking enable_elastic_expert_backup>=0.5.10
        enable_encoder_swa_bounded_replay>=0.5.21 enable_eplb enable_expert_distribution_metrics<0.5.20
        enable_flashinfer_allreduce_fusion enable_flexkv>=0.5.16 enable_forward_pass_metrics>=0.5.12
        enable_fp32_lm_head enable_fused_moe_sum_all_reduce>=0.5.10 enable_gdn_replayssm_spec>=0.5.16<0.5.17
        enable_hierarchical_cache:enable-hierarchical-cache,enable-hicache>=0.5.23 enable_hisparse>=0.5.10
        enable_http2>=0.5.11 enable_http_worker_reuseport>=0.5.23 enable_int8_mamba_checkpoint>=0.5.14
        enable_kv_cache_sharding>=0.5.22 enable_layernorm_sp>=0.5.19 enable_layerwise_nvtx_marker
        enable_lean_attention>=0.5.19 enable_linear_replayssm>=0.5.15
        enable_linear_replayssm_spec>=0.5.17:enable-linear-replayssm-spec,enable-gdn-replayssm-spec<0.5.20
        enable_linker_mla_dedup>=0.5.21 enable_lmcache enable_lora enable_lora_overlap_loading>=0.5.8
        enable_mamba_cache_stochastic_rounding>=0.5.15 enable_megamoe_for_layernorm_sp>=0.5.23 enable_memory_saver
        enable_metrics enable_metrics_for_all_schedulers enable_mfu_metrics>=0.5.10 enable_mis>=0.5.11
        enable_mixed_chunk enable_mm_global_cache>=0.5.10 enable_mscclpp enable_multi_layer_eagle enable_multimodal
        enable_nan_detection<0.5.13 enable_nccl_nvls enable_nsa_prefill_context_parallel<0.5.13
        enable_nvidia_megakernel>=0.5.23 enable_p2p_check enable_page_major_kv_layout>=0.5.15
        enable_paged_experts>=0.5.23 enable_pd_role_switch>=0.5.21 enable_pdmux enable_piecewise_cuda_graph<0.5.14
        enable_precise_embedding_interpolation enable_prefill_context_parallel>=0.5.10<0.5.20
        enable_prefill_cp>=0.5.14 enable_prefill_delayer>=0.5.8 enable_prefix_mm_cache enable_priority_scheduling
        enable_profile_cuda_graph enable_quant_communications>=0.5.11 enable_request_time_stats_logging
        enable_response_store>=0.5.20 enable_return_aux_hidden_states>=0.5.23 enable_return_hidden_states
        enable_return_indexer_topk>=0.5.12 enable_return_routed_experts enable_scattered_sconv>=0.5.16
        enable_session_radix_cache>=0.5.15 enable_shared_experts_attn_tp>=0.5.19 enable_single_batch_overlap
        enable_ssl_refresh>=0.5.10 enable_streaming_session>=0.5.10 enable_strict_thinking>=0.5.12 enable_symm_mem
        enable_tokenizer_batch_encode enable_torch_compile enable_torch_compile_debug_mode enable_torch_symm_mem
        enable_trace enable_two_batch_overlap enable_unified_cache_external_linker>=0.5.20
        enable_unified_memory>=0.5.15 enable_w4a4_mxfp4_megamoe>=0.5.19 enable_waterfill>=0.5.16
        enable_watermark>=0.5.22 enable_weights_cpu_backup encoder_only
        enforce_disable_flashinfer_allreduce_fusion>=0.5.10 enforce_piecewise_cuda_graph>=0.5.10<0.5.14
        enforce_shared_experts_fusion>=0.5.11 export_metrics_to_file flashinfer_mla_disable_ragged grpc_mode
        incremental_streaming_output>=0.5.10:incremental-streaming-output,stream-output<0.5.20 is_embedding
        keep_mm_feature_on_device<0.5.21 language_model_only>=0.5.18 language_only log_requests
        lora_use_virtual_experts>=0.5.11 mlx_enable_sampling>=0.5.18 pre_warm_nccl>=0.5.10
        prefill_only_disable_kv_cache>=0.5.12 prefill_round_robin_balance<0.5.20 quantize_and_serve
        remote_instance_weight_loader_start_seed_via_transfer_engine return_input_ids>=0.5.20
        return_output_ids>=0.5.20 schedule_low_priority_values_first show_time_cost skip_server_warmup
        skip_tokenizer_init sleep_on_idle smg_grpc_mode>=0.5.16 speculative_adaptive>=0.5.11
        speculative_dspark_align_verify_tokens_to_graph_tier>=0.5.16 speculative_skip_dp_mlp_sync>=0.5.11<0.5.23
        speculative_use_block_verification>=0.5.22 speculative_use_rejection_sampling>=0.5.14 stream_output<0.5.10
        stream_response_default_include_usage>=0.5.10 strip_thinking_cache>=0.5.11 triton_attention_reduce_in_fp32
        trust_mm_content_hashes>=0.5.18 trust_remote_code trust_request_chat_template>=0.5.21 use_ray>=0.5.10
        weight_loader_disable_mmap weight_loader_drop_cache_after_load>=0.5.12
        weight_loader_prefetch_checkpoints>=0.5.11
    """,
    "str": """
        admin_api_key>=0.5.8 api_key attention_backend bf16_gemm_backend>=0.5.15 boundary_reduction>=0.5.21
        chat_template completion_template config constrained_json_whitespace_pattern cp_strategy>=0.5.14
        crash_dump_folder cuda_graph_backend_decode>=0.5.14
        cuda_graph_backend_prefill>=0.5.14:cuda-graph-backend-prefill,disable-piecewise-cuda-graph<0.5.20,enable-breakable-cuda-graph<0.5.20,enforce-piecewise-cuda-graph<0.5.20
        cuda_graph_tc_compiler>=0.5.14<0.5.22:cuda-graph-tc-compiler,piecewise-cuda-graph-compiler<0.5.20
        custom_sigquit_handler<0.5.20 dcp_comm_backend>=0.5.17 debug_tensor_dump_inject<0.5.14
        debug_tensor_dump_input_file debug_tensor_dump_output_folder decode_attention_backend
        decoupled_spec_bind_endpoint>=0.5.15 decoupled_spec_role>=0.5.15 decrypted_config_file
        decrypted_draft_config_file deepep_config deepep_dispatcher_output_dtype>=0.5.13 deepep_mode
        deepep_v2_mode>=0.5.19 device disaggregation_decode_allocation_policy>=0.5.22
        disaggregation_decode_retraction_backup>=0.5.18 disaggregation_ib_device disaggregation_mode
        disaggregation_transfer_backend dist_init_addr:dist-init-addr,nccl-init-addr dllm_algorithm
        dllm_algorithm_config download_dir ds_channel_config_path<0.5.11 ds_heavy_channel_type<0.5.11
        dsa_decode_backend>=0.5.13:dsa-decode-backend,nsa-decode-backend<0.5.20 dsa_paged_mqa_logits_backend>=0.5.15
        dsa_prefill_backend>=0.5.13:dsa-prefill-backend,nsa-prefill-backend<0.5.20
        dsa_prefill_cp_mode>=0.5.13<0.5.20:dsa-prefill-cp-mode,nsa-prefill-cp-mode dsa_topk_backend>=0.5.13
        dsv4_attn_backend>=0.5.20 dsv4_prefill_backend>=0.5.19 dtype elastic_ep_backend encoder_transfer_backend
        ep_dispatch_algorithm ep_join_mode>=0.5.16:elastic-ep-join-mode eplb_algorithm
        expert_balancedness_report_mode>=0.5.18 expert_distribution_recorder_mode export_metrics_to_file_dir
        fastapi_root_path file_storage_path flashinfer_a2a_dispatch_type>=0.5.20
        flashinfer_allreduce_fusion_backend>=0.5.14 flashinfer_mxfp4_moe_precision flexkv_config_file>=0.5.16
        forward_pass_metrics_ipc_name>=0.5.12 forward_pass_metrics_worker_id>=0.5.12
        fp4_gemm_runner_backend>=0.5.8:fp4-gemm-backend fp8_gemm_runner_backend:fp8-gemm-backend grammar_backend
        hf_chat_template_name>=0.5.8 hicache_host_memory_mode>=0.5.19 hicache_io_backend hicache_mem_layout
        hicache_storage_backend hicache_storage_backend_extra_config hicache_storage_prefetch_policy
        hicache_write_policy hisparse_config>=0.5.8:hisparse-config>=0.5.10,hierarchical-sparse-attention-extra-config
        host hybrid_kvcache_ratio<0.5.14 image_processor_backend>=0.5.18 init_expert_location json_model_override_args
        kt_method kt_weight_path kv_cache_dtype kv_canary>=0.5.13 kv_canary_real_data>=0.5.13 kv_events_config
        linear_attn_backend>=0.5.10 linear_attn_decode_backend>=0.5.10 linear_attn_prefill_backend>=0.5.10
        linear_attn_verify_backend>=0.5.17 lmcache_config_file>=0.5.13 load_balance_method load_format
        load_publish_endpoint>=0.5.19 log_level log_level_http log_requests_format lora_backend lora_eviction_policy
        mamba_backend>=0.5.9
        mamba_radix_cache_strategy>=0.5.14:mamba-radix-cache-strategy,mamba-scheduler-strategy<0.5.20
        mamba_scheduler_strategy<0.5.14 mamba_ssm_dtype mm_attention_backend mm_feature_transport>=0.5.16
        mm_global_cache_backend>=0.5.18 model_config_parser>=0.5.12 model_impl model_loader_extra_config
        model_path:model-path,model modelexpress_config>=0.5.10 modelopt_checkpoint_restore_path
        modelopt_checkpoint_save_path modelopt_export_path moe_a2a_backend moe_runner_backend mooncake_ib_device
        msprobe_dump_config>=0.5.11 nsa_decode_backend<0.5.13 nsa_prefill_backend<0.5.13
        nsa_prefill_cp_mode>=0.5.8<0.5.13 offload_mode otlp_service_name>=0.5.21 otlp_traces_endpoint
        pdmux_config_path piecewise_cuda_graph_compiler<0.5.14 ple_offload_backend>=0.5.20 ple_offload_dir>=0.5.20
        prefill_attention_backend prefill_cp_mode>=0.5.10<0.5.20 prefill_kv_cache_dequant_dtype>=0.5.21
        qsa_indexer_dtype>=0.5.22 quantization quantization_param_path radix_cache_backend>=0.5.13
        radix_eviction_policy reasoning_parser remote_instance_weight_loader_backend
        remote_instance_weight_loader_seed_instance_ip retraction_policy>=0.5.16 return_hidden_states_mode>=0.5.17
        revision rl_on_policy_target rl_quant_profile sampling_backend sampling_defaults schedule_policy
        served_model_name sidecar>=0.5.16 spec_trace_dir>=0.5.15 speculative_adaptive_config>=0.5.11
        speculative_algorithm speculative_attention_mode speculative_draft_attention_backend
        speculative_draft_kv_cache_dtype>=0.5.18 speculative_draft_load_format
        speculative_draft_model_path:speculative-draft-model-path,speculative-draft-model
        speculative_draft_model_quantization speculative_draft_model_revision speculative_dsa_topk_backend>=0.5.19
        speculative_dspark_confidence_sts_path>=0.5.16 speculative_dspark_sps_table_path>=0.5.16
        speculative_moe_a2a_backend speculative_moe_runner_backend speculative_ngram_external_corpus_path>=0.5.11
        speculative_ngram_match_type speculative_token_map ssl_ca_certs>=0.5.10 ssl_certfile>=0.5.10
        ssl_keyfile>=0.5.10 ssl_keyfile_password>=0.5.10 startup_weight_load_mode>=0.5.18 tokenizer_backend>=0.5.11
        tokenizer_metrics_custom_labels_header tokenizer_mode tokenizer_path tool_call_parser tool_server
        torchao_config<0.5.18 trace_modules>=0.5.13 unified_cache_external_linker_backend>=0.5.20
        uno_lora_path>=0.5.20 warmups watermark_config>=0.5.22 weight_cache_mode>=0.5.17 weight_cache_socket>=0.5.17
        weight_version
    """,
}

# Names without a value, and what they set the field to (arg_groups/argparse_actions.py DeprecatedStoreConstAction).
CONSTANTS = {
    "--disable-piecewise-cuda-graph": "disabled",
    "--enable-breakable-cuda-graph": "breakable",
    "--enforce-piecewise-cuda-graph": "tc_piecewise",
}
SUFFIXES_SINCE = "0.5.10"  # human_readable_int came; before it these flags are whole numbers
