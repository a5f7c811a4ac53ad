"""Options of TensorRT-LLM that a plan does not read: which of them touch GPU memory, and which do not."""

from oomph.facts.flag_effects import Effects, by_field

_NO_MEMORY = {
    "the server, its answers and its log": """
        host port tokenizer custom_tokenizer custom_module_dirs log_level num_postprocess_workers revision
        reasoning_parser tool_parser metadata_server_config_file server_role otlp_traces_endpoint disagg_cluster_uri
        media_io_kwargs chat_template trust_remote_code gpus_per_node print_iter_log stream_interval
        enable_iter_perf_stats return_perf_metrics perf_metrics_max_requests iter_stats_max_iterations
        skip_tokenizer_init tokenizer_mode tokenizer_revision""",
    "when a batch begins": """
        batch_wait_timeout_ms batch_wait_timeout_iters batch_wait_max_tokens_ratio attention_dp_config
        scheduler_config.context_chunking_policy scheduler_config.dynamic_batch_config""",
}
_NOT_ON_THE_GPU = {
    "it is host memory, for blocks that leave the GPU": "kv_cache_config.host_cache_size",
    "blocks are found again, none are added": """
        kv_cache_config.enable_partial_reuse kv_cache_config.copy_on_partial_reuse kv_cache_config.onboard_blocks""",
}
_NOT_PLANNED = {
    "buffers that move a cache between servers": "cache_transceiver_config kv_connector_config",
    "which tokens are kept": "sparse_attention_config kv_cache_config.sink_token_length kv_cache_config.use_uvm",
    "further copies of experts": "moe_config.load_balancer moe_cluster_parallel_size",
    "logits that are kept for every token": "gather_generation_logits",
    "the sampler's own buffers": "sampler_type",
    "states of recurrent layers in another dtype": "kv_cache_config.mamba_ssm_cache_dtype",
}

EFFECTS = Effects(_NO_MEMORY, by_field(_NOT_ON_THE_GPU), by_field(_NOT_PLANNED))
