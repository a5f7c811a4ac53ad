# ruff: noqa: E501 - a row is a line
"""TensorRT-LLM's log lines: the PyTorch backend's, and those of built engines that share its pools.

Units are the lines' own, and not always what they say: "GB for model weights" is divided by 1024^3, and so is every
other figure here, but for the free and total memory of "Both free_gpu_memory_fraction and max_tokens are set" between
1.1.0rc3 and 1.2.0rc2: those are quarters of a GiB (divided by 2^32) and carry no unit; later ones say GiB.
The line of the paged KV cache is printed twice, for the temporary pool and for the real one: the last one counts.
"""

from oomph.facts.loglines import LogRow

_BOTH = (
    r"Both free_gpu_memory_fraction and max_tokens are set \(to (?P<fraction__float>[\d.]+) and (?P<tokens__int>\d+)"
)
_STEPS = (
    r"[Mm]odel|[Ss]ampler|[Dd]rafter|KV cache|kv_cache|Initial KV [Cc]ache \(.{1,60}\)|Additional executor resources.{0,60}|"
    r"Model resources created during usage|Draft model for speculative decoding|draft_model|spec_resource_manager|"
    r"_no_capture_init_kv_cache|_no_capture_init_extra_resources|model_extra|executor_extra|guided_decoder"
)

ROWS = (
    LogRow("tr_version", "LLM version", r"TensorRT[- ]LLM version:? (?P<version>\d[\w.]*)"),
    LogRow("tr_weights", "after loading model weights", r"after loading model weights \(inside torch\).{0,40}?: (?P<weights__GiB>[\d.]+) GiB", stage="profile_run"),
    LogRow("tr_weights", "after loading weights", r"at after loading weights \(inside torch\).{0,40}?: (?P<weights__GiB>[\d.]+) GiB"),
    LogRow("tr_created", "for model weights", r"(?:Rank \d+ uses|Use) (?P<weights__GiB>[\d.]+) GB for model weights", stage="weights_load"),
    # printed before the model is created, when its parameters are there, and when its files are read
    LogRow("tr_features", "AttentionRuntimeFeatures(", r"AttentionRuntimeFeatures\(chunked_prefill=(?P<chunked>True|False)", stage="weights_load"),
    LogRow("tr_loaded", "Model init total", r"^Model init total -- (?P<seconds__float>[\d.]+)s", stage="profile_run"),
    LogRow("tr_engine", "Loaded engine size", r"Loaded engine size: (?P<weights__MiB>\d+) MiB", stage="weights_load"),  # printed before it is on the GPU
    LogRow("tr_context", "execution context memory", r"Allocated (?P<activation__MiB>[\d.]+) MiB for execution context memory", stage="kv_alloc"),
    LogRow("tr_context", "local TP group for rank", r"Detect(?:ing|ed) local TP group for rank"),  # behind the engine, before buffers
    LogRow("tr_context", "IExecutionContext creation", r"TensorRT-managed allocation in IExecutionContext creation"),
    LogRow("tr_buffers", "GPU memory for", r"Allocated (?P<buffers__size>[\d.]+ [GM]B) GPU memory for (?:runtime buffers|decoder)", stage="kv_alloc"),
    LogRow("tr_available", "calculating max tokens in paged", r"in paged kv cache: total: (?P<total__GiB>[\d.]+) GiB, available: (?P<available__GiB>[\d.]+) GiB", stage="kv_alloc"),
    LogRow("tr_non_torch", "after loading model weights", r"after loading model weights \(outside torch\).{0,40}?: (?P<non_torch__GiB>[\d.]+) GiB"),
    LogRow("tr_outside", "Memory used outside torch", r"Memory used outside torch.{0,80}: (?P<outside__GiB>[\d.]+) GiB"),
    LogRow("tr_activation", "dynamically allocated during inference", r"during inference \(inside torch\).{0,40}?: (?P<activation__GiB>[\d.]+) GiB", stage="kv_check"),
    LogRow("tr_budget", "Peak memory during memory usage profiling",
           r"\(torch \+ non-torch\): (?P<peak__GiB>[\d.]+) GiB, available KV cache memory when calculating max tokens: (?P<available__GiB>-?[\d.]+) GiB",
           more=(r"fraction is set (?P<fraction__float>[\d.]*\d)", r"kv size(?: per token)? is (?P<per_token__int>\d+)",
                 r"device total memory (?P<total__GiB>[\d.]+) GiB",
                 r"(?:temporary kv cache memory during profiling|tmp kv_mem) (?P<temporary__GiB>[\d.]+) GiB"), stage="kv_alloc"),
    LogRow("tr_budget", "KV cache:", r"Peak memory: (?P<peak__GiB>[\d.]+) GiB, KV cache: (?P<available__GiB>-?[\d.]+) GiB \(fraction=(?P<fraction__float>[\d.]+)\)"),  # a trimmed log's
    LogRow("tr_estimate", "Estimated max memory in KV cache", r"Estimated max memory in KV cache : (?P<kv__GiB>[\d.]+) GiB", stage="kv_alloc"),
    LogRow("tr_estimate", "Estimated max tokens in KV cache", r"Estimated max tokens in KV cache : (?P<tokens__int>\d+)"),
    # divided by 2^32 where no unit stands behind it
    LogRow("tr_both", "Both free_gpu_memory_fraction", _BOTH + r" with free memory (?P<free__GiB>[\d.]+) ?GiB of total memory (?P<total__GiB>[\d.]+) ?GiB"),
    LogRow("tr_both", "Both free_gpu_memory_fraction", _BOTH + r" with free memory (?P<free__4GiB>[\d.]+) of total memory (?P<total__4GiB>[\d.]+)"),
    LogRow("tr_both", "Both free_gpu_memory_fraction", _BOTH),
    LogRow("tr_kv", "max tokens in paged KV cache", r"Allocated (?P<kv__GiB>[\d.]+) GiB for max tokens in paged KV cache \((?P<tokens__int>\d+)\)"),
    LogRow("tr_kv", "Max tokens in paged KV cache", r"Max tokens in paged KV cache: (?P<tokens__int>\d+)\. Allocating (?P<kv__B>\d+) bytes"),
    LogRow("tr_kv", "bytes for k/v cache", r"Allocate (?P<kv__B>\d+) bytes for k/v cache"),
    LogRow("tr_kv", "tokens in paged KV cache", r"Using (?P<tokens__int>\d+) (?:total )?tokens in paged KV cache"),
    LogRow("tr_blocks", "Max KV cache blocks per sequence", r"Max KV cache blocks per sequence: \d+ \[window size=(?P<window__int>\d+)\]",
           more=(r"tokens per block=(?P<block__int>\d+)", r"primary blocks=(?P<blocks__int>\d+)", r"max sequence length=(?P<length__int>\d+)")),
    LogRow("tr_blocks", "in KV cache primary pool", r"Number of blocks in KV cache primary pool: (?P<blocks__int>\d+)"),
    LogRow("tr_limits", "max_num_requests=", r"max_seq_len=(?P<length__int>\d+), max_num_requests=(?P<requests__int>\d+), max_num_tokens=(?P<batch__int>\d+)"),
    LogRow("tr_window_cut", "exceeds upper bound", r"Attention window size (?P<window__int>\d+) exceeds upper bound (?P<bound__int>\d+)"),
    LogRow("tr_seq_cut", "Adjusted max_seq_len", r"Adjusted max_seq_len to (?P<length__int>\d+)"),
    LogRow("tr_seq_cut", "that can be allocated in kv cache manager", r"max_seq_len (?P<wanted__int>\d+) is greater than .{0,80}setting max_seq_len to (?P<length__int>\d+)"),
    LogRow("tr_seq_cut", "are too large for at least one sequence", r"to fit in kvCache.{0,20}reduced to (?P<length__int>\d+)"),
    LogRow("tr_no_sequence", "any sequence in", r"Impossi?ble? to fit (?:in )?any sequence in (?:the )?kvCache", ends="kv_check"),
    # trtGptModelInflightBatching.cpp (0.5 to 0.7): the same check of built engines
    LogRow("tr_no_sequence", "maxTokensInPagedKvCache must be", r"maxTokensInPagedKvCache must be large enough to process at least 1 sequence"),
    # the second KV cache manager: states of every slot before the first token; also as people retell it
    LogRow("tr_over_budget", "exceed", r"(?:states?|slots?|fixed cost).{0,200}\bexceed(?:s|ed|ing)? the (?:whole |entire )?KV (?:cache )?(?:budget|quota)", ends="kv_alloc"),
    LogRow("tr_contexts", "on gpu 0", r"\beach (?:rank|process|worker|trtllm)\b.{0,40}\ballocates? (?P<each__size>[\d.]+ ?[MG]i?B) on gpu 0"),
    LogRow("tr_contexts", "on GPU 0", r"\beach (?:rank|process|worker|trtllm)\b.{0,40}\ballocates? (?P<each__size>[\d.]+ ?[MG]i?B) on GPU 0"),
    LogRow("tr_cap", "Setting PyTorch memory fraction", r"Setting PyTorch memory fraction to (?P<share__float>[\d.]+) \((?P<cap__GiB>[\d.]+) GiB\)", stage="runtime_request", up=True),
    LogRow("tr_cap", "PyTorch memory fraction:", r"PyTorch memory fraction: (?P<share__float>[\d.]+) \((?P<cap__GiB>[\d.]+) GiB\)"),
    LogRow("tr_graphs", "CUDA graph warmup for batch size", r"Run generation[- ]only CUDA graph warmup for batch size=(?P<batch__int>\d+)"),
    LogRow("tr_graphs", "Creating CUDA graph instances", r"Creating CUDA graph instances for (?P<graphs__int>\d+) batch sizes"),
    LogRow("tr_no_graphs", "Skipping CUDA graph warmup", r"Skipping CUDA graph warmup.{0,200}not enough KV cache space"),
    LogRow("tr_pool_full", "No free slots", r"\bNo free slots\b", ends="here"),
    LogRow("tr_pool_full", "No free block", r"No free blocks? (?:found|left)"),
    LogRow("tr_too_long", "exceeds maximum input length", r"Prompt length \((?P<length__int>\d+)\) exceeds maximum input length \((?P<most__int>\d+)\)", stage="runtime_request"),
    LogRow("tr_too_long", "should not exceed max_num_tokens", r"sum of prompt length \((?P<length__int>[\d.]+)\).{0,60}should not exceed max_num_tokens \((?P<most__int>\d+)\)"),
    LogRow("tr_args", "KvCacheConfig(", r"kv_cache_config=KvCacheConfig\(.{0,400}?max_tokens=(?P<tokens__int>\d+)", more=(r"max_gpu_total_bytes=(?P<kv__B>\d+)",)),
    # _torch/pyexecutor/py_executor_creator.py, since 1.0: the message is several lines
    LogRow("tr_executor", "Executor creation failed", r"Executor creation failed due to insufficient GPU memory", shortage=True),
    LogRow("tr_executor", "Executor worker returned error", r"Executor worker returned error"),
    LogRow("tr_component", "component could not be created", r"The following component could not be created: (?P<component>.{1,80}?)\s*$", ends="here", shortage=True),
    LogRow("tr_component", "_RESOURCES allocation", r"(?P<component>(?:INIT_)?EXTRA_RESOURCES) allocation"),
    LogRow("tr_total", "Total GPU memory (GiB)", r"Total GPU memory \(GiB\): (?P<total__GiB>[\d.]+)"),
    LogRow("tr_free", "before component creation", r"Free GPU memory before component creation attempt \(GiB\): (?P<free__GiB>[\d.]+)"),
    LogRow("tr_step", " / ", rf"^(?P<component>{_STEPS}): (?P<before__GiB>[\d.]+) / (?P<after__GiB>[\d.]+)\s*$"),
    LogRow("tr_no_engine", "deserialize", r"deserialize\.cpp.{0,60}OutOfMemory", ends="weights_load", shortage=True),
    LogRow("tr_engine", "deserialize cuda engine", r"Failed to deserialize cuda engine"),  # of whatever it was
    # an engine that is read or built: virtualMemoryBuffer.cpp, globWriter.cpp
    LogRow("tr_no_engine", "OutOfMemory", r"\[TRT\] \[E\].{0,120}Error Code 2: OutOfMemory"),
    LogRow("tr_no_build", "scratch space", r"requires (?P<tried__B>\d+) bytes of scratch space, but only (?P<free__B>\d+) is available", ends="other", shortage=True),
    LogRow("tr_no_build", "Could not find any implementation for node", r"\[E\].{0,80}Could not find any implementation for node"),
    LogRow("tr_no_build", "Engine building failed", r"Engine building failed"),
    # only the builder tries tactics, reduces graphs and names its steps so
    LogRow("tr_building", "Skipping tactic", r"Skipping tactic", shortage=True),
    LogRow("tr_building", "[GraphReduction]", r"\[GraphReduction\]"),
    LogRow("tr_building", "Graph ", r"Graph (?:optimization|construction) (?:completed|time)"),
    LogRow("tr_building", " TensorRT engine", r"(?:Build|Building) TensorRT engine"),
    # its command, which people paste above whatever failed later
    LogRow("tr_built", "_plugin", r"--(?:use_)?(?:gpt_attention|gemm)_plugin\b"),
    LogRow("tr_built", "--use_inflight_batching", r"--use_inflight_batching"),
    LogRow("tr_built", "--remove_input_padding", r"--remove_input_padding"),
    LogRow("tr_built", "trtllm-build", r"(?:^|[\s`$/])trtllm-build(?=\s+(?:-|\\)|\W*$)"),  # not its name in a sentence
    LogRow("tr_built", "tensorrtllm_backend", r"\btensorrtllm_backend\b"),
    LogRow("tr_built", "modelInstanceState", r"creating modelInstanceState"),
    LogRow("tr_triton", "tritonserver", r"\btritonserver\b", by_people=True),
    LogRow("tr_triton", "launch_triton_server", r"launch_triton_server\.py"),
    LogRow("tr_triton", "engine", r"--?engine_dir\b|\.engine\b|\btrt_engines?\b"),
    *(LogRow("tr_triton", flag, rf"--?{flag}\b") for flag in ("gpt_model_path", "model_repo")),
    LogRow("tr_built", "SessionBenchmark", r"\bgptSessionBenchmark\b"),
    LogRow("tr_built", "TrtGpt", r"\bTrtGptModel\w{0,40}"),
    LogRow("tr_no_engine", "deserializePlugin", r"::deserializePlugin\("),  # a frame: the engine was being read
    LogRow("tr_late", "cublas handle", r"Failed to create cublas handle", ends="runtime_request"),
    # as people retell it: what the pool left was not enough for something behind it
    LogRow("tr_late", "of KV cache", r"GiB of KV cache.{0,160}\bleaving (?P<left__size>[\d.]+ [MG]iB) free.{0,200}\bOOM"),
    LogRow("tr_late", "batch_manager::", r"RuntimeBuffers::(?:reshape|prepareStep)|TrtGptModelInflightBatching::forward"),
    LogRow("tr_oom", "CUDA runtime error in", r"CUDA runtime error in (?:::)?(?:cudaMalloc|.{0,120}out of memory)",
           more=(r"/(?P<file>\w{2,40})\.(?:cpp|h|cu):\d",), ends="here", shortage=True),
    LogRow("tr_oom", "Cuda Runtime (out of memory)", r"Cuda Runtime \(out of memory\)"),
    LogRow("tr_oom", "could not be allocated", r"Requested amount of GPU memory \((?P<tried__B>\d+) bytes\) could not be allocated"),
    LogRow("tr_load_oom", "load_single_module", r"Error executing load_single_module.{0,4000}out of memory", ends="weights_load", shortage=True),
    LogRow("tr_oom", "[TensorRT-LLM][ERROR]", r"\[TensorRT-LLM\]\[ERROR\].{0,200}[Oo]ut of memory"),
    LogRow("exception", "Assertion failed", r"\[TensorRT-LLM\]\[ERROR\] (?P<type>Assertion failed): (?P<message>.{1,600})",
           more=(r"/cpp/tensorrt_llm/(?P<place>\w{1,40})/",)),
    # the executor's loop: a step that failed, a request that was refused
    LogRow("exception", "Encountered an error", r"(?P<type>Encountered an error) (?:in (?:forward\w{0,10}|decode|\w{1,40} step)(?: function)?|when fetching new request): (?P<message>.{1,300})"),
    LogRow("tr_forward", "Encountered an error", r"Encountered an error (?:in (?:forward\w{0,10}|\w{1,40} step) function|when fetching new request)", stage="runtime_request"),
    LogRow("exception", "CUDA runtime error in", r"\[TensorRT-LLM\]\[ERROR\] (?P<type>CUDA runtime error) in (?P<message>(?!.{0,200}out of memory).{1,300})"),
    LogRow("tr_line", "tensorrt_llm", r"\btensorrt_llm::(?P<function>[\w:~]{3,200})"),  # its C++ frames, innermost first
    LogRow("tr_line", "convert_checkpoint.py", r"convert_checkpoint\.py"),  # its examples'
    LogRow("tr_line", "tensorrt_llm", r"libtensorrt_llm|/tensorrt_llm/libs/"),
    LogRow("tr_line", "tensorrt_llm", r"\bimport tensorrt_llm\b|\btensorrt_llm\.\w"),
    LogRow("tr_line", "[TRT] [", r"\[TRT\] \[[EWIV]\]"),
    # Triton's log around it: the model's name is the user's, and nearly always the example's
    LogRow("tr_line", "tensorrt_llm", r"\b(?:loading|failed to load|successfully loaded|unloading:?|TRITONBACKEND_\w{1,40}): '?\w{0,40}tensorrt_llm"),
    LogRow("tr_line", "load", r"\bload(?:ing:|) '?(?:preprocessing|postprocessing|tensorrt_llm_bls)\b"),
    LogRow("tr_line", "tensorrtllm", r"(?:backends?/|libtriton_|backend ')tensorrtllm"),
    LogRow("tr_executor", "MPI_ABORT", r"MPI_ABORT was invoked on rank \d"),
    LogRow("tr_executor", "Failed to initialize executor", r"Failed to initialize executor on rank \d"),
    LogRow("tr_line", "RT-LLM", r"\[TRT-LLM\]|\[TensorRT-LLM\]|\[TRT-LLM AUTO-DEPLOY\]"),
)  # fmt: skip
