"""The options of `trtllm-serve` and the fields behind them, and the fields of the options file that move memory.

A field is named as `TorchLlmArgs` (llmapi/llm_args.py) names it; one inside a nested group has the group in front of
it: `kv_cache_config.dtype`. The same names serve the command line, the YAML file and `LLM(...)`.
"""

from typing import Literal

from msgspec import Struct

from oomph.facts.changes import names

Kind = Literal["int", "float", "str", "flag"]


class Option(Struct, frozen=True):
    """One option of the command line. The first name is valid in every release that has the option."""

    field: str
    kind: Kind
    names: tuple[str, ...]


# commands/serve.py. The longer names came as second spellings with 1.2.0rc8 and are taken for any release.
OPTIONS = (
    Option("tensor_parallel_size", "int", ("--tp_size", "--tensor_parallel_size")),
    Option("pipeline_parallel_size", "int", ("--pp_size", "--pipeline_parallel_size")),
    Option("context_parallel_size", "int", ("--cp_size", "--context_parallel_size")),
    Option("moe_expert_parallel_size", "int", ("--ep_size", "--moe_expert_parallel_size")),
    Option("moe_cluster_parallel_size", "int", ("--cluster_size", "--moe_cluster_parallel_size")),
    Option("max_batch_size", "int", ("--max_batch_size",)),
    Option("max_num_tokens", "int", ("--max_num_tokens",)),
    Option("max_seq_len", "int", ("--max_seq_len",)),
    Option("max_beam_width", "int", ("--max_beam_width",)),
    Option(
        "kv_cache_config.free_gpu_memory_fraction",
        "float",
        ("--kv_cache_free_gpu_memory_fraction", "--free_gpu_memory_fraction"),
    ),
    Option("enable_chunked_prefill", "flag", ("--enable_chunked_prefill",)),
    Option("fail_fast_on_attention_window_too_large", "flag", ("--fail_fast_on_attention_window_too_large",)),
    Option("backend", "str", ("--backend",)),
    Option("trust_remote_code", "flag", ("--trust_remote_code",)),
    Option("host", "str", ("--host",)),
    Option("port", "int", ("--port",)),
    Option("tokenizer", "str", ("--tokenizer",)),
    Option("custom_tokenizer", "str", ("--custom_tokenizer",)),
    Option("custom_module_dirs", "str", ("--custom_module_dirs",)),
    Option("log_level", "str", ("--log_level",)),
    Option("gpus_per_node", "int", ("--gpus_per_node",)),
    Option("num_postprocess_workers", "int", ("--num_postprocess_workers",)),
    Option("revision", "str", ("--revision",)),
    Option("reasoning_parser", "str", ("--reasoning_parser",)),
    Option("tool_parser", "str", ("--tool_parser",)),
    Option("metadata_server_config_file", "str", ("--metadata_server_config_file",)),
    Option("server_role", "str", ("--server_role",)),
    Option("otlp_traces_endpoint", "str", ("--otlp_traces_endpoint",)),
    Option("disagg_cluster_uri", "str", ("--disagg_cluster_uri",)),
    Option("media_io_kwargs", "str", ("--media_io_kwargs",)),
    Option("chat_template", "str", ("--chat_template",)),
)
KV_DTYPE = Option("kv_cache_config.dtype", "str", ("--kv_cache_dtype",))  # since 1.3.0rc7
FILE_NAMES = ("--extra_llm_api_options", "--config")

# fields of commands/serve.py that nothing of memory depends on, and that two servers of the same kind differ in
FRONTEND = frozenset(
    names(
        "host port tokenizer custom_tokenizer custom_module_dirs log_level num_postprocess_workers revision "
        "reasoning_parser tool_parser metadata_server_config_file server_role otlp_traces_endpoint disagg_cluster_uri "
        "media_io_kwargs chat_template trust_remote_code"
    )
)

# groups of the options file whose keys are fields of their own; other mappings stay one value
GROUPS = ("kv_cache_config", "cuda_graph_config", "moe_config", "scheduler_config", "speculative_config")
# what people call a field in a file, where it is not its name: CLI names, and names of older releases
ALIASES = {
    "tp_size": "tensor_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "ep_size": "moe_expert_parallel_size",
    "cuda_graph_config.padding_enabled": "cuda_graph_config.enable_padding",
    "kv_cache_dtype": "kv_cache_config.dtype",
    "free_gpu_memory_fraction": "kv_cache_config.free_gpu_memory_fraction",
    "kv_cache_free_gpu_memory_fraction": "kv_cache_config.free_gpu_memory_fraction",
    "moe_backend": "moe_config.backend",
    "cuda_graph_batch_sizes": "cuda_graph_config.batch_sizes",
    "cuda_graph_max_batch_size": "cuda_graph_config.max_batch_size",
    "cuda_graph_padding_enabled": "cuda_graph_config.enable_padding",
    "speculative_config.max_draft_tokens": "speculative_config.max_draft_len",
    "speculative_config.num_draft_tokens": "speculative_config.max_draft_len",
    # Triton's tensorrtllm backend (config.pbtxt, model.yaml) names the same options so
    "kv_cache_free_gpu_mem_fraction": "kv_cache_config.free_gpu_memory_fraction",
    "max_tokens_in_paged_kv_cache": "kv_cache_config.max_tokens",
    "enable_kv_cache_reuse": "kv_cache_config.enable_block_reuse",
    "kv_cache_host_memory_bytes": "kv_cache_config.host_cache_size",
    "max_attention_window_size": "kv_cache_config.max_attention_window",
    "batch_scheduler_policy": "scheduler_config.capacity_scheduler_policy",
    "enable_chunked_context": "enable_chunked_prefill",
    "max_num_sequences": "max_batch_size",
}
# the fields that a plan reads beside those of the command line, by what they are
WHOLE_NUMBERS = frozenset(
    names(
        "kv_cache_config.max_tokens kv_cache_config.max_gpu_total_bytes kv_cache_config.tokens_per_block "
        "kv_cache_config.host_cache_size cuda_graph_config.max_batch_size speculative_config.num_nextn_predict_layers "
        "speculative_config.max_draft_len kv_cache_config.mamba_state_cache_interval"
    )
)
SWITCHES = frozenset(
    names(
        "enable_attention_dp enable_lm_head_tp_in_adp disable_overlap_scheduler enable_chunked_prefill "
        "kv_cache_config.enable_block_reuse cuda_graph_config.enable_padding use_cuda_graph"
    )
)
WORDS = frozenset(
    names(
        "kv_cache_config.dtype moe_config.backend scheduler_config.capacity_scheduler_policy "
        "speculative_config.decoding_type attn_backend dtype backend kv_cache_config.mamba_ssm_cache_dtype"
    )
)
LISTS = frozenset(names("kv_cache_config.max_attention_window cuda_graph_config.batch_sizes pp_partition"))

BY_NAME = {name: option for option in OPTIONS for name in option.names}
BY_FIELD = {option.field: option for option in OPTIONS}
KNOWN_FIELDS = frozenset(BY_FIELD) | WHOLE_NUMBERS | SWITCHES | WORDS | LISTS | {"cuda_graph_config"}
