# ruff: noqa: E501 - a row is a line
"""The stage of a frame by its place: the file of an engine's sources that it is in, and what its function is called.

tracebacks.py knows the functions that open a stage. A pasted traceback often holds none of them, only the innermost
frames: a loader's helper, a scheduler's method, an endpoint. The rows of vLLM and SGLang are checked against the
sources of 0.32.0 and 0.5.23 with tools/frame_stages.py, which derives from the call graph which functions only one
stage reaches (1,165 agree and 37 differ, 983 and 22); those of TensorRT-LLM are from its _torch/pyexecutor (py_executor_creator.py,
model_loader.py, py_executor.py of 1.2): create_py_executor builds the model, the sampler, a temporary KV cache, runs it to
measure, then builds the real cache and an executor that warms up. What several stages run (a layer's forward) has no row.
"""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from oomph.facts.loglines import compiled
from oomph.ir import StageName


class Place(Struct, frozen=True):
    stage: StageName
    path: str = ""  # what the path contains, as a pattern; "" = any
    function: str = ""  # what the function's name contains, as a pattern; "" = any but a constructor


_BEGIN = r"(?:^|_)"
PLACES: Final[tuple[Place, ...]] = (
    # TensorRT-LLM: the constructor of PyTorchModelEngine is the component "Model"; its loader's config is read first
    Place("other", r"/pyexecutor/model_loader\.py", r"config"),
    Place("weights_load", r"/pyexecutor/model_loader\.py|/models/checkpoints/"),
    Place("weights_load", r"/pyexecutor/model_engine\.py", r"^_{0,2}init_{0,2}$|load"),
    Place("weights_load", "", r"^(?:post_load_weights|_call_load_weights|init_meta_tensor)$"),
    Place("profile_run", "", r"^(?:instantiate_sampler|get_spec_resource_manager|get_spec_drafter)$"),
    Place("kv_alloc", "", r"^(?:build_managers|_?create_kv_cache_manager|allocate_pools)$"),
    Place("host_ram", r"/mem_cache/memory_pool_host\.py"),
    Place("weights_load", r"/model_loader/|/weight_utils\.py|/lora/(?:models|lora_model|peft_helper)\.py"),
    Place("weights_load", "", rf"{_BEGIN}(?:load_(?:weights?|w\d|w13|w2|experts?|module|shards?|checkpoint|tensors?|qkv|"
                              rf"per_tensor|merged|model_weight|single_value|\w{{0,40}}_weights?)|"
                              rf"weight_loader|weights?_iterator|load_w\d{{1,2}}|process_weights|create_weights)"),
    Place("weights_load", r"/quantization/|/fused_moe/|/quant/",
          rf"repack|shuffle|swizzle|requant|{_BEGIN}(?:prepare|convert|pad|permute|interleave)_(?:\w{{1,60}}_)?"
          rf"(?:weights?|layer|layout|marlin|format|scales?|experts?)"),
    # TensorRT-LLM: an engine is built, a checkpoint converted
    Place("other", r"/commands/build\.py|/tensorrt_llm/builder\.py|/examples/\w{1,40}/build\.py"),
    Place("weights_load", r"convert_checkpoint\.py|/examples/quantization/|/convert_utils\.py"),
    # the Python session of a built engine (runtime/generation.py, model_runner.py, model_runner_cpp.py: 0.5 to 0.21)
    Place("weights_load", r"/tensorrt_llm/runtime/generation\.py", r"prepare$|^_{0,2}init_{0,2}$|from_engine"),
    Place("kv_alloc", r"/tensorrt_llm/runtime/|/benchmarks/python/", r"^(?:setup|_setup\w{0,20}|__setup_\w{1,20}|create_\w{1,40}(?:buffers|context)|prepare_inputs|_init_\w{0,20}cache)$"),
    Place("runtime_request", r"/tensorrt_llm/runtime/generation\.py", r"decode|handle_per_step|^_?generate|_prepare_context_inputs|_get_\w{1,30}_shape_buffer|stream"),
    Place("runtime_request", r"/tensorrt_llm/runtime/model_runner\w{0,10}\.py", r"generate"),
    Place("weights_load", r"/tensorrt_llm/runtime/model_runner\.py", r"from_(?:dir|engine)"),
    Place("kv_alloc", r"/tensorrt_llm/runtime/model_runner_cpp\.py", r"from_dir"),  # the C++ executor with its pools
    # layers ask whether a scheme is supported and pick their kernels while they are built or their weights are finished
    Place("weights_load", r"/quantization/|/fused_moe/|/moe/|/kernels/linear/",
          r"supports?_(?:current|shape|router|no_act|parallel)|is_supported|can_implement|_scheme(?:_|$)|get_quant_method|select_\w{1,40}(?:kernel|backend)|"
          r"(?:init|make)_\w{1,40}_kernel|^_?(?:verify|validate)_|align_\w{1,40}_weights|pack_\w{0,20}(?:int4|int32)|dequant\w{0,20}_(?:experts?|weights?)"),
    Place("weights_load", r"/models/", r"(?:^|_)weights?(?:_|$)|load_params?$|remap|set_embed|expert_params|_stacked_params"),
    Place("weights_load", r"/safetensors/|/fastsafetensors/|/runai_model_streamer/"),
    Place("kv_check", r"/v1/core/kv_cache_utils\.py", r"kv_cache_config|enough|estimate|max_model_len|spec"),
    Place("kv_check", "", r"^get_kv_cache_spec$"),
    Place("kv_alloc", "", r"^(?:bind_kv_cache\w{0,20}|init(?:ialize)?_attn_backend|initialize_(?:cudagraph_keys|metadata_builders)|may_reinitialize_input_batch|"
                          r"prepare_kernel_block_sizes|register_kv_caches|alloc_memory_pool)$"),
    Place("profile_run", "", r"^(?:memory_profiling|profile_encoder_cache|profile_multimodal\w{0,20}|_dummy_mm_\w{1,20}|get_dummy_\w{1,30})$"),
    Place("kv_alloc", r"/worker/cache_engine\.py|/mem_cache/memory_pool\.py",
          r"^(?:__init__|_?create_\w{1,40}|_?allocate\w{0,40}|<listcomp>|_clear_buffers)$"),
    Place("kv_alloc", "", r"^(?!_initialize_kv_caches$)_?(?:initialize|init|allocate|reshape|create)_(?:\w{1,20}_)?kv_caches?(?:_tensors?)?(?:_views)?$"),
    Place("runtime_request", r"/srt/(?:entrypoints/\w{1,30}|server)\.py", r"warm_?up"),  # SGLang's first request to itself
    Place("cudagraph_capture", r"/\w{0,40}cuda_graph_(?:runner|backend)\w{0,40}\.py|/cudagraph_utils\.py|/cuda_graph\.py",
          r"captur|__init__|warm"),
    Place("cudagraph_capture", "", r"warm_?up|autotune|graph_captur|captur\w{0,4}_(?:graph|model|one|cuda)|cuda_?graph_captur"),
    Place("runtime_request", r"/v1/core/sched/|/v1/core/(?:kv_cache_manager|block_pool|single_type_kv_cache_manager|"
                             r"kv_cache_coordinator|encoder_cache_manager)\.py|/vllm/core/(?:scheduler|block)"),
    Place("runtime_request", r"/entrypoints/openai/(?:serving|chat|completion|responses|generate|engine/serving|pooling)|"
                             r"/entrypoints/(?:serve|pooling)/|/srt/entrypoints/openai/|/serve/(?:openai_server|postprocess)"),
    # what a request asks for is checked when it arrives
    Place("runtime_request", r"/vllm/sampling_params\.py|/vllm/pooling_params\.py|/v1/engine/(?:processor|input_processor)\.py|/vllm/renderers/|"
                             r"/entrypoints/chat_utils\.py|/entrypoints/openai/protocol\.py"),
    Place("runtime_request", "", r"^(?:apply_chat_template|make_mistral_chat_completion_request|\w{0,20}_chat_template\w{0,20})$"),
    Place("runtime_request", r"/v1/engine/(?:output_processor|detokenizer|logprobs|parallel_sampling)\.py|/engine/output_processor/|"
                             r"/v1/structured_output/|/guided_decoding/"),
    Place("runtime_request", r"/srt/managers/(?:schedule_batch|schedule_policy|scheduler_output_processor_mixin|"
                             r"scheduler_components|tokenizer_manager|detokenizer_manager|session_controller)"),
    Place("runtime_request", r"/srt/mem_cache/(?:\w{0,30}(?:radix|chunk)_cache|allocator|common|unified_cache/|buffer_mode/|cache_controller)"),
    Place("runtime_request", r"/srt/(?:disaggregation|multimodal/processors|observability|beam_search|constrained|function_call|parser|dllm)/|"
                             r"/srt/managers/(?:io_struct|mm_utils|cache_controller|data_parallel_controller|multi_tokenizer\w{0,10})"),
    Place("runtime_request", r"/srt/speculative/\w{1,40}worker\w{0,10}\.py", r"draft|verify|forward|accept"),
    Place("runtime_request", r"/\w{0,40}cuda_graph_(?:runner|backend)\w{0,40}\.py|/cudagraph_utils\.py", r"replay"),
    Place("runtime_request", r"/pyexecutor/(?:scheduler|llm_request|request_utils|handle_\w{1,40})"),
    Place("runtime_request", r"/resource_manager\.py|/kv_cache_manager\w{0,10}\.py",
          r"prepare_resources|add_(?:token|sequence)|update_resources|try_allocate"),
    Place("runtime_request", r"/(?:starlette|fastapi|uvicorn/protocols|aiohttp/web\w{0,20})[/.]"),
    Place("runtime_request", "", r"^_?(?:process_batch_result\w{0,20}|handle_(?:generate|batch|embedding|loop)\w{0,20}|"
                                 r"generate_request|process_input_requests|run_batch|update_from_output|allocate_slots|"
                                 r"_update_states|_prepare_inputs|_gather_mm_embeddings|_bookkeeping_sync|"
                                 r"propose\w{0,30}|forward_(?:decode|split_prefill|batch_generation)|"
                                 r"_forward_step\w{0,20}|_event_loop_wrapper|_executor_loop\w{0,20}|_prepare_and_schedule_batch|"
                                 r"_fetch_\w{0,30}requests|_process_previous_batch|_update_request\w{0,10}|_handle_(?:responses|errors|first_token_response|"
                                 r"canceled_requests|speculative_decoding|abort_req)|_send_disagg_ctx_cache|_validate_request|_sample_async|_process_\w{0,20}requests?|create_chat_completion|"
                                 r"create_completion|\w{1,30}_stream_generator|_run_workers_async|dump_engine_exception)$"),
    Place("other", r"/(?:arg_utils|server_args|llm_args|argparse)\.py|/vllm/config|/transformers_utils/|/huggingface_hub/|"
                   r"/transformers/(?:configuration|models/auto|tokenization|utils/hub|dynamic_module)|/vllm/platforms/|"
                   r"/tokenizers?/|/hf_transformers_utils\.py|/srt/configs/|/placement_group|/ray_utils\.py"),
)  # fmt: skip
# Compilation: while the model is profiled, which is when it is compiled first, unless the log had got further.
COMPILED: Final = re.compile(
    r"/torch/_(?:inductor|dynamo|functorch)/|/vllm/compilation/(?!cuda_graph)|/triton/compiler/"
)


def place_stage(functions: Sequence[str], files: Sequence[str]) -> StageName | None:
    """Of the innermost frame that has a row. `functions` may be longer than `files`: what the last lines of code call."""
    for index in reversed(range(min(len(functions), 400))):
        path = files[index] if index < len(files) else ""
        stage = _one(functions[index], path)
        if stage is not None:
            return stage
    return None


def _one(function: str, path: str) -> StageName | None:
    for place in PLACES:
        if place.path and not compiled(place.path).search(path):
            continue
        if place.function:
            if compiled(place.function).search(function):
                return place.stage
        elif function.strip("_") != "init":
            return place.stage
    return None


def compiles(files: Sequence[str]) -> bool:
    return any(COMPILED.search(path) for path in files)
