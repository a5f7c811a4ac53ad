"""What a traceback was doing: the functions of the engines' workers, and the stage each belongs to."""

from collections.abc import Sequence

from oomph.ir import StageName
from oomph.ir.observation import Observation

# vLLM: v1/worker/gpu_worker.py, gpu_model_runner.py. The first row that any frame of the traceback is in wins:
# capture_model also runs inside profile_cudagraph_memory.
_VLLM: tuple[tuple[StageName, frozenset[str]], ...] = (
    ("cudagraph_profile", frozenset({"profile_cudagraph_memory", "_init_minimal_kv_cache_for_profiling"})),
    ("weights_load", frozenset({"load_model", "create_weights", "process_weights_after_loading", "load_weights",
                                "make_layers", "initialize_model", "_initialize_model", "get_model",
                                "load_draft_model", "create_lora_manager", "load_lora_model",
                                "create_lora_weights", "convert_moe_weights_to_flashinfer_trtllm_block_layout"})),
    ("kv_check", frozenset({"_check_enough_kv_cache_memory", "check_enough_kv_cache_memory", "get_kv_cache_configs",
                            "get_kv_cache_config", "raise_if_cache_size_invalid"})),
    # V0 captures inside of initialize_cache
    ("cudagraph_capture", frozenset({"_warm_up_model", "capture_model", "_capture_cudagraphs", "_warmup_and_capture"})),
    # v1/executor/abstract.py:124 (0.26.0): the executor's initialize_from_config warms up, too
    ("sampler_warmup", frozenset({"_dummy_sampler_run", "_dummy_pooler_run", "warmup_kernels", "kernel_warmup",
                                  "flashinfer_autotune"})),
    ("cudagraph_capture", frozenset({"compile_or_warm_up_model"})),
    ("kv_alloc", frozenset({"initialize_from_config", "initialize_cache", "_init_cache_engine"})),
    ("profile_run", frozenset({"profile_run", "determine_available_memory", "determine_num_available_blocks"})),
    ("kv_alloc", frozenset({"_allocate_kv_cache_tensors", "_allocate_kv_cache", "initialize_kv_cache",
                            "allocate_kv_cache"})),
    ("runtime_request", frozenset({"execute_model", "sample_tokens", "wake_up", "create_and_map", "execute_dummy_batch",
                                   "run_busy_loop", "_get_prompt_logprobs_dict", "_execute_mm_encoder",
                                   "step_with_batch_queue", "execute_model_async", "run_engine_loop",
                                   "_process_request", "_process_engine_step", "_run_engine", "engine_step",
                                   "_bookkeeping_sync"})),
    ("startup_free_memory", frozenset({"init_device", "request_memory", "set_device",
                                       "init_worker_distributed_environment", "ncclCommInitRank"})),
    # torch/cuda/graphs.py: vLLM records graphs at start-up only
    ("cudagraph_capture", frozenset({"capture_end", "capture_begin", "register_graph_buffers"})),
    ("profile_run", frozenset({"_dummy_run"})),
)  # fmt: skip
# SGLang: srt/model_executor/model_runner.py and its model_runner_components/, srt/managers/scheduler.py,
# srt/mem_cache/kv_cache_configurator.py and common.py
_SGLANG: tuple[tuple[StageName, frozenset[str]], ...] = (
    ("cudagraph_capture", frozenset({"init_cuda_graphs", "init_device_graphs", "capture_one_batch_size",
                                     "init_piecewise_cuda_graphs", "init_all_cuda_graphs", "capture_cuda_graphs",
                                     "capture_decode_graph", "capture_prefill_graph", "init_decode_cuda_graph",
                                     "init_prefill_cuda_graph"})),
    ("sampler_warmup", frozenset({"prewarm_sampling", "prewarm_graph_pool_borrow"})),
    ("kv_check", frozenset({"profile_max_num_token", "profile_available_bytes", "_profile_available_bytes",
                            "resolve_max_num_reqs", "_handle_max_mamba_cache", "_resolve_memory_pool_config"})),
    ("kv_alloc", frozenset({"init_memory_pool", "_create_buffers", "_init_mamba_pool", "_init_pools",
                            "alloc_memory_pool", "init_memory_pools", "post_capture_resize_kv_pool",
                            "maybe_init_int8_mamba_checkpoint_pool"})),
    ("runtime_request", frozenset({"event_loop_normal", "event_loop_overlap", "event_loop_pp", "run_event_loop",
                                   "dispatch_event_loop", "get_next_batch_to_run", "prepare_for_extend",
                                   "prepare_for_decode", "alloc_for_extend", "alloc_for_decode",
                                   "alloc_paged_token_slots_extend", "alloc_token_slots", "forward_extend"})),
)  # fmt: skip
# TensorRT-LLM: _torch/pyexecutor/model_engine.py, py_executor.py
_TRTLLM: tuple[tuple[StageName, frozenset[str]], ...] = (
    ("cudagraph_capture", frozenset({"_run_cuda_graph_warmup", "_capture_generation_cuda_graphs",
                                     "maybe_get_cuda_graph"})),
    ("profile_run", frozenset({"configure_kv_cache_capacity", "estimate_max_tokens", "try_prepare_estimation"})),
    ("runtime_request", frozenset({"_executor_loop", "_executor_loop_overlap", "_forward_step"})),
)  # fmt: skip
FRAMES = _VLLM + _SGLANG + _TRTLLM
_BUILT = (
    "/model_executor/models/",
    "/model_executor/layers/",
    "/srt/models/",
    "/srt/layers/",
    "/_torch/models/",
    "/vllm/models/",
)


def frame_stage(functions: Sequence[str], files: Sequence[str] = ()) -> StageName | None:
    names = set(functions)
    if any(_constructor(*pair) for pair in zip(functions, files)):
        names.add("load_model")
    if any("/model_executor/warmup/" in path for path in files):
        names.add("kernel_warmup")
    if any(name.endswith("_repack") for name in functions):
        names.add("process_weights_after_loading")  # _custom_ops.py: weights are repacked once, when they are there
    if any(name.startswith("event_loop_") for name in functions):
        names.add("run_event_loop")
    for stage, pattern in FRAMES:
        if names & pattern:
            inside_profile = names & {"profile_run", "determine_available_memory"}
            return "profile_run" if stage == "sampler_warmup" and inside_profile else stage
    return None


def joins_ranks(kind: str | None, files: Sequence[str]) -> bool:
    """A cut traceback that ends where NCCL joins the ranks (distributed/device_communicators/pynccl.py)."""
    cut = kind in ("frame", "engine_failed", "secondary")
    return cut and bool(files) and "/device_communicators/pynccl" in files[-1]


def _constructor(function: str, path: str) -> bool:
    """A layer's or a model's __init__ (a forum eats its underscores), or what it calls: only loading builds them."""
    name = function.strip("_")
    if name.startswith("init_"):
        return "/models/" in path and any(part in path for part in _BUILT)
    return name == "init" and any(part in path for part in _BUILT)


def traceback(observations: Sequence[Observation], index: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Functions and files of the same process: above the failure back to the previous exception, or right behind it.

    A pasted traceback is often cut, and decorators stand between its frames: the line of code under a frame names the
    function that was entered.
    """
    own = observations[index]
    above: list[Observation] = []
    for observation in reversed(observations[max(0, index - 400) : index]):
        if observation.kind == "exception" and observation.line < own.line and above:
            break
        if observation.kind == "frame" and _same_process(observation, own):
            above.append(observation)
    frames = above[::-1]
    if own.kind == "frame":
        frames.append(own)
        frames += [
            observation
            for observation in observations[index + 1 : index + 120]
            if observation.kind == "frame" and _same_process(observation, own)
        ]
    if not frames:
        frames = [observation for observation in observations[index : index + 120] if observation.kind == "frame"]
    return _names(frames)


def behind(observations: Sequence[Observation], index: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    own = observations[index]
    return _names(
        [
            observation
            for observation in observations[index + 1 : index + 120]
            if observation.kind == "frame" and _same_process(observation, own)
        ]
    )


def _names(frames: Sequence[Observation]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    functions = [str(o.values.get("function", "")) for o in frames]
    files = [str(o.values.get("path", "")) for o in frames]
    called = [str(o.values["calls"]) for o in frames if "calls" in o.values]
    return (*functions, *called), tuple(files)


def _same_process(observation: Observation, own: Observation) -> bool:
    if observation.rank is not None and own.rank is not None and observation.rank != own.rank:
        return False
    return observation.process == own.process or not own.process or not observation.process
