"""What a kind of line means for a run: the stage that has begun with it, that it ended there, that it was up."""

from collections.abc import Mapping
from typing import Final, cast

from oomph.ir import StageName
from oomph.ir.log_kinds import LogKind

# the stage that has begun once a line of this kind was printed
MILESTONES: Final[dict[LogKind, StageName]] = {
    "world": "startup_free_memory", "nccl": "startup_free_memory",
    "load_begin": "weights_load", "load_files": "weights_load", "checkpoint_size": "weights_load",
    "load_files_done": "weights_load", "draft_load": "weights_load", "draft_shares": "weights_load",
    "weights": "profile_run", "encoder_budget": "profile_run", "mm_profile": "profile_run",
    "mm_worst_case": "profile_run",
    "dynamo": "profile_run", "compiled": "profile_run", "compiled_cold": "profile_run",
    "warmup_run": "profile_run", "gdn_warmup": "profile_run",
    "graph_profile": "cudagraph_profile", "graph_estimate": "kv_check", "available_kv": "kv_check",
    "graph_util": "kv_check", "graph_estimate_off": "kv_check", "manual_kv": "kv_check", "memory_profile": "kv_check",
    "v0_budget": "kv_check", "v0_terms": "kv_check", "v0_results": "kv_check", "requested": "profile_run",
    "kv_tokens": "kv_alloc", "concurrency": "kv_alloc", "v0_blocks": "kv_alloc",
    "capture_capped": "cudagraph_capture", "dumped_step": "runtime_request",
    "capture_begin": "cudagraph_capture", "autotune": "cudagraph_capture", "kernel_warmup": "cudagraph_capture",
    "graphs": "sampler_warmup", "graph_pool": "sampler_warmup", "ledger": "sampler_warmup",
    "engine_ready": "runtime_request", "serving": "runtime_request", "stats": "runtime_request",
    "slept": "runtime_request",
    "sg_load_begin": "weights_load", "sg_weights": "kv_alloc", "sg_kv": "kv_alloc", "sg_pool": "cudagraph_capture",
    "sg_capture_begin": "cudagraph_capture", "sg_capture_end": "runtime_request", "sg_ready": "runtime_request",
    "sg_serving": "runtime_request", "sg_retract": "runtime_request",
    "lc_loading": "weights_load",
    "lc_file": "weights_load", "lc_layers": "weights_load", "lc_weights": "kv_alloc", "lc_param": "kv_alloc",
    "lc_kv": "kv_alloc", "lc_kv_total": "kv_alloc", "lc_kv_cells": "kv_alloc", "lc_compute": "runtime_request",
    "lc_copies": "kv_alloc", "lc_serving": "runtime_request", "lc_prompt_cache": "runtime_request",
    "lc_slots": "runtime_request", "lc_request": "runtime_request", "lc_state": "kv_alloc", "lc_output": "kv_alloc",
    "ol_progress": "weights_load",
    "ol_server": "weights_load", "ol_offload": "weights_load", "ol_weights": "weights_load",
    "ol_runner": "weights_load", "ol_started": "runtime_request",
    "sign_asked": "runtime_request", "sign_served": "runtime_request",
    "sg_stats": "runtime_request", "sg_available": "kv_alloc",
    "tr_engine": "weights_load", "tr_context": "kv_alloc", "tr_weights": "profile_run", "tr_activation": "kv_check",
    "tr_features": "weights_load", "tr_created": "weights_load", "tr_loaded": "profile_run",
    "tr_budget": "kv_alloc", "tr_estimate": "kv_alloc", "tr_cap": "runtime_request",
    "tr_available": "kv_alloc", "tr_too_long": "runtime_request", "tr_forward": "runtime_request",
    "ol_running": "runtime_request", "ol_waiting": "weights_load", "sg_init": "startup_free_memory",
    "sg_watchdog": "runtime_request", "sg_request": "runtime_request", "tr_buffers": "kv_alloc",
}  # fmt: skip

# Lines that are the failure itself, and the stage they belong to (None = where the log had got to).
FAILURES: Final[dict[LogKind, StageName | None]] = {
    "torch_oom": None, "cuda_error_oom": None, "nccl_oom": None, "triton_oom": None, "cumem_oom": "runtime_request",
    "cuda_busy": "startup_free_memory", "free_short": "startup_free_memory", "external_weights": "startup_free_memory",
    "load_oom": "weights_load", "heads_divide": "other", "shape_divide": "other", "e5m2_refused": "other",
    "swap_flag": "other",
    "fp8e4nv": "profile_run", "sampler_oom": None, "pooler_oom": "profile_run", "freed_while_profiling": "profile_run",
    "kv_none": "kv_check", "kv_need": "kv_check", "kv_need_part": "kv_check", "kv_need_v0": "kv_check",
    "auto_fit_none": "kv_check", "mamba_blocks": "kv_check", "kv_alloc_failed": "kv_alloc", "workspace_small": None,
    "sleep_twice": "startup_free_memory", "swap_exhausted": "runtime_request", "workspace_locked": "runtime_request",
    "encoder_item": "runtime_request",
    "mmap_failed": "host_ram", "driver_oom": "host_ram",
    "host_kill": "host_ram", "container_kill": "host_ram", "ray_kill": "host_ram", "sigkill": "host_ram",
    "shm_full": "other", "bus_error": "other",
    "sg_unbalanced": "startup_free_memory",
    "sg_no_pool": "kv_check", "sg_capture_failed": "cudagraph_capture", "sg_pool_full": "runtime_request",
    "sg_no_slots": "runtime_request", "sg_resume_oom": "runtime_request", "sg_no_state": "kv_check",
    "lc_alloc_weights": None, "lc_no_weights": None, "lc_alloc_compute": None, "lc_no_compute": None, "lc_no_kv": None,
    "lc_malloc": None, "lc_cpu_malloc": "host_ram", "lc_no_output": "host_ram", "lc_late": "runtime_request",
    "lc_cublas": None, "lc_no_context": "kv_alloc", "lc_load_failed": "weights_load",
    "ol_host_refused": "host_ram", "ol_layout": "weights_load", "ol_runner_died": None, "ol_panic": None,
    "ol_stopped": "runtime_request", "lc_stopped": "runtime_request", "lc_crash": None,
    "lc_guard": "startup_free_memory",
    "tr_late": "runtime_request", "tr_no_engine": "weights_load", "tr_no_build": "other", "tr_load_oom": "weights_load",
    "tr_component": None, "tr_oom": None, "tr_no_sequence": "kv_check", "tr_pool_full": None,
    "tr_over_budget": "kv_alloc",
}  # fmt: skip
# TensorRT-LLM's names for what it was creating (py_executor_creator.py); the executor's last step records the graphs
COMPONENTS: Final[dict[str, StageName]] = {
    "Model": "weights_load", "Draft model for speculative decoding": "weights_load", "Initial KV cache": "profile_run",
    "Initial KV Cache": "profile_run",
    "Guided Decoder": "profile_run", "Speculative decoding resources": "profile_run",
    "Sampler": "profile_run", "Drafter": "profile_run", "Model resources created during usage": "profile_run",
    "KV cache": "kv_alloc", "Additional executor resources": "cudagraph_capture",
    "EXTRA_RESOURCES": "cudagraph_capture", "INIT_EXTRA_RESOURCES": "profile_run",
}  # fmt: skip
# the stage behind each of them, for a report without the name of what failed: its list ends with the last that was made
AFTER_COMPONENTS: Final[dict[str, StageName]] = {
    "model": "profile_run", "sampler": "profile_run", "draft_model": "profile_run", "drafter": "profile_run",
    "_no_capture_init_kv_cache": "profile_run", "_no_capture_init_extra_resources": "profile_run",
    "spec_resource_manager": "profile_run", "model_extra": "kv_alloc", "kv_cache": "cudagraph_capture",
    "executor_extra": "runtime_request",
}  # fmt: skip
# What the words of a bar that is being drawn say; the first that applies.
BARS: Final[tuple[tuple[str, StageName], ...]] = (
    (r"(?i)download|fetch", "other"),
    (r"(?i)captur|cuda ?graph|warm|tuning", "cudagraph_capture"),
    (r"(?i)shard|weight|checkpoint|tensor|load", "weights_load"),
    (r"(?i)compil", "profile_run"),
    (r"(?i)prompt|request|generat|infer|sampl|decod", "runtime_request"),
)
# TensorRT-LLM's C++ functions (cpp/tensorrt_llm), of the innermost frame that has a row: a step of the loop, the pools
# and buffers of a start, an engine that is being read. A constructor is named like its class. The order is that of
# TrtGptModelInflightBatching's constructor (batch_manager/trtGptModelInflightBatching.cpp, 0.17): TllmRuntime, buffers,
# decoder, managed weights, LoRA's and states' managers, KV cache; forwardAsync and forwardSync are its steps.
NATIVE: Final[tuple[tuple[str, StageName], ...]] = (
    (
        r"forwardAsync|forwardSync|::forward|executionLoop|execution_loop|decoderStep|setFromInputs|prepareStep|"
        r"execute(?:Step|Context|Batch)|generateBatched|::generate|enqueue|::step$|run(?:Gemm|Moe)|Runner::run",
        "runtime_request",
    ),
    (r"ipcUtils|IpcMemory|NcclCommunicator|setupNccl|CustomAllReduce\w{0,20}Buffers", "startup_free_memory"),
    (
        r"allocatePools|[Kk][Vv]CacheManager|BlockManager|createBuffers|RuntimeBuffers|createContexts|addContext|createDecoder|"
        r"DecoderBuffers|::setup|createKvCache|PeftCacheManager|RnnStateManager|calculateMaxNumBlocks|ExecutionContext|DecoderState|createRuntime\w{0,20}Buffers",
        "kv_alloc",
    ),
    (
        r"TllmRuntime::TllmRuntime|deserialize|loadEngine|loadManagedWeights|Plugin::(?:init|\w{1,40}Plugin)|GemmPlugin|RawEngine|ManagedWeights|"
        r"loadModel",
        "weights_load",
    ),
)
# the source files that its errors name at their end, where no frame stands beside them
NATIVE_FILES: Final[dict[str, StageName]] = {
    "tllmBuffers": "kv_alloc", "ipcUtils": "startup_free_memory", "ipcNvlsMemory": "startup_free_memory",
    "mpiUtils": "other",
    "tllmRuntime": "weights_load", "rawEngine": "weights_load", "kvCacheManager": "kv_alloc",
    "blockManager": "kv_alloc", "gptSession": "kv_alloc", "runtimeBuffers": "kv_alloc", "peftCacheManager": "kv_alloc",
    "allreducePlugin": "runtime_request", "gptAttentionCommon": "runtime_request", "attentionOp": "runtime_request",
}  # fmt: skip
# They name the failure but not its kind: used only when nothing above was printed.
WEAK: Final[tuple[LogKind, ...]] = (
    "engine_failed",
    "engine_dead",
    "secondary",
    "sg_exception",
    "tr_executor",
    "exception",
    "frame",
    "dumped_step",
    "tr_forward",
    "tr_free",
)
ORDER: Final[tuple[StageName, ...]] = (
    "other", "startup_free_memory", "weights_load", "profile_run", "cudagraph_profile", "kv_check", "kv_alloc",
    "cudagraph_capture", "sampler_warmup", "runtime_request", "host_ram",
)  # fmt: skip
NOT_FATAL: Final = frozenset(
    {"ValidationError", "KeyboardInterrupt", "BadRequestError", "CancelledError", "HTTPException"}
)
# The same for failures that are not about GPU memory (facts/troubles.py, not_memory.py): "other" is a start that
# ended before anything of the model was on a GPU. A server that was up afterwards overrules all of them.
TROUBLES: Final[dict[LogKind, StageName | None]] = {
    "x_port": "other", "x_gated": "other", "x_no_model": "other", "x_network": "other", "x_driver": "other",
    "x_no_gpu": "other", "x_dtype_card": "other", "x_ray": "other", "x_ray_wait": "other",
    "x_architecture": "other", "x_too_long": "other",
    "x_setting": "other", "x_import": "other", "x_fork": "other", "x_trust": "other", "x_permission": "other",
    "x_broken_file": "weights_load", "x_mismatch": "weights_load", "x_disk": None, "x_slow_start": None,
    "x_no_kernel": None, "x_bad_address": None, "x_nccl": None, "x_compiler": None, "x_kernel_shared": None,
    "x_capture": "cudagraph_capture", "x_crash": None, "x_files": None,
}  # fmt: skip
# Whoever printed one of these was up.
READY: Final[frozenset[LogKind]] = frozenset(
    {"serving", "engine_ready", "stats", "slept", "sg_ready", "sg_serving", "sg_stats",
     "tr_cap", "dumped_step", "lc_serving", "lc_request", "lc_prompt_cache", "ol_started", "sign_served"}
)  # fmt: skip
# Something went wrong, and nothing says what: no all-clear with one of these at the end.
SIGNS: Final[frozenset[LogKind]] = frozenset(
    {"sign_exit", "sign_signal", "sign_error", "sign_level", "sign_backoff", "exception", "oom_mentioned", "secondary",
     "traceback", "chained"}
)  # fmt: skip
# what settles a log that ends before the server is up and has no error in it
UNFINISHED: Final = "whether it came up: the lines behind the last one say so, or the error does"


def stage_of(table: Mapping[LogKind, StageName | None], kind: str) -> StageName | None:
    """What a table here says of an observation's kind."""
    return cast(Mapping[str, StageName | None], table).get(kind)
