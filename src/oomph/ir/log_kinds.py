"""The kinds of log lines: what a row of facts/*/logs.py calls a line, and what rules ask for.

A misspelt kind is a type error in every row, in every table and in what a rule asks for. The kind of an observation
is a plain text: mypy compares two types of 324 names pair by pair, and took two thirds of its time for it. A test
looks at the names that it is compared with (tests/logs/test_log_kinds.py).

A new kind of line is a name here and a row there.
"""

from typing import Literal

VllmKind = Literal[
    "version", "version_beside", "version_said", "engine_config", "args", "architecture", "max_model_len",
    "chunked_prefill", "chunked_off", "kv_dtype", "nvfp4", "cast", "pin_memory_off", "uva_off", "world", "nccl",
    "no_p2p", "graph_addresses", "capability", "free_short", "requested", "external_weights", "load_begin",
    "load_files", "checkpoint_size", "load_files_done", "draft_load", "draft_shares", "weights", "load_oom",
    "offloaded", "heads_divide", "shape_divide", "encoder_budget", "mm_worst_case", "mm_profile", "dynamo",
    "compiled_cold", "compiled", "warmup_run", "gdn_warmup", "sampler_oom", "pooler_oom", "graph_profile",
    "graph_estimate", "memory_profile", "v0_budget", "v0_terms", "v0_results", "freed_while_profiling",
    "manual_kv", "available_kv", "graph_util", "graph_estimate_off", "kv_none", "kv_need", "kv_need_part",
    "kv_len_part", "kv_need_v0", "auto_fit", "auto_fit_none", "mamba_blocks", "blocks_override",
    "capture_capped", "padding_layers", "attention_block", "page_padding", "hybrid_off", "e5m2_refused",
    "e5m2_mentioned", "kv_tokens", "concurrency", "v0_blocks", "kv_connector", "capture_begin", "graphs",
    "graph_pool", "autotune", "kernel_warmup", "ledger", "engine_ready", "serving", "stats", "dumped_step",
    "preempted", "encoder_item", "slept", "woken", "cumem_oom", "sleep_twice", "swap_exhausted", "swap_flag",
    "bad_flag", "broadcast_wait", "kv_alloc_failed", "workspace_locked", "secondary", "engine_dead",
    "engine_failed", "prompt_logprobs", "mm_reserve", "host_pool", "cpu_short", "decode_item",
]  # fmt: skip
SglangKind = Literal[
    "sg_args", "sg_load_begin", "sg_weights", "sg_kv", "sg_swa", "sg_mamba", "sg_pool", "sg_capture_begin",
    "sg_capture_end", "sg_ready", "sg_serving", "sg_no_pool", "sg_capture_failed", "sg_retract", "sg_pool_full",
    "sg_no_slots", "sg_no_state", "sg_stats", "sg_available", "sg_profiled", "sg_exception", "sg_resume_oom",
    "sg_unbalanced", "sg_init", "sg_watchdog", "sg_request", "sg_no_room", "sg_beside", "sg_host_pool",
]  # fmt: skip
TrtllmKind = Literal[
    "tr_version", "tr_weights", "tr_engine", "tr_context", "tr_non_torch", "tr_activation", "tr_budget",
    "tr_estimate", "tr_kv", "tr_window_cut", "tr_seq_cut", "tr_no_sequence", "tr_executor", "tr_component",
    "tr_total", "tr_free", "tr_step", "tr_no_engine",
    "tr_no_build", "tr_building", "tr_built", "tr_triton", "tr_late", "tr_oom", "tr_load_oom", "tr_line", "tr_outside",
    "tr_blocks", "tr_limits", "tr_both", "tr_cap", "tr_available", "tr_buffers", "tr_graphs", "tr_pool_full",
    "tr_too_long", "tr_no_graphs", "tr_args", "tr_created", "tr_features", "tr_loaded",
    "tr_over_budget", "tr_contexts", "tr_forward",
]  # fmt: skip
OllamaKind = Literal[
    "ol_progress", "ol_path",
    "ol_server", "ol_runner", "ol_default_context", "ol_offload", "ol_fits", "ol_weights", "ol_kv", "ol_graph",
    "ol_total", "ol_system", "ol_gpu", "ol_request", "ol_host_refused", "ol_layout", "ol_panic", "ol_backoff",
    "ol_runner_died", "ol_stopped", "ol_timeout", "ol_started", "ol_retry_context", "ol_evict", "ol_parallel",
    "ol_line", "ol_running", "ol_waiting",
]  # fmt: skip
LlamaCppKind = Literal[
    "lc_device", "lc_host", "lc_free", "lc_file", "lc_loading", "lc_layers", "lc_experts",
    "lc_fit_abort", "lc_fit_device", "lc_fit_short",
    "lc_layer_moved", "lc_fit_context", "lc_fit_need", "lc_weights", "lc_param", "lc_kv", "lc_kv_total",
    "lc_kv_cells", "lc_state", "lc_output", "lc_compute", "lc_copies", "lc_pipeline_retry", "lc_malloc",
    "lc_pinned", "lc_cpu_malloc", "lc_alloc_weights", "lc_alloc_compute", "lc_late", "lc_no_compute",
    "lc_no_kv", "lc_warmup", "lc_old_context", "lc_stopped", "lc_metal_full", "lc_metal_limit", "lc_no_context",
    "lc_no_weights", "cuda_error_oom", "lc_cublas", "lc_crash", "lc_guard",
    "lc_where", "lc_no_output", "lc_load_failed", "lc_kv_full", "lc_bad_flag", "lc_line", "lc_build",
    "lc_studio", "lc_slots", "lc_prompt_cache", "lc_serving", "lc_request", "lc_breakdown",
    "lc_phase",
]  # fmt: skip
TroubleKind = Literal[
    "x_port", "x_gated", "x_no_model", "x_network", "x_broken_file", "x_driver", "x_fabric", "x_no_gpu", "x_dtype_card",
    "x_no_kernel", "x_hardware", "x_bad_address", "x_nccl", "x_ray", "x_ray_wait", "x_slow_start", "x_disk",
    "x_architecture", "x_mismatch", "x_too_long", "x_setting", "x_import", "x_compiler", "x_kernel_shared", "x_capture",
    "x_crash", "x_fork", "x_permission", "x_trust", "x_files",
]  # fmt: skip
SignKind = Literal[
    "sign_exit", "sign_signal", "sign_error", "sign_backoff", "sign_asked", "sign_served", "sign_level",
]  # fmt: skip
SharedKind = Literal[
    "traceback", "frame", "exception", "engine_named", "engine_line", "chained", "command", "docker_run", "host_kill",
    "container_kill", "sigkill", "ray_kill", "util_given", "eager_given", "oom_mentioned",
    "mmap_failed", "driver_oom", "shm_full", "shm_small", "bus_error", "rss", "cgroup", "orphan", "mig",
    "triton_oom", "fp8e4nv", "nccl_oom", "workspace_small", "cuda_busy", "torch_oom", "memory_short", "said_oom",
    "bar", "placed", "said_failed", "proposed",
]  # fmt: skip
LogKind = VllmKind | SglangKind | TrtllmKind | OllamaKind | LlamaCppKind | TroubleKind | SignKind | SharedKind
