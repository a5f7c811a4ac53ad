# ruff: noqa: E501 - a row is a line
"""vLLM's log lines that say anything about memory, 0.3 to 0.32, as rows.

`since`/`until` were read from the releases' own sources (format strings under v1/ and worker/); they also bound the
release of a log that has no banner. Origin of each: the file that prints it, in the release named.
"""

from oomph.facts.loglines import LogRow

_INT = r"[\d,]+"
_NUM = r"-?[\d.]*\d"

START = (
    LogRow("version", "version", r"[█▄▀]\s+version (?P<version>v?\d[\w.+-]*)"),  # entrypoints/utils.py, since about 0.13
    LogRow("version", "version", r"vLLM (?:API server |engine )?version:? (?P<version>v?\d[\w.+-]*)"),
    *(LogRow("version", name, rf"^\W{{0,4}}{name}(?: Version|:|==| ) ?:? ?v?(?P<version>0\.\d{{1,4}}\.\d{{1,4}}[\w.+-]{{0,40}})\s{{0,4}}$") for name in ("vLLM", "vllm")),
    # beside the log: what was installed or pulled, and what the sentences around it say
    LogRow("version_beside", "vllm==", r"\bvllm==v?(?P<version>0\.\d{1,2}\.\d{1,2}[\w.+]{0,40})", by_people=True),
    LogRow("version_beside", "vllm ", r"^\W{0,6}vllm\s{2,60}(?P<version>0\.\d{1,2}\.\d{1,2}[\w.+]{0,40})\s*$"),  # pip list
    LogRow("version_beside", "vLLM Version", r"vLLM Version\s{0,40}: ?v?(?P<version>0\.\d{1,2}\.\d{1,2}[\w.+]{0,40})"),  # collect_env.py
    LogRow("version_beside", "vllm-openai", r"vllm-openai[\w-]{0,20}:v?(?P<version>0\.\d{1,2}\.\d{1,2}(?:rc\d+|\.post\d+)?)"),
    LogRow("version_beside", "vllm-", r"\bvllm-v?(?P<version>0\.\d{1,2}\.\d{1,2}(?:rc\d+|\.post\d+)?)(?=[.+/-])"),  # a wheel, a folder
    LogRow("version_said", "vLLM", r"\bvLLM(?: [Vv]ersion)?:? v?(?P<version>0\.\d{1,2}\.\d{1,2}(?:rc\d+|\.post\d+)?)\b", by_people=True),
    LogRow("version_said", "vllm", r"(?<![\w/.-])vllm(?: [Vv]ersion)?[:=]? ?v?(?P<version>0\.\d{1,2}\.\d{1,2}(?:rc\d+|\.post\d+)?)(?![\w.]\d)"),
    LogRow("version_said", "vLLM", r"\bv(?P<version>0\.\d{1,2}\.\d{1,2}(?:rc\d+|\.post\d+)?)`? (?:of )?vLLM\b"),
    LogRow("engine_config", "LLM engine (v",
           r"(?:Initializing an?|input data for) (?:(?P<generation>V\d) )?LLM engine \(v(?P<version>[^)]{1,60})\)(?: with config:? (?P<config>.*))?", shortage=True),
    LogRow("engine_config", "LLM engine with config", r"Initializing an LLM engine with config: (?P<config>.*)", until="0.4.0"),
    LogRow("args", "non-default args", r"non-default args: (?P<args>\{.*)", since="0.8.5", shortage=True),
    LogRow("args", "args: Namespace(", r"args: Namespace\((?P<namespace>.*)"),
    LogRow("architecture", "Resolved architecture", r"Resolved architecture: (?P<architecture>\w+)"),
    LogRow("max_model_len", "max model len", r"Using max model len (?P<max_model_len__int>\d+)", since="0.8.5"),
    LogRow("chunked_prefill", "max_num_batched_tokens",
           r"Chunked prefill is enabled with max_num_batched_tokens[ =](?P<max_num_batched_tokens__int>\d+)"),
    LogRow("chunked_off", "Chunked prefill", r"Chunked prefill is (?:disabled|not supported)"),
    LogRow("chunked_off", "enable_chunked_prefill=False", r"enable_chunked_prefill=False"),
    LogRow("kv_dtype", "data type to store kv cache", r"Using (?P<kv_cache_dtype>\w+) data type to store kv cache"),
    LogRow("nvfp4", "ModelOpt", r"Detected ModelOpt (?P<format>NVFP4|fp8|FP8|\w+) checkpoint"),
    LogRow("cast", "Casting torch.float32", r"Casting torch\.float32 to (?P<dtype>torch\.\w+)"),
    LogRow("pin_memory_off", "pin_memory=False", r"Using 'pin_memory=False' as WSL is detected"),
    LogRow("uva_off", "UVA is not available", r"UVA is not available"),
    LogRow("world", "backend=", r"world_size=(?P<world__int>\d+) rank=(?P<rank__int>\d+).*backend=\w+", stage="startup_free_memory"),
    LogRow("nccl", "nccl==", r"vLLM is using nccl==(?P<nccl>[\d.]+)", stage="startup_free_memory"),
    LogRow("no_p2p", "Custom allreduce", r"Custom allreduce is disabled because your platform lacks GPU P2P"),
    LogRow("graph_addresses", "cuda graph addresses", r"Registering (?P<count__int>\d+) cuda graph addresses"),
    LogRow("capability", "Device capability", r"Device capability (?P<capability>\d+\.\d)"),
    LogRow("free_short", "Free memory on device",  # v1/worker/utils.py request_memory (0.21.0); device named since 0.14
           r"Free memory on device (?:(?P<device>[a-z]+:\d+) )?\((?P<free__GiB>[\d.]+)/(?P<total__GiB>[\d.]+) GiB\)"
           r"(?: on startup)? is less than desired GPU memory utilization \((?P<util__float>[\d.]+), (?P<requested__GiB>[\d.]+) GiB\)", ends="startup_free_memory", shortage=True),
    LogRow("free_short", "Free memory on device",  # a daemon holds the weights: worker/utils.py:741 (0.32.0)
           r"Free memory on device (?P<device>[a-z]+:\d+) \((?P<free__GiB>[\d.]+)/(?P<total__GiB>[\d.]+) GiB\) on startup is less than the engine's budget"
           r" .{0,60}\((?P<util__float>[\d.]+), (?P<requested__GiB>[\d.]+) GiB\)"),
    LogRow("free_short", "Free memory on device", r"Free memory on device (?:.{0,40}on startup )?is less than (?:desired|the engine's budget)"),
    LogRow("free_short", "Free memory on device", r"Free memory on device (?:[a-z]+:\d+ )?\((?P<free__GiB>[\d.]+)/(?P<total__GiB>[\d.]+) GiB\)\W{0,4}$"),  # a title, cut
    LogRow("requested", "Requested memory",  # gpu_worker.py:451 (0.21.0), DEBUG
           r"Initial free memory: (?P<free__GiB>[\d.]+) GiB; Requested memory: (?P<util__float>[\d.]+) \(util\), (?P<requested__GiB>[\d.]+) GiB", stage="profile_run"),
    LogRow("external_weights", "Externally held weights", r"Externally held weights on device (?P<device>[a-z]+:\d+) \((?P<held__GiB>[\d.]+)/(?P<total__GiB>[\d.]+) GiB\) exceed the desired GPU memory utilization \((?P<util__float>[\d.]+), (?P<requested__GiB>[\d.]+) GiB\)", ends="startup_free_memory", shortage=True),
)  # fmt: skip

WEIGHTS = (
    LogRow("load_begin", "Starting to load model", r"Starting to load model (?P<model>\S+?)(?:\.\.\.|…|\s|$)", stage="weights_load"),
    LogRow("load_files", "checkpoint shards", r"Loading (?:safetensors|pt) checkpoint shards", stage="weights_load", by_people=True),
    LogRow("load_files", "loading shards", r"[Mm]ulti-thread loading shards"),
    LogRow("checkpoint_size", "Checkpoint size", r"Checkpoint size: (?P<size__GiB>[\d.]+) GiB", stage="weights_load"),
    LogRow("load_files_done", "Loading weights took", r"Loading weights took (?P<seconds__float>[\d.]+) seconds", stage="weights_load"),
    LogRow("draft_load", "Loading drafter model", r"Loading drafter model", stage="weights_load"),
    LogRow("draft_shares", "Sharing target model",
           r"Detected (?P<method>\w+) model\. Sharing target model (?P<what>\w+) weights", stage="weights_load"),
    LogRow("weights", "oading model weights took", r"Loading model weights took (?P<weights__GiB>[\d.]+) GB", stage="profile_run"),  # V0: GiB in truth
    LogRow("weights", "Model loading took", r"Model loading took:? (?P<weights__GiB>\d+\.\d{4}) Gi?B and", until="0.11.1"),
    LogRow("weights", "Model loading took", r"Model loading took:? (?P<weights__GiB>[\d.]+) GiB memory", since="0.11.1"),
    LogRow("weights", "Model loading took", r"Model loading took:? (?P<weights__GiB>[\d.]+)(?: Gi?B)?\b"),
    LogRow("load_oom", "Failed to load model", r"Failed to load model - not enough GPU memory", since="0.13.0", ends="weights_load", shortage=True),
    LogRow("load_oom", "Failed to create unquantized", r"Failed to create unquantized linear weights: CUDA out of memory", since="0.11.0", until="0.11.1"),
    LogRow("offloaded", "Total CPU offloaded", r"Total CPU offloaded parameters: (?P<offloaded__GiB>[\d.]+)"),
    LogRow("heads_divide", "must be divisible by tensor parallel size",
           r"(?:[Nn]umber of|num) (?:attention|key/value|kv)[ _]heads\W{1,4}(?P<heads__int>\d+)\)? must be divisible by tensor parallel size \((?P<tp__int>\d+)\)", ends="other"),
    LogRow("shape_divide", "is not divisible by", r"Weight (?P<what>\w+_size_per_partition) ?=? ?(?P<size__int>\d+).{0,40}is not divisible by", ends="other"),
    LogRow("shape_divide", "is not divisible by", r"\b(?P<size__int>\d{1,9}) is not divisible by (?P<by__int>\d+)"),
)  # fmt: skip

PROFILE = (
    LogRow("encoder_budget", "Encoder cache will be",
           r"Encoder cache will be initialized with a budget of (?P<budget__int>[\d,]+) tokens,? and profiled with "
           r"(?P<items__int>\d+) (?P<modality>\w+) items", stage="profile_run"),
    LogRow("mm_worst_case", "is too short to hold the multi-modal",
           r"max_num_batched_tokens / max_num_seqs = (?P<seq__int>\d+)\) is too short to hold the multi-modal embeddings "
           r"in the worst case \((?P<tokens__int>\d+) tokens", until="0.10.0", stage="profile_run"),
    LogRow("mm_profile", "profile run for multi-modal", r"Starting profile run for multi-modal models", stage="profile_run"),
    LogRow("dynamo", "Dynamo bytecode", r"Dynamo bytecode transform time: (?P<seconds__float>[\d.]+) s", stage="profile_run"),
    LogRow("compiled_cold", "Compiling a graph for", r"Compiling a graph for .{1,60} takes? (?P<seconds__float>[\d.]+) s", stage="profile_run"),  # backends.py
    LogRow("compiled", "torch.compile took", r"torch\.compile took (?P<seconds__float>[\d.]+) s in total", stage="profile_run"),
    LogRow("compiled", "torch.compile takes", r"torch\.compile takes (?P<seconds__float>[\d.]+) s in total"),
    LogRow("warmup_run", "profiling/warmup run", r"Initial profiling/warmup run took (?P<seconds__float>[\d.]+) s", stage="profile_run"),
    LogRow("gdn_warmup", "GDN prefill kernel", r"GDN prefill kernel warmup", stage="profile_run"),
    LogRow("sampler_oom", "warming up sampler",
           r"CUDA out of memory occurred when warming up sampler with (?P<requests__int>\d+) dummy requests(?:\.|\s*$)", ends="here", shortage=True),
    LogRow("pooler_oom", "warming up pooler",
           r"CUDA out of memory occurred when warming up pooler \((?:task=)?(?P<task>[^)]{1,40})\) with (?P<requests__int>\d+) dummy requests", ends="profile_run", shortage=True),
    LogRow("graph_profile", "Profiling CUDA graph memory", r"Profiling CUDA graph memory: (?P<what>.+)", since="0.18.0", stage="cudagraph_profile"),
    LogRow("graph_estimate", "Estimated CUDA graph memory",
           rf"Estimated CUDA graph memory: (?P<estimate__GiB>{_NUM}) GiB", since="0.18.0", stage="kv_check"),
    LogRow("memory_profile", "Total non KV cache memory",  # utils/mem_utils.py MemoryProfilingResult, DEBUG
           r"Total non KV cache memory: (?P<non_kv__GiB>[\d.]+)GiB; torch peak memory increase: (?P<activation__GiB>[\d.]+)GiB; "
           r"(?:non-torch forward increase memory: (?P<non_torch__GiB>-?[\d.]+)|total consumed \(from mem_get_info\): (?P<consumed__GiB>[\d.]+))GiB"
           r"(?:; weights memory: (?P<weights__GiB>[\d.]+)GiB)?", stage="kv_check"),
    LogRow("v0_budget", "x gpu_memory_utilization",
           r"total_gpu_memory \((?P<total__GiB>[\d.]+)GiB\) x gpu_memory_utilization \((?P<util__float>[\d.]+)\) = (?P<requested__GiB>[\d.]+)GiB",
           until="0.11.0", stage="kv_check"),
    LogRow("v0_terms", "non_torch_memory takes",
           r"non_torch_memory takes (?P<non_torch__GiB>-?[\d.]+)GiB; PyTorch activation peak memory takes (?P<activation__GiB>[\d.]+)GiB; "
           r"the rest of the memory reserved for KV Cache is (?P<available__GiB>-?[\d.]+)GiB", until="0.11.0",
           more=(r"model weights take (?P<weights__GiB>[\d.]+)GiB",), stage="kv_check"),
    LogRow("v0_results", "Memory profiling results",  # worker.py (0.6.4)
           r"Memory profiling results: total_gpu_memory=(?P<total__GiB>[\d.]+)GiB", until="0.7.0",
           more=(r"initial_memory_usage=(?P<initial__GiB>[\d.]+)GiB", r"peak_torch_memory=(?P<torch_peak__GiB>[\d.]+)GiB",
                 r"non_torch_memory=(?P<non_torch__GiB>-?[\d.]+)GiB", r"kv_cache_size=(?P<available__GiB>-?[\d.]+)GiB",
                 r"gpu_memory_utilization=(?P<util__float>[\d.]+)"), stage="kv_check"),
    LogRow("v0_results", "total_gpu_memory ", r"^total_gpu_memory\s+(?P<total__GiB>[\d.]+)GiB"),
    LogRow("v0_results", "max_inference_spike", r"^max_inference_spike\s+(?P<activation__GiB>[\d.]+)GiB"),
    LogRow("v0_results", "kv_cache_size ", r"^kv_cache_size\s+(?P<available__GiB>-?[\d.]+)GiB"),
    LogRow("v0_results", "total_gpu_memory: ", r"total_gpu_memory: (?P<total__GiB>[\d.]+)GiB"),
    LogRow("freed_while_profiling", "Error in memory profiling",
           r"Error in memory profiling\. Initial free memory (?P<initial__float>[\d.]+)(?: GiB)?, current free memory (?P<current__float>[\d.]+)", ends="profile_run"),
    LogRow("freed_while_profiling", "Error in memory profiling", r"AssertionError: Error in memory profiling"),
    LogRow("manual_kv", "kv_cache_memory_bytes config",  # gpu_worker.py:367 (0.21.0)
           r"Initial free memory (?P<free__GiB>[\d.]+) GiB, reserved (?P<kv__GiB>[\d.]+) ?GiB memory for KV Cache", since="0.10.2", stage="kv_check"),
)  # fmt: skip

KV = (
    LogRow("available_kv", "Available KV cache memory", rf"Available KV cache memory:? (?P<available__GiB>{_NUM}) GiB", stage="kv_check"),
    LogRow("available_kv", "Available memory: ", r"Available memory: (?P<available__B>-?\d{1,15}), total memory: \d"),  # vllm-ascend
    LogRow("graph_util", "without CUDA graph memory profiling",
           r"--gpu-memory-utilization=(?P<util__float>[\d.]*\d) is equivalent to --gpu-memory-utilization=(?P<effective__float>[\d.]*\d) without",
           since="0.18.0", more=(r"increase --gpu-memory-utilization to (?P<raised__float>[\d.]*\d)",), stage="kv_check"),
    LogRow("graph_estimate_off", "CUDA graph memory profiling is disabled",
           r"CUDA graph memory profiling is disabled.{0,300}?from (?P<util__float>[\d.]*\d) to (?P<raised__float>[\d.]*\d)", since="0.20.0", stage="kv_check"),
    LogRow("graph_estimate_off", "In v0.19, CUDA graph",
           r"In v0\.19, CUDA graph memory profiling will be enabled by default.{0,300}?from (?P<util__float>[\d.]*\d) to (?P<raised__float>[\d.]*\d)",
           since="0.18.0", until="0.20.0"),
    LogRow("kv_none", "No available memory for the cache blocks", r"No available memory for the cache blocks", ends="kv_check", shortage=True),
    LogRow("kv_need", "max seq len",  # kv_cache_utils.py:715 (0.21.0); "models's" until 0.22; 0.8.2 writes GB and means GiB
           rf"To serve at least one request with the (?:model's|models's) max seq len \((?P<max_model_len__int>\d+)\), \(?(?P<need__GiB>{_NUM}) Gi?B "
           rf"KV cache is needed, which is larger than the available KV cache memory \((?P<available__GiB>{_NUM}) Gi?B\)",
           more=(r"estimated maximum model length is (?P<estimate__int>\d+)",), ends="kv_check", shortage=True),
    LogRow("kv_need", "KV cache is needed",  # retold without its beginning
           rf"(?<![\d.])(?P<need__GiB>\d{{1,5}}(?:\.\d{{1,4}})?) Gi?B KV cache is needed,\W{{1,4}}which\W{{1,4}}is larger than the available KV cache memory "
           rf"\((?P<available__GiB>{_NUM}) Gi?B\)"),
    LogRow("kv_need", "KV cache is needed, available",
           rf"(?P<need__GiB>{_NUM}) Gi?B KV cache is needed, available (?P<available__GiB>{_NUM}) Gi?B"),  # retold
    LogRow("kv_need_part", "available KV cache memory (", rf"available KV cache memory \((?P<available__GiB>{_NUM}) Gi?B\)", ends="kv_check", shortage=True),
    LogRow("mm_reserve", "frontend multimodal GPU decoding reserves",  # gpu_worker.py (0.26), multimodal/gpu_ipc_memory.py (0.32)
           r"frontend multimodal GPU decoding reserves (?P<reserved__GiB>[\d.]+) GiB", more=(r"but only (?P<available__GiB>-?[\d.]+) GiB is available",), ends="kv_check", shortage=True),
    LogRow("host_pool", "HiSparse pinned host pool needs", r"HiSparse pinned host pool needs ~(?P<need__GiB>[\d.]+) GiB but only (?P<free__GiB>[\d.]+) GiB of RAM", ends="host_ram", shortage=True),
    LogRow("host_pool", "HiSparse host pool has", r"HiSparse host pool has \d+ blocks but max_model_len needs \d+"),
    LogRow("cpu_short", "Available memory on node",  # v1/worker/cpu_worker.py (0.32)
           r"Available memory on node \d+ \((?P<free__GiB>[\d.]+)/(?P<total__GiB>[\d.]+) GiB\) on (?:startup|kv cache allocation) is less than",
           more=(r"(?:[\d.]+, |/|kv \()(?P<need__GiB>[\d.]+) GiB\)\.",), ends="host_ram", shortage=True),
    LogRow("kv_len_part", "max seq len (", r"max seq len \((?P<max_model_len__int>\d+)\)"),
    LogRow("kv_need_v0", "max seq len (",
           r"max seq len \((?P<max_model_len__int>\d+)\) is larger than the maximum number of\s+tokens that can be stored in KV cache "
           r"\((?P<tokens__int>\d+)\)", until="0.11.0", ends="kv_check", shortage=True),
    LogRow("auto_fit", "Auto-fit max_model_len", r"Auto-fit max_model_len: reduced from (?P<before__int>\d+) to (?P<after__int>\d+)", since="0.14.0"),
    LogRow("auto_fit_none", "Cannot auto-fit max_model_len", r"Cannot auto-fit max_model_len", since="0.14.0", ends="kv_check", shortage=True),
    LogRow("mamba_blocks", "exceeds available Mamba cache blocks",
           r"max_num_seqs \((?P<seqs__int>\d+)\) exceeds available Mamba cache blocks \((?P<blocks__int>\d+)\)", since="0.20.0", ends="kv_check", shortage=True),
    LogRow("mamba_blocks", "exceeds available Mamba cache blocks",
           r"exceeds available Mamba cache blocks \((?P<blocks__int>\d+)\)", since="0.20.0"),
    LogRow("blocks_override", "Overriding num_gpu_blocks",
           r"Overriding num_gpu_blocks=(?P<before__int>\d+) with num_gpu_blocks_override=(?P<blocks__int>\d+)"),
    LogRow("capture_capped", "Capping cudagraph capture sizes",
           r"Capping cudagraph capture sizes from max (?P<before__int>\d+) to (?P<after__int>\d+) to fit Mamba cache blocks \((?P<blocks__int>\d+)",
           since="0.18.0", until="0.20.0", stage="cudagraph_capture"),
    LogRow("padding_layers", "padding layers",
           r"Add (?P<layers__int>\d+) padding layers, may waste at most (?P<percent__float>[\d.]+)%"),
    LogRow("attention_block", "attention block size", r"Setting attention block size to (?P<block_size__int>\d+) tokens"),
    LogRow("page_padding", "mamba page size by", r"Padding mamba page size by (?P<percent__float>[\d.]+)%"),
    LogRow("hybrid_off", "Hybrid KV cache manager is disabled", r"Hybrid KV cache manager is disabled for this hybrid model"),
    LogRow("e5m2_refused", "fp8_e5m2 kv-cache", r"ValueError: fp8_e5m2 kv-cache is not supported with fp8 checkpoints", ends="other"),
    LogRow("e5m2_mentioned", "fp8_e5m2 kv-cache", r"fp8_e5m2 kv-cache is not supported with fp8 checkpoints"),
    LogRow("kv_tokens", "KV cache size", rf"KV cache size:? (?P<tokens__int>{_INT}) tokens", stage="kv_alloc"),
    LogRow("concurrency", "Maximum concurrency",
           rf"Maximum concurrency for (?P<max_model_len__int>{_INT}) tokens per request: (?P<concurrency__float>[\d.]+)x", stage="kv_alloc"),
    LogRow("v0_blocks", "blocks:", r"# (?:GPU|cuda|CUDA|TPU|HPU|NPU|XPU|rocm) blocks: (?P<blocks__int>\d+)", until="0.11.0", stage="kv_alloc"),
    LogRow("kv_connector", "KV", r"Creating v1 connector with name: (?P<connector>\w+)"),
    LogRow("kv_connector", "onnector", r"(?P<connector>LMCacheConnector\w*|OffloadingConnector|NixlConnector|MooncakeConnector)"),
)  # fmt: skip

CAPTURE = (
    LogRow("capture_begin", "Capturing", r"Capturing (?:CUDA graphs?|cudagraphs|the model for CUDA graphs|CUDA graph shapes)", stage="cudagraph_capture"),
    LogRow("capture_begin", "CUDA graphs can take additional", r"CUDA graphs can take additional 1~3 GiB memory per GPU", until="0.11.0"),
    LogRow("graphs", "Graph capturing finished", r"Graph capturing finished in (?P<seconds__float>[\d.]*\d) secs?, took (?P<graphs__GiB>-?[\d.]+) GiB", stage="sampler_warmup"),
    LogRow("graph_pool", "CUDA graph pool memory",
           r"CUDA graph pool memory: (?P<actual__GiB>-?[\d.]+) GiB \(actual\), (?P<estimate__GiB>-?[\d.]+) GiB \(estimated\)", since="0.18.0", stage="sampler_warmup"),
    LogRow("autotune", "utotun", r"flashinfer.{0,20}\[Autotuner\]|Autotuning process starts", stage="cudagraph_capture"),
    LogRow("kernel_warmup", "DeepGEMM", r"DeepGEMM warmup|Warming up DeepGEMM", stage="cudagraph_capture"),
    LogRow("ledger", "Free memory on device",  # gpu_worker.py:664 (0.21.0): DEBUG 0.11 to 0.26, INFO 0.10.2 and since 0.27
           r"Free memory on device \((?P<free__GiB>[\d.]+)/(?P<total__GiB>[\d.]+) GiB\) on startup\.", since="0.10.2",
           more=(r"Desired GPU memory utilization is \((?P<util__float>[\d.]+), (?P<requested__GiB>[\d.]+) GiB\)",
                 r"(?P<weights__GiB>[\d.]+) GiB for weight,",
                 r"(?P<consumed__GiB>[\d.]+) GiB for consumed memory",
                 r"(?P<activation__GiB>-?[\d.]+) GiB for peak activation",
                 r"(?P<non_torch__GiB>-?[\d.]+) GiB for non-torch",
                 r"(?P<graphs__GiB>-?[\d.]+) GiB for CUDAGraph",
                 r"--kv-cache-memory=(?P<suggest__B>\d+)",
                 r"Current kv cache memory in use is (?P<available__GiB>[\d.]+) GiB",
                 r"Current kv cache memory in use is (?P<available__B>\d+) bytes"), stage="sampler_warmup"),
    LogRow("engine_ready", "init engine (profile", r"init engine \(profile, create kv cache, warmup model\) took (?P<seconds__float>[\d.]+)", stage="runtime_request", up=True),
    LogRow("serving", "startup complete", r"Application startup complete", stage="runtime_request", up=True),
    LogRow("serving", "Route: /", r"Route: /\S{0,80}, (?:Methods|Endpoint): "),  # entrypoints/launcher.py: the engine is up
    LogRow("serving", "Starting vLLM API server", r"Starting vLLM API server"),
)  # fmt: skip

RUN_TIME = (
    LogRow("stats", "KV cache usage",
           r"Running: (?P<running__int>\d+) reqs,.{0,40}?Waiting: (?P<waiting__int>\d+) reqs,"
           r"(?:.{0,40}?Preemptions: (?P<preemptions__int>\d+),)?.{0,60}?KV cache usage: (?P<usage__float>[\d.]+)%",
           more=(r"Avg prompt throughput: (?P<prompt__float>[\d.]+)", r"Avg generation throughput: (?P<generation__float>[\d.]+)",
                 r"Prefix cache hit rate: (?P<hits__float>[\d.]+)"), stage="runtime_request", up=True),
    LogRow("stats", "Swapped:",  # engine/metrics.py
           r"Running: (?P<running__int>\d+) reqs, Swapped: \d+ reqs, Pending: (?P<waiting__int>\d+) reqs, "
           r"GPU KV cache usage: (?P<usage__float>[\d.]+)%", until="0.11.0"),
    LogRow("dumped_step", "Dumping input data", r"Dumping input data for V1 LLM engine", stage="runtime_request", up=True),
    LogRow("dumped_step", "Dumping scheduler output", r"Dumping scheduler output for model execution"),  # dump_input.py: a step failed
    LogRow("preempted", "is preempted by", r"is preempted by (?:PreemptionMode\.)?(?P<mode>\w+) mode because there is"),
    LogRow("decode_item", "Multimodal GPU decode requested",  # multimodal/gpu_ipc_memory.py (0.26)
           r"Multimodal GPU decode requested (?P<need__B>\d{1,15}) bytes, which exceeds the total pool size of (?P<pool__B>\d{1,15}) bytes", ends="runtime_request", shortage=True),
    LogRow("encoder_item", "pre-allocated encoder cache size", r"exceeds the pre-allocated encoder cache size (?P<tokens__int>\d+)", ends="runtime_request", shortage=True),
    LogRow("slept", "Sleep mode freed", r"Sleep mode freed (?P<freed__GiB>[\d.]+) GiB memory, (?P<kept__GiB>[\d.]+) GiB memory is still in use", stage="runtime_request", up=True),
    LogRow("cumem_oom", "cumem_allocator", r"CUDA Error: out of memory at .{0,120}cumem_allocator\.cpp", ends="runtime_request", shortage=True),
    LogRow("cumem_oom", "wake_up", r"Call to wake_up method failed: .{0,20}CUDA Error: out of memory"),  # v1/engine/core.py
    LogRow("woken", "wake up the engine with", r"wake up the engine with tags"),  # entrypoints/serve/sleep/api_router.py
    LogRow("woken", "wake_up method failed", r"(?:Call to|Invocation of) wake_up method failed"),
    LogRow("woken", "/wake_up", r"(?<!Route: )/wake_up\b", by_people=True),  # the request itself, which people name as well
    LogRow("sleep_twice", "Sleep mode can only be used", r"Sleep mode can only be used for one instance per process", ends="startup_free_memory"),
    LogRow("swap_exhausted", "CPU swap space", r"Aborted due to the lack of CPU swap space", until="0.11.0", ends="runtime_request", shortage=True),
    LogRow("swap_flag", "swap", r"unrecognized arguments:.{0,200}--swap-space|The 'swap_space' parameter is deprecated", since="0.18.0", ends="other"),
    LogRow("bad_flag", "unrecognized arguments", r"unrecognized arguments: (?P<flags>.{1,200})", by_people=True),
    LogRow("broadcast_wait", "shared memory broadcast block", r"No available shared memory broadcast block found in (?P<seconds__int>\d+)", shortage=True),
    LogRow("kv_alloc_failed", "KVCache allocation failed", r"KVCache allocation failed: Insufficient GPU memory", ends="kv_alloc", shortage=True),  # vllm.rs
    LogRow("workspace_locked", "Workspace is locked", r"Workspace is locked but allocation from .{0,120} requires (?P<need__float>[\d.]+) MB", ends="runtime_request", shortage=True),
    # never the cause: a parent that reports its child's death
    LogRow("secondary", "ngine core initialization failed", r"[Ee]ngine core initialization failed"),
    LogRow("engine_dead", "output_handler failed", r"AsyncLLM output_handler failed"),  # v1/engine/async_llm.py: its task over answers
    LogRow("engine_dead", "EngineDeadError", r"EngineDeadError"),  # v1/engine/core.py: an engine that had started
    LogRow("engine_dead", "EngineCore encountered", r"EngineCore encountered (?:an issue|a fatal error)"),
    LogRow("secondary", "died unexpectedly", r"(?P<who>Worker|Engine core) proc \S{1,40} died unexpectedly"),
    LogRow("engine_dead", "Engine loop", r"Engine loop (?:has died|is not running)"),  # V0: engine/multiprocessing/client.py
    LogRow("engine_dead", "is already dead", r"\w{1,20}Engine is already dead, terminating server process"),  # launcher.py
    LogRow("engine_dead", "EngineDeadError", r"(?:Async|MQ)EngineDeadError"),
    LogRow("engine_dead", "Background loop", r"Background loop (?:has errored already|is stopped|is not running)"),
    LogRow("engine_dead", "Engine process (pid", r"Engine process \(pid \d"),  # V0's client: its heartbeat stopped
    LogRow("secondary", "in signal_handler", r"multiproc_executor\.py\", line \d{1,5}, in signal_handler"),  # told to stop
    LogRow("secondary", "fatal signal from worker", r"[Gg]ot fatal signal from worker processes"),
    LogRow("secondary", "WorkerProc initialization failed", r"WorkerProc initialization failed"),
    LogRow("engine_failed", "failed to start", r"(?:EngineCore|WorkerProc) failed to start"),
    LogRow("engine_failed", "WorkerProc hit an exception", r"WorkerProc hit an exception"),
    LogRow("engine_failed", "Error executing method", r"Error executing method '?(?P<method>\w+)'?"),
    LogRow("engine_failed", "Exception in worker", r"Exception in worker \w+ while processing method (?P<method>\w+)"),
    LogRow("prompt_logprobs", "loglikelihood", r"\bloglikelihood", by_people=True),  # lm_eval asks for those of the prompt
    LogRow("prompt_logprobs", "logprob", r"_get_prompt_logprobs_dict|prompt_logprobs?\b(?!\s?[=:]\s?None)"),
)  # fmt: skip

ROWS = START + WEIGHTS + PROFILE + KV + CAPTURE + RUN_TIME
