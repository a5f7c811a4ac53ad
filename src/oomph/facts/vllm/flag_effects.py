"""What the flags of `vllm serve` that a plan does not read do to memory (facts/flag_effects.py says how it is said).

`tests/facts/test_vllm_flag_effects.py` fails for a flag of any release that is neither read nor here.
"""

from collections.abc import Mapping

from oomph.facts.flag_effects import Effects

NO_MEMORY: Mapping[str, str] = {
    "how the HTTP server listens, answers and keeps others out": """
        allow_credentials allowed_headers allowed_methods allowed_origins api_key api_server_count disable_fastapi_docs
        disable_access_log_for_endpoints disable_uvicorn_access_log enable_offline_docs enable_request_id_headers
        enable_server_load_tracking enable_ssl_refresh enable_tokenizer_info_endpoint enable_scale_out grpc grpc_port
        h11_max_header_count h11_max_incomplete_event_size headless host middleware port response_role root_path
        sse_keep_alive_interval ssl_ca_certs ssl_cert_reqs ssl_certfile ssl_ciphers ssl_keyfile uds uvicorn_log_level
        disable_frontend_multiprocessing fingerprint_mode fingerprint_value served_model_name""",
    "how prompts, tools and answers are written as text": """
        anthropic_disabled_thinking_effort chat_template chat_template_content_format cohere_format
        cohere_is_reasoning_model default_chat_template_kwargs enable_auto_tool_choice enable_force_include_usage
        enable_prompt_tokens_details enable_reasoning exclude_tools_when_tool_choice_none
        expand_tools_even_if_tool_choice_none interleave_mm_strings reasoning_parser reasoning_parser_plugin
        return_tokens_as_token_ids tokens_only tool_call_parser tool_parser_plugin tool_server tool_strict_level
        trust_request_chat_template trust_request_mm_kwargs generation_config override_generation_config
        io_processor_plugin""",
    "what is logged, traced and measured": """
        aggregate_engine_logging collect_detailed_traces cudagraph_metrics custom_histogram_buckets
        disable_log_requests disable_log_stats enable_layerwise_nvtx_tracing enable_log_deltas enable_log_outputs
        enable_log_requests enable_logging_iteration_details enable_mfu_metrics enable_per_request_metrics
        enable_flash_late_interaction jit_monitor_mode jit_monitor_verbose kv_cache_metrics kv_cache_metrics_sample
        log_config_file log_error_stack log_level logging_config max_log_len otlp_traces_endpoint
        per_request_spec_decode_metrics profiler_config ray_workers_use_nsight show_hidden_metrics_for_version
        use_tqdm_on_load enable_trace_replay""",
    "the tokenizer, which works on the host": """
        renderer_num_workers skip_tokenizer_init tokenizer tokenizer_pool_extra_config tokenizer_pool_size
        tokenizer_pool_type tokenizer_revision""",
    "where files are found and whose code is trusted": """
        allowed_local_media_path allowed_media_domains code_revision download_dir fail_on_environ_validation hf_token
        ignore_patterns trust_remote_code""",
    "how processes find and wait for each other": """
        cpu_distributed_timeout_seconds data_parallel_address
        data_parallel_hybrid_lb data_parallel_multi_port_external_lb data_parallel_rpc_port
        data_parallel_start_rank data_parallel_supervisor_port disable_nccl_for_dp_synchronization
        distributed_timeout_seconds dp_supervisor_probe_failure_threshold dp_supervisor_probe_interval_s
        dp_supervisor_probe_timeout_s dp_sync_interval enable_fault_tolerance fault_tolerance_config master_addr
        master_port node_rank numa_bind numa_bind_cpus numa_bind_nodes shutdown_timeout enable_shm_tensor_arena""",
    "which request goes next, not how many blocks there are": """
        disable_async_output_proc max_num_queued_reqs max_num_queued_tokens multi_step_stream_outputs
        num_scheduler_steps preemption_mode prefill_schedule_interval scheduler_delay_factor stream_interval
        long_prefill_token_threshold_adaptive use_v2_block_manager""",
    "what the prefix cache matches and keeps in blocks that exist anyway": """
        enable_mamba_fine_grained_prefix_cache enable_mamba_shared_prefix_checkpoint prefix_cache_retention_interval
        prefix_caching_hash_algo prefix_match_unit swa_bounded_replay""",
    "how a kernel computes, in buffers of the same size": """
        calculate_kv_scales cp_kv_cache_interleave_size dcp_comm_backend dcp_kv_cache_interleave_size
        disable_cascade_attn enable_bf16x3_router_gemm enable_mamba_cache_stochastic_rounding expert_placement_strategy
        mamba_cache_philox_rounds mamba_ssu_algorithm override_attention_dtype sparse_indexer_topk_backend
        ir_op_priority kda_decode_backend""",
    "sampling and structured output: a few MiB at most, inside the runner's interval": """
        guided_decoding_backend guided_decoding_disable_additional_properties
        guided_decoding_disable_any_whitespace guided_decoding_disable_fallback logits_processor_pattern
        logits_processors reasoning_config seed structured_outputs_config watermark_config""",
    "LoRA: what is served from slots that other flags size": "default_mm_loras lora_modules long_lora_scaling_factors",
    "how often experts are moved, not how many there are": "eplb_log_balancedness eplb_step_interval",
    "images: how they are hashed, read and scaled on the host": """
        media_io_kwargs mm_hasher_algorithm""",
    "only what an interactive caller of the engine sees": "use_gpu_for_pooling_score",
    "it allows a deprecated method, whose own memory is planned": "allow_deprecated_quantization",
    "accepted and without effect (IDLE, or a deprecated alias whose work another flag does)": """
        max_long_partial_prefills num_lookahead_slots max_seq_len_to_capture""",
}

NOT_ON_THE_GPU: Mapping[str, str] = {
    "swap_space": "V1 never swaps: it reserves no memory",
    "sleep_mode_offload_cudagraph": "it acts while the server sleeps, not while it starts or serves",
    "sleep_preserve_parameter_names": "it acts while the server sleeps, not while it starts or serves",
    "enable_nccl_comm_suspend": "it acts while the server sleeps, not while it starts or serves",
    "max_cpu_loras": "adapters beyond --max-loras wait in host memory",
    "mm_processor_cache_gb": "preprocessed images are kept in host memory",
    "mm_processor_cache_type": "preprocessed images are kept in host memory",
    "disable_mm_preprocessor_cache": "preprocessed images are kept in host memory",
    "mm_shm_cache_max_object_size_mb": "preprocessed images are kept in host memory",
    "safetensors_load_strategy": "it decides how files pass through host memory",
    "safetensors_prefetch_block_size": "it decides how files pass through host memory",
    "safetensors_prefetch_num_threads": "it decides how files pass through host memory",
    "max_parallel_loading_workers": "it decides how files pass through host memory",
    "enable_ep_weight_filter": "experts of other ranks are not read from disk; they never were on this GPU",
    "max_logprobs": "requests that ask for many log probabilities need memory while serving, not at the start",
}

NOT_PLANNED: Mapping[str, str] = {
    "additional_config": "a platform plug-in reads it",
    "aux_output_config": "auxiliary outputs are kept beside the KV cache",
    "config_format": "another file than config.json may describe the model",
    "dbo_decode_token_threshold": "dual-batch overlap keeps two batches' workspaces",
    "dbo_prefill_token_threshold": "dual-batch overlap keeps two batches' workspaces",
    "dcp_q_replicate": "query projections are kept whole on every rank",
    "device": "the plan is for GPUs",
    "diffusion_config": "diffusion decoding changes the batch",
    "disable_custom_all_reduce": "about 16 MiB less outside PyTorch, within the interval of that term",
    "ec_manager_config": "it decides what the encoder cache keeps",
    "ec_transfer_config": "a connector moves encoder outputs through buffers of its own",
    "elastic_ep_max_dp_size": "communicators and expert buffers are made for the largest size",
    "enable_batch_sharded_sampling": "the sampler's logits are split over the ranks: its peak is lower than planned",
    "enable_dbo": "dual-batch overlap keeps two batches' workspaces",
    "enable_elastic_ep": "communicators and expert buffers are made for the largest size",
    "enable_flashinfer_autotune": "tuning kernels at the end of the start takes workspaces for a moment",
    "enable_hc_sp": "activations are split over the ranks: the peak is lower than planned",
    "enable_lora_bias": "every LoRA slot has a bias vector more",
    "enable_mixed_moe_lora_format": "experts' LoRA slots are made for both formats",
    "enable_mm_embeds": "image embeddings come with the request; the encoder's budget follows their size",
    "enable_moe_shared_loras": "experts share one LoRA slot: less than planned",
    "enable_prompt_adapter": "prompt adapters have slots of their own",
    "enable_return_routed_experts": "the chosen experts of every token are kept in a buffer",
    "enable_tower_connector_lora": "the vision tower gets LoRA slots too",
    "engram_config": "it decides where the n-gram tables are kept",
    "eplb_window_size": "the loads of all experts are kept for so many steps, a few MiB for a thousand",
    "hf_config_path": "the plan is made from the model's own config.json",
    "kda_prefill_backend": "another kernel has another workspace",
    "kernel_config": "another kernel has another workspace",
    "kv_sharing_fast_prefill": "layers that share a cache skip part of the prefill: the peak is lower than planned",
    "linear_backend": "another kernel keeps its weights in another form",
    "logprobs_mode": "processed log probabilities need one more copy of the sampler's logits",
    "mamba_backend": "another kernel has another workspace",
    "max_lora_cls_labels": "the classifier gets LoRA slots too",
    "max_prompt_adapter_token": "prompt adapters have slots of their own",
    "max_prompt_adapters": "prompt adapters have slots of their own",
    "mm_encoder_attn_backend": "a backend without flash attention makes the encoder's peak grow with the square",
    "mm_encoder_attn_dtype": "the encoder's attention is quantised on the fly, with scratch of its own",
    "mm_encoder_fp8_scale_path": "the encoder's attention is quantised on the fly, with scratch of its own",
    "mm_encoder_fp8_scale_save_margin": "the encoder's attention is quantised on the fly, with scratch of its own",
    "mm_encoder_fp8_scale_save_path": "the encoder's attention is quantised on the fly, with scratch of its own",
    "mm_encoder_only": "only the encoder is loaded; the plan is of the whole model",
    "mm_processor_device": "images are prepared on the GPU, by a process with a CUDA context of its own",
    "mm_tensor_ipc": "image tensors may be handed over in GPU memory",
    "model_class_overrides": "another class may build other layers",
    "model_impl": "the Transformers implementation builds other modules than vLLM's own",
    "model_loader_extra_config": "a loader may stage tensors in buffers of its own",
    "override_neuron_config": "the plan is for GPUs",
    "override_pooler_config": "it decides what the pooling head keeps",
    "pooler_config": "it decides what the pooling head keeps",
    "prompt_adapters": "prompt adapters have slots of their own",
    "pt_load_map_location": "files loaded onto the GPU make the peak of the load higher",
    "qlora_adapter_name_or_path": "the adapter is loaded beside the weights",
    "quantization_config": "it decides which layers are quantised on the fly",
    "replayssm_buffer_len": "recent inputs of every state are kept beside it",
    "return_sampling_mask": "the sampler keeps a mask of the vocabulary for every sequence",
    "revision": "the plan is made from the model's main revision",
    "scheduler_cls": "another class may do anything",
    "specialize_active_lora": "graphs are captured for several numbers of adapters",
    "ubatch_size": "a batch is split, each part with workspaces of its own",
    "use_fp64_gumbel": "the sampler's noise takes twice the memory",
    "use_replayssm": "recent inputs of every state are kept beside it",
    "video_pruning_method": "fewer video tokens reach the language model",
    "video_pruning_rate": "fewer video tokens reach the language model",
    "weight_transfer_config": "new weights arrive in buffers of their own",
    "worker_cls": "another class may do anything",
    "worker_extension_cls": "another class may do anything",
}

ON_THE_HOST: Mapping[str, str] = {
    "kv_offloading_size": "that many GiB of KV blocks are kept there; the GPU's cache is as large as before",
}

EFFECTS = Effects(NO_MEMORY, NOT_ON_THE_GPU, NOT_PLANNED, ON_THE_HOST)
