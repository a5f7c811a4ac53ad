# ruff: noqa: E501 - a row is a line
"""llama.cpp's log lines, old builds (llama_new_context_with_model) to 2026's, and ik_llama.cpp's where they differ."""

from oomph.facts.loglines import LogRow

ROWS = (
    LogRow("lc_device", "compute capability",
           r"Device (?P<device__int>\d+): (?P<name>[^,]{1,80}), compute capability (?P<capability>\d+\.\d+)", more=(r"VRAM: (?P<total__MiB>\d+) MiB",)),
    LogRow("lc_host", "MiB free", r"- CPU\s*: .{1,80} \((?P<total__MiB>\d+) MiB, (?P<free__MiB>\d+) MiB free\)"),
    LogRow("lc_free", "MiB free", r"- (?P<buffer>[A-Za-z]+\d{1,3})\s*: (?P<name>.{1,80}?) \((?P<total__MiB>\d+) MiB, (?P<free__MiB>\d+) MiB free\)"),
    LogRow("lc_free", "MiB free", r"using device (?P<buffer>[A-Za-z]+\d{1,3}) - (?P<free__MiB>\d+) MiB free"),  # ik_llama.cpp
    LogRow("lc_free", "MiB free", r"using device (?P<buffer>\w+) \((?P<name>[^)]{1,80})\).{0,40}- (?P<free__MiB>\d+) MiB free"),
    LogRow("lc_warmup", "warming up the model with an empty run", r"warming up the model with an empty run"),
    LogRow("lc_slots", "| task ", r"^slot +\w{3,40}: +id +\d{1,4} \| task -?\d", stage="runtime_request"),
    LogRow("lc_loading", "loading model", r"^srv +(?:load_model|main): loading model", stage="weights_load"),
    LogRow("lc_loading", "model tensors into buffer", r"loaded +\d{1,3}% model tensors into buffer"),  # llama-box
    LogRow("lc_file", "file size", r"file size\s+= (?P<size__GiB>[\d.]+) GiB", stage="weights_load"),
    LogRow("lc_layers", "layers to GPU", r"offloaded (?P<on_gpu__int>\d+)/(?P<layers__int>\d+) layers to GPU", stage="weights_load"),
    LogRow("lc_fit_abort", "already set by user", r"(?P<what>n_gpu_layers|tensor_split|tensor_buft_overrides) already set by user(?: to (?P<value__int>-?\d{1,10}))?, abort", shortage=True),
    LogRow("lc_fit_abort", "is not implemented for SPLIT_MODE", r"is not implemented for (?P<what>SPLIT_MODE_\w{1,20}), abort"),
    LogRow("lc_fit_abort", "by reducing context, abort", r"(?P<what>was unable to fit model into system memory) by reducing context, abort"),
    LogRow("lc_fit_device", " total,", r"- (?P<buffer>\w{1,20}) \((?P<name>[^)]{1,80})\)\s*: +(?P<total__MiB>\d{1,9}) total, +(?P<used__MiB>\d{1,9}) used, +(?P<left__MiB>-?\d{1,9}) (?P<word>free|surplus|deficit)"),
    LogRow("lc_fit_short", "cannot fulfill margin", r"cannot fulfill margin of (?P<margin__MiB>\d{1,9}) MiB.{0,40}need to use (?P<short__MiB>\d{1,9}) MiB less"),
    LogRow("lc_fit_short", "cannot meet free memory target", r"cannot meet free memory targets? .{0,40}need to (?:use|reduce device memory by) (?P<short__MiB>\d{1,9}) MiB"),
    LogRow("lc_layer_moved", "is assigned to device CPU", r"layer (?P<layer__int>\d{1,5}) is assigned to device CPU but (?P<what>.{1,60}?) is assigned to device (?P<device>\w{1,20})"),
    LogRow("lc_fit_context", "context size reduced from", r"context size reduced from (?P<before__int>\d{1,10}) to (?P<after__int>\d{1,10})"),
    LogRow("lc_fit_need", "projected to use", r"projected to use (?P<need__MiB>\d{1,9}) MiB (?:of device memory )?vs\.? (?P<free__MiB>\d{1,9}) MiB"),
    LogRow("lc_weights", "model buffer size", r"\b(?P<buffer>[\w.:\[\]-]{1,40})\s{1,12}model buffer size =\s*(?P<size__MiB>[\d.]+) MiB", stage="kv_alloc"),
    LogRow("lc_weights", "llm_load_tensors:", r"llm_load_tensors: +(?P<buffer>[\w.:\[\]-]{1,40}) {1,12}buffer size =\s*(?P<size__MiB>[\d.]+) MiB"),
    LogRow("lc_param", "llama_context:", r"llama_context: (?P<name>n_\w+|flash_attn|kv_unified)\s*= (?P<value>\S+)", stage="kv_alloc"),
    LogRow("lc_param", "llama_new_context_with_model:", r"llama_new_context_with_model: (?P<name>n_\w+|flash_attn)\s*= (?P<value>\S+)"),
    LogRow("lc_old_context", "llama_model_load_internal: n_ctx", r"llama_model_load_internal: n_ctx\s{1,12}= (?P<context__int>\d{1,9})"),  # 2023
    LogRow("lc_kv", "KV buffer size", r"\b(?P<buffer>[\w.:\[\]-]{1,40})\s{1,12}KV buffer size =\s*(?P<size__MiB>[\d.]+) MiB", stage="kv_alloc"),
    LogRow("lc_kv_total", "KV self size", r"KV self size\s+=\s*(?P<size__MiB>[\d.]+) MiB", stage="kv_alloc"),
    LogRow("lc_kv_cells", "kv_size = ", r"kv_size = (?P<cells__int>\d+), type_k = '(?P<k>\w+)', type_v = '(?P<v>\w+)'", stage="kv_alloc"),
    LogRow("lc_state", "RS buffer size", r"\b(?P<buffer>[\w.:\[\]-]{1,40})\s{1,12}RS buffer size =\s*(?P<size__MiB>[\d.]+) MiB", stage="kv_alloc"),
    LogRow("lc_output", "output buffer size", r"\b(?P<buffer>[\w.:\[\]-]{1,40})\s{1,12}output buffer size =\s*(?P<size__MiB>[\d.]+) MiB", stage="kv_alloc"),
    LogRow("lc_compute", "compute buffer size", r"\b(?P<buffer>[\w.:\[\]-]{1,40})\s{1,12}compute buffer size =\s*(?P<size__MiB>[\d.]+) MiB", stage="runtime_request"),
    LogRow("lc_copies", "pipeline parallelism enabled", r"pipeline parallelism enabled(?: \(n_copies=(?P<copies__int>\d+)\))?", stage="kv_alloc"),
    LogRow("lc_pipeline_retry", "retrying without pipeline parallelism", r"retrying without pipeline parallelism"),
    LogRow("lc_malloc", "Malloc failed",
           r"allocating (?P<tried__MiB>[\d.]+) MiB on device (?P<device__int>\d+): (?:cuda|hip)Malloc failed: out of memory", ends="here", shortage=True),
    LogRow("lc_cpu_malloc", "mem_buffer", r"GGML_ASSERT\W.{0,200}mem_buffer != NULL"),  # ggml_init of 2023: malloc gave nothing
    LogRow("lc_malloc", "ggml_vulkan", r"ggml_vulkan: (?:Device m|M)emory allocation of size (?P<tried__B>\d+) failed"),
    LogRow("lc_malloc", "ErrorOutOfDeviceMemory", r"ErrorOutOfDeviceMemory"),
    LogRow("lc_malloc", "of memory on device", r"can't allocate (?P<tried__B>\d+) Bytes of memory on device"),  # SYCL
    LogRow("lc_malloc", "ERROR_OUT_OF_", r"(?:UR_RESULT|ZE_RESULT|PI)_ERROR_OUT_OF_(?:DEVICE_MEMORY|HOST_MEMORY|RESOURCES)"),
    LogRow("lc_malloc", "metal", r"ggml_\w{0,20}metal\w{0,40}: error: failed to allocate buffer, size = *(?P<tried__MiB>[\d.]+) MiB"),
    # Metal's first buffers: the model's is called data, the others are the context's (ggml-metal.m, 2023)
    LogRow("lc_no_weights", "ggml_metal_add_buffer", r"ggml_metal_add_buffer: (?:error: failed to allocate|buffer) '(?P<buffer>data)\s*'", ends="here", shortage=True),
    LogRow("lc_no_kv", "ggml_metal_add_buffer", r"ggml_metal_add_buffer: (?:error: failed to allocate|buffer) '(?P<buffer>eval|kv|scr\d|alloc)\s*'", ends="here", shortage=True),
    LogRow("lc_metal_full", "recommended max working set size", r"current allocated size is greater than the recommended max working set size"),
    LogRow("lc_metal_limit", "recommendedMaxWorkingSetSize", r"recommendedMaxWorkingSetSize\s{1,4}= {1,4}(?P<limit__MiB>[\d.]+)"),
    LogRow("lc_metal_full", "ggml_metal_add_buffer", r"ggml_metal_add_buffer: allocated .{0,120}\( {0,4}(?P<used__MiB>[\d.]+) /"),
    LogRow("lc_malloc", "ggml_metal_add_buffer", r"ggml_metal_add_buffer: error: failed to allocate '\w{1,20}\s*' buffer, size = *(?P<tried__MiB>[\d.]+) M"),
    LogRow("lc_malloc", "maximum allowed buffer size", r"Attempting to allocate (?P<tried__B>\d{1,15}) bytes which is greater than the maximum allowed buffer size of (?P<most__B>\d{1,15})"),  # MLX
    LogRow("lc_malloc", "exceeds device", r"Requested buffer size exceeds device (?:memory allocation|buffer size) limit"),  # Vulkan
    LogRow("lc_malloc", "is larger than buffer maximum", r"buffer '\w{1,20}\s*' size (?P<tried__B>\d{1,15}) is larger than buffer maximum of (?P<most__B>\d{1,15})"),
    LogRow("lc_pinned", "pinned memory", r"[Ff]ailed to allocate (?:(?P<tried>[\d.,]+) MiB of )?pinned memory", shortage=True),  # slower copies, nothing else
    LogRow("lc_cpu_malloc", "cpu_buffer_type_alloc_buffer", r"cpu_buffer_type_alloc_buffer: failed to allocate buffer(?: of size (?P<tried__B>\d+))?", ends="host_ram", shortage=True),
    LogRow("lc_cpu_malloc", "attempted to allocate", r"ggml_aligned_malloc: .{1,60}\(attempted to allocate *(?P<tried__MiB>[\d.]+) MB\)"),
    LogRow("lc_cpu_malloc", "bad_alloc", r"std::bad_alloc"),
    LogRow("lc_cpu_malloc", "bad allocation", r"error loading model: bad allocation"),
    LogRow("lc_cpu_malloc", "mmap failed", r"mmap failed: Cannot allocate memory"),
    LogRow("lc_alloc_weights", "alloc_tensor_range: failed", r"alloc_tensor_range: failed to allocate (?P<buffer>[\w.:\[\]-]+) buffer(?: of size (?P<tried__B>\d+))?", ends="here", shortage=True),
    LogRow("lc_alloc_compute", "ggml_gallocr_reserve_n",
           r"ggml_gallocr_reserve_n\w{0,12}: failed to allocate (?P<buffer>[\w.:\[\]-]+) buffer of size (?P<tried__B>\d+)", ends="here", shortage=True),
    LogRow("lc_late", "failed to allocate compute buffers", r"(?:kv_cache_update\w*|kv_self_update|memory_update): failed to allocate compute buffers", ends="runtime_request", shortage=True),
    LogRow("lc_late", "failed to allocate", r"process_ubatch: failed to allocate (?:compute )?graph|failed to allocate compute graph for K-shift"),
    LogRow("lc_late", "compute status: -2", r"failed to compute graph, compute status: -2"),
    LogRow("lc_late", "kIOGPUCommandBufferCallbackErrorOutOfMemory", r"Insufficient Memory \(\w+:kIOGPUCommandBufferCallbackErrorOutOfMemory"),
    LogRow("lc_no_compute", "failed to allocate compute", r"failed to allocate compute (?:pp |tg )?buffers?", ends="here", shortage=True),
    LogRow("lc_no_kv", "failed to allocate", r"failed to allocate (?:buffer for )?(?:KV|kv|rs) (?:cache|buffer)"),
    LogRow("lc_no_kv", "self-attention cache", r"failed for self-attention cache"),
    LogRow("lc_no_context", "failed to create context", r"failed to create context", ends="kv_alloc", shortage=True),
    LogRow("lc_no_weights", "unable to allocate", r"unable to allocate (?P<buffer>[\w ]{1,24}) buffer"),
    LogRow("cuda_error_oom", "ROCm error", r"ROCm error: out of memory", ends="here", shortage=True),
    LogRow("lc_cublas", "CUBLAS_STATUS_ALLOC_FAILED", r"CUBLAS_STATUS_ALLOC_FAILED", ends="here", shortage=True, by_people=True),
    LogRow("lc_cublas", "resource allocation failed", r"CUDA error: the resource allocation failed"),
    LogRow("lc_crash", " error: ", r"^(?:CUDA|ROCm|MUSA) error: (?P<what>(?!out of memory|the resource allocation failed|CUDA-capable)[a-z].{3,80})$", ends="here", by_people=True),
    LogRow("lc_guard", "Not enough resources to load", r"Not enough resources to load the model", ends="startup_free_memory", shortage=True),  # LM Studio's window
    # the same as people retell it, and without an estimate
    LogRow("lc_guard", "esources to ", r"(?i:\b(?:not enough|insufficient) (?:system )?r)esources to (?i:(?:load|run) (?:the |this |a )?model)"),
    LogRow("lc_guard", "uardrail", r"(?i:\bg)uardrail(?i:s?\b.{0,80}\b(?:refus|block|prevent|stop|turn(?:ed)? off|disabl|too (?:strict|low|high))\w{0,4})"),
    LogRow("lc_guard", "uardrail", r"(?i:\b(?:refus|block|prevent|stop|turn(?:ed)? off|disabl)\w{0,4}\b.{0,60}\bg)uardrail(?i:s?\b)"),
    LogRow("lc_guard", "insufficient system resources", r"stopped due to insufficient system resources",
           more=(r"requires approximately (?P<need__size>[\d.]+ [KMGT]B) of memory",)),  # LM Studio
    LogRow("lc_where", "current device:", r"current device: (?P<device__int>-?\d+), in function (?P<function>\w{1,80})"),
    LogRow("lc_no_output", "failed to allocate output buffer", r"failed to allocate output buffer of size (?P<tried__MiB>[\d.]+) MiB", ends="host_ram", shortage=True),
    LogRow("lc_load_failed", "error loading model", r"llama_model_load\w{0,20}: error loading model", ends="weights_load", shortage=True),
    LogRow("lc_kv_full", "failed to find a memory slot", r"failed to find a memory slot for batch of size (?P<batch__int>\d+)", shortage=True),
    LogRow("lc_kv_full", "failed to find free space in the KV cache", r"failed to find free space in the KV cache"),
    LogRow("lc_kv_full", "exceeds the available context size",
           r"request(?: \((?P<asked__int>\d{1,10}) tokens\))? exceeds the available context size(?: \((?P<room__int>\d{1,10}) tokens\))?"),
    LogRow("lc_kv_full", "Context size has been exceeded", r"Context size has been exceeded"),
    LogRow("lc_bad_flag", "error: invalid argument", r"error: invalid argument: (?P<flag>-\S{1,60})"),
    # who prints it says what is going on: its function stands before the first colon
    *(LogRow("lc_phase", name, rf"(?:^|[\s|])(?P<function>{name}\w{{0,40}}): ") for name in (
        "load_tensors", "llm_load_", "llama_model_load", "llama_load_model", "print_info", "create_tensor", "load_all_data",
        "done_getting_tensors", "llama_kv_cache", "llama_context", "llama_new_context", "llama_init_from_model",
        "sched_reserve", "graph_reserve", "llama_memory_", "clip_", "mtmd_", "alloc_compute_meta", "reserve_compute_meta",
        "mllama_model_load", "common_init_from_params", "llama_decode", "llama_encode", "process_ubatch", "llama_perf_", "common_perf_",
    )),
    # a debugger's and ggml_abort's frames: its own functions, without their classes
    *(LogRow("lc_phase", name, rf"^#?\d{{1,3}}:?\s{{1,4}}(?:0x[0-9a-f]{{1,16}} in )?(?:[\w./-]{{0,80}}\()?(?:\w{{1,40}}::){{0,3}}(?P<function>{name}\w{{0,40}})\b") for name in (
        "llama_decode", "llama_encode", "llama_model_load", "llama_load_model", "load_all_data", "load_tensors", "llama_new_context",
        "llama_init_from", "update_slots", "ggml_backend_sched_graph_compute", "graph_reserve", "mtmd_", "clip_",
    )),
    LogRow("lc_request", "INFO [", r"INFO \[\s{0,40}(?:update_slots|print_timings|launch_slot_\w{1,20}|log_server_request|process_single_task)\]", stage="runtime_request", up=True),  # 2024
    LogRow("lc_line", "srv ", r"^srv {1,20}\w{3,20}: "),
    LogRow("lc_phase", "ollama/runner/", r"ollama/runner/\w{1,20}\.\(\*\w{1,20}\)\.(?P<function>\w{1,40})"),  # Ollama's, of a goroutine
    LogRow("lc_phase", "srv ", r"^srv +(?P<function>update_slots|params_from_|log_server_r|operator\(\)|send_error): "),
    LogRow("lc_phase", "llama_decode returned", r"(?P<function>llama_decode) returned -?\d"),  # llama-cpp-python
    LogRow("lc_load_failed", "unable to load model: ", r"unable to load model: \S{0,200}blobs"),
    LogRow("lc_load_failed", "failed to load model", r"(?:common_init_\w{1,20}|load_model|llama_init\w{0,20}): (?:error: )?failed to load model"),
    LogRow("lc_load_failed", "Failed to load the model", r"^\W{0,6}Failed to load the model\s*$"),  # LM Studio's window
    LogRow("lc_load_failed", "Error loading model.", r"Error: Error loading model\."),
    *(LogRow("lc_load_failed", f"failed to load {part} model", rf"failed to load {part} model") for part in ("multimodal", "draft", "CLIP")),
    LogRow("lc_stopped", "The model has crashed", r"The model has crashed", ends="runtime_request"),  # LM Studio
    LogRow("lc_load_failed", "=multiplexedLoadModel", r"Endpoint=multiplexedLoadModel\].{0,40}[Ee]rror"),  # LM Studio
    LogRow("lc_load_failed", "exited before becoming healthy", r"runtime \S{1,40} .{0,60}exited before becoming healthy"),
    LogRow("lc_load_failed", "Failed to load LLM ", r"Failed to load LLM "),
    LogRow("lc_load_failed", "Failed to load the model: ", r"Failed to load the model: (?P<why>.{1,200})"),
    LogRow("lc_load_failed", "(Exit code", r"^\W{0,4}\(Exit code:? -?\d{1,20}\)"),
    LogRow("lc_load_failed", "load-error", r"Received load-error"),  # LM Studio
    LogRow("lc_load_failed", "Error loading model.", r"Error loading model\. \(Exit code"),  # LM Studio
    LogRow("lc_load_failed", "Failed to load model from file", r"Failed to load model from file"),  # llama-cpp-python
    LogRow("lc_no_context", "Failed to create llama_context", r"Failed to create llama_context"),
    LogRow("lc_no_context", "unable to create llama context", r"unable to create llama context"),
    # nothing but whose they are
    LogRow("lc_line", "llama_model_loader:", r"llama_model_loader: (?:loaded meta data|- kv|- type)"),
    LogRow("lc_line", "ggml_", r"ggml_(?:cuda|vulkan|metal|sycl|backend)\w{0,20}: "),
    LogRow("lc_line", "ggml-", r"\bggml-(?:cuda|hip|vulkan|metal|sycl|backend|cpu)[\w./-]{0,40}\.(?:cu|cpp|c|m|h|cuh):\d"),
    LogRow("lc_line", "ggml/src/", r"ggml/src/ggml"),
    LogRow("lc_line", "slot ", r"slot +(?:launch_slot_|update_slots|get_availabl\w*|print_timing|release|process_toke): "),
    LogRow("lc_experts", "print_info: n_expert", r"print_info: n_expert +(?:\(all\) *)?= (?P<count__int>\d{1,5})"),
    LogRow("lc_line", "print_info:", r"print_info: (?:file|arch|n_\w+|model) "),
    LogRow("lc_build", "build: ", r"^(?:main: )?build: \d{1,6} \([0-9a-f]{7,}\) with "),
    LogRow("lc_studio", "Studio", r"\[LMStudio\]|LM Studio"),
    *(LogRow("lc_studio", word, word) for word in ("lmstudio", "lm-studio")),
    LogRow("lc_studio", "lms ", r"(?<![\w/.-])lms (?:load|server|ps|ls|get|import|log|runtime) ?"),  # its command line
    LogRow("lc_line", "main: build = ", r"main: build = \d+ \([0-9a-f]{7,}\)"),
    LogRow("lc_slots", "n_slots", r"n_slots = (?P<slots__int>\d+)"),
    LogRow("lc_prompt_cache", "cache state", r"cache state: (?P<prompts__int>\d+) prompts, (?P<size__MiB>[\d.]+) MiB", stage="runtime_request", up=True),
    LogRow("lc_serving", "server is listening", r"server is listening on", stage="runtime_request", up=True),
    LogRow("lc_serving", "listening on", r"\bsrv +\w{3,40}: listening on (?:https?:|unix)"),  # b9830 and later
    LogRow("lc_request", "processing task", r"slot +launch_slot_: +id +\d+"),
    LogRow("lc_request", "generate: n_ctx", r"^generate: n_ctx = \d"),  # llama-cli's first step
    LogRow("lc_request", "new prompt, n_ctx_slot", r"new prompt, n_ctx_slot = (?P<n_ctx_slot__int>\d+)"),
    LogRow("lc_breakdown", "|   - ",
           r"\|   - (?P<buffer>\w{1,20}) ?(?:\([^|)]{0,60}\))? {0,40}\| {0,8}(?P<total__MiB>\d{1,9}) = (?P<free__MiB>\d{1,9}) \+ \( {0,8}(?P<own__MiB>\d{1,9}) = {0,8}"
           r"(?P<model__MiB>\d{1,9}) \+ {0,8}(?P<context__MiB>\d{1,9}) \+ {0,8}(?P<compute__MiB>\d{1,9})\) \+ {0,8}(?P<unaccounted__int>-?\d{1,20})"),
)  # fmt: skip
