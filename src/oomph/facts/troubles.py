# ruff: noqa: E501 - a row is a line
"""Lines that end a run and are not about GPU memory: the words of Python, PyTorch, CUDA, NCCL, Ray, the hub and the
operating system, the same for every engine. What each means and the way out of it is in doctor/reading/not_memory.py.

A kind begins with `x_`. Each row needs words that a run prints when it dies of it: a warning that a package is missing
or a request that was refused stands in healthy logs too, and doctor/reading/stages.py lets a server that was up afterwards
overrule all of them.
"""

import re

from oomph.facts.loglines import LogRow

ROWS = (
    LogRow("x_port", "ddress already in use", r"[Aa]ddress already in use", ends="other"),
    LogRow("x_port", "is already in use", r"[Pp]ort:? \d{1,5} is already in use"),
    LogRow("x_port", "Only one usage of each socket", r"Only one usage of each socket address"),  # Windows
    LogRow("x_network", "could not connect to ollama", r"could not connect to (?:a running )?[Oo]llama", ends="other"),
    LogRow("x_port", "couldn't bind", r"couldn't bind (?:to server socket|HTTP server socket)"),  # llama.cpp
    LogRow("x_gated", "gated repo", r"(?:[Cc]annot access|is a|trying to access a) gated repo", ends="other"),
    LogRow("x_gated", "GatedRepoError", r"GatedRepoError"),
    LogRow("x_gated", "Client Error", r"40[13] Client Error"),
    LogRow("x_gated", "is restricted", r"Access to model \S{1,200} is restricted"),
    LogRow("x_gated", "Invalid credentials", r"Invalid credentials in Authorization header"),
    LogRow("x_gated", "Invalid username", r"Invalid username or password"),
    LogRow("x_no_model", "RepositoryNotFoundError", r"RepositoryNotFoundError", ends="other"),
    LogRow("x_no_model", "is not a valid model identifier", r"is not a local folder and is not a valid model identifier"),
    LogRow("x_no_model", "Repo id must", r"Repo id must (?:be in the form|use alphanumeric)"),
    LogRow("x_no_model", "HFValidationError", r"HFValidationError"),
    LogRow("x_no_model", "config.json", r"(?:does not appear to have a file named|[Nn]o such file or directory:? .{0,300}?|[Cc]an't find|[Cc]ould not find|Unable to load) ?['\"]?\S{0,300}config\.json"),
    LogRow("x_no_model", "Invalid repository ID or local directory", r"Invalid repository ID or local directory"),  # config.py
    LogRow("x_no_model", "Can't load the configuration of", r"Can't load the configuration of"),
    LogRow("x_no_model", "No supported config format found", r"No supported config format found in"),
    LogRow("x_no_model", "Cannot find any model weights", r"Cannot find any model weights with"),
    LogRow("x_no_model", "failed to open GGUF file", r"failed to open GGUF file"),
    LogRow("x_no_model", "gguf_init_from_file", r"gguf_init_from_file: failed to open"),
    LogRow("x_no_model", "file does not exist", r"pull model manifest: file does not exist"),  # Ollama
    LogRow("x_no_model", "not found, try pulling it first", r"model .{1,120} not found, try pulling it first"),
    LogRow("x_network", "Max retries exceeded", r"(?:ConnectionError|MaxRetryError|ConnectTimeout|SSLError|ProxyError).{0,200}Max retries exceeded|Max retries exceeded with url: \S{0,200}"),
    LogRow("x_network", "ouldn't connect to", r"[Cc]ouldn't connect to '?https://huggingface\.co"),
    LogRow("x_network", "LocalEntryNotFoundError", r"LocalEntryNotFoundError"),
    LogRow("x_network", " Error", r"\b(?:429 Client|5\d\d Server) Error.{0,200}"),
    LogRow("x_network", "HfHubHTTPError", r"HfHubHTTPError(?!.{0,20}40[134])"),
    LogRow("x_network", "OfflineModeIsEnabled", r"OfflineModeIsEnabled"),
    LogRow("x_network", "dial tcp", r"^(?!.{0,300}probe failed).{0,600}dial tcp\b.{0,120}(?:no such host|i/o timeout|connection refused|unreachable|connection reset)"),  # Go
    LogRow("x_network", "name resolution", r"[Tt]emporary failure in name resolution"),
    LogRow("x_broken_file", "SafetensorError", r"SafetensorError: (?P<what>.{1,200})", ends="weights_load"),
    LogRow("x_broken_file", "Consistency check failed", r"Consistency check failed: file should be of size"),
    LogRow("x_broken_file", "failed to read magic", r"failed to read magic"),
    LogRow("x_broken_file", "invalid magic", r"gguf_init_from_file\w{0,10}: invalid magic"),
    LogRow("x_broken_file", "invalid magic", r"gguf_init_from_\w{1,20}: invalid magic characters"),
    LogRow("x_broken_file", "file bounds", r"tensor '?\S{1,120}'? (?:data is not within the file bounds|is not within file bounds)"),
    LogRow("x_broken_file", "unexpectedly reached end of file", r"unexpectedly reached end of file"),
    LogRow("x_driver", "driver on your system is too old", r"NVIDIA driver on your system is too old(?: \(found version (?P<found>\d{4,6})\))?", ends="other"),
    LogRow("x_fabric", "system not yet initialized", r"(?:CUDA error|Error 802|cuda\w{0,20})[^.]{0,40}system not yet initialized", ends="other"),
    LogRow("x_fabric", "nvidia-fabricmanager", r"nvidia-fabricmanager.{0,60}(?:not running|fail|inactive|mismatch)"),
    LogRow("x_fabric", "fabric state", r"fabric state.{0,60}(?:not completed|failure|in progress)"),
    LogRow("x_driver", "driver version is insufficient", r"CUDA driver version is insufficient for CUDA runtime version"),
    LogRow("x_driver", "unsupported toolchain", r"PTX was compiled with an unsupported toolchain"),
    LogRow("x_driver", "forward compatibility", r"forward compatibility was attempted on non supported HW"),
    LogRow("x_driver", "unsatisfied condition: cuda", r"unsatisfied condition: cuda ?>= ?(?P<needs>[\d.]{1,8})"),  # nvidia-container-cli
    LogRow("x_driver", "version mismatch", r"Driver/library version mismatch"),
    LogRow("x_driver", "unsupported display driver", r"system has unsupported display driver / cuda driver combination"),
    LogRow("x_no_gpu", "No CUDA GPUs are available", r"No CUDA GPUs are available", ends="other"),
    LogRow("x_no_gpu", "for 0 devices", r"is out of bounds for 0 devices"),  # v1/worker/gpu_worker.py
    LogRow("x_no_gpu", "no CUDA-capable device", r"no CUDA-capable device is detected"),
    LogRow("x_no_gpu", "Found no NVIDIA driver", r"Found no NVIDIA driver on your system"),
    LogRow("x_no_gpu", "Failed to infer device type", r"Failed to infer device type"),
    LogRow("x_no_gpu", "libcuda.so", r"libcuda\.so(?:\.1)?: cannot open shared object file"),
    LogRow("x_no_gpu", "could not select device driver", r"could not select device driver .{0,40}capabilities: \[\[gpu\]\]"),
    LogRow("x_no_gpu", "cudaGetDeviceCount", r"Unexpected error from cudaGetDeviceCount"),
    LogRow("x_no_gpu", "No HIP GPUs", r"No HIP GPUs are available"),
    LogRow("x_no_gpu", "invalid device ordinal", r"invalid device ordinal"),
    LogRow("x_no_gpu", "not compiled with CUDA enabled", r"Torch not compiled with CUDA enabled"),
    LogRow("x_no_gpu", "nvml error", r"nvml error: (?:driver not loaded|unknown error|insufficient permissions)"),
    LogRow("x_dtype_card", "is only supported on GPUs with compute capability",
           r"(?P<dtype>[Bb]float16|bf16|FP8|fp8) is only supported on GPUs with compute capability of at least (?P<needs>\d+\.\d)",
           more=(r"Your (?P<card>.{2,60}?) GPU has compute capability (?P<has>\d+\.\d)",), ends="other"),
    LogRow("x_dtype_card", "Minimum capability", r"not supported for the current GPU\. Minimum capability: (?P<needs>\d+)\.? ?(?:Current capability: (?P<has>\d+))?"),
    LogRow("x_dtype_card", "does not support", r"(?:GPU|device) does not support (?P<dtype>bfloat16|bf16|FP8|fp8|FP4|NVFP4)\b"),
    LogRow("x_dtype_card", "torch._scaled_mm", r"torch\._scaled_mm is only supported on CUDA devices with compute capability"),
    LogRow("x_dtype_card", "80", r"(?:requires?|supports?|at least) sm_?80\b"),
    LogRow("x_dtype_card", "Ampere GPU", r"(?:requires?|supports?|at least) Ampere GPUs? or newer"),
    LogRow("x_dtype_card", "only supports Ampere GPUs or newer", r"FlashAttention only supports Ampere GPUs or newer"),
    LogRow("x_no_kernel", "no kernel image is available", r"no kernel image is available for execution on the device", ends="here"),
    LogRow("x_no_kernel", "cudaErrorNoKernelImageForDevice", r"cudaErrorNoKernelImageForDevice"),
    LogRow("x_no_kernel", "device kernel image is invalid", r"device kernel image is invalid"),
    LogRow("x_no_kernel", "cutlass", r"Error Internal.{0,200}cutlass|cutlass.{0,80}(?:not implemented|Error Internal)"),
    LogRow("x_no_kernel", "kernel", r"\b[Nn]o (?:available|suitable|supported|matching|valid) (?:\w{1,20} ){0,3}kernels?\b"),
    LogRow("x_no_kernel", "No compiled", r"No compiled \w{1,40} kernel"),
    LogRow("x_no_kernel", "TensileLibrary", r"Cannot read \S{0,200}TensileLibrary"),  # rocBLAS
    LogRow("x_no_kernel", "initialize Tensile host", r"Could not initialize Tensile host"),
    LogRow("x_no_kernel", "hipErrorInvalidDeviceFunction", r"hipErrorInvalidDeviceFunction"),
    LogRow("x_no_kernel", "nvalid device function", r"[Ii]nvalid device function"),
    LogRow("x_no_kernel", "ptxas fatal", r"ptxas fatal"),
    LogRow("x_no_kernel", "PTXASError", r"PTXASError"),
    LogRow("x_no_kernel", "gpu-name", r"Value 'sm_\w{2,6}' is not defined for option 'gpu-name'"),
    LogRow("x_hardware", "uncorrectable", r"uncorrectable (?:ECC|NVLink) error", ends="here"),
    LogRow("x_hardware", "fallen off the bus", r"GPU has fallen off the bus"),
    LogRow("x_hardware", "row remap", r"[Rr]ow remapp(?:ing|er)\b.{0,40}(?:[Ff]ail|[Pp]ending)"),
    LogRow("x_hardware", "NVRM: Xid", r"NVRM: Xid \(.{1,60}?\): (?P<what>48|62|63|64|74|79|9[45]|119|120)\b"),
    LogRow("x_bad_address", "illegal memory access", r"\ban illegal memory access\b", ends="here"),
    LogRow("x_bad_address", "thread: [", r"block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion"),  # of a kernel
    LogRow("x_bad_address", "device-side assert", r"device-side assert triggered"),
    LogRow("x_bad_address", "misaligned address", r"CUDA error: misaligned address"),
    LogRow("x_bad_address", "unspecified launch failure", r"unspecified launch failure"),
    LogRow("x_bad_address", "illegal instruction", r"CUDA error: an illegal instruction was encountered"),
    LogRow("x_bad_address", "CUBLAS_STATUS_", r"CUBLAS_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|INVALID_VALUE|NOT_SUPPORTED)"),
    LogRow("x_bad_address", "Memory access fault by GPU", r"Memory access fault by GPU node"),  # ROCm
    LogRow("x_bad_address", "page fault", r"\[(?:gfxhub|mmhub)\d{0,2}\] (?:no-retry )?page fault"),  # amdgpu, in the kernel's log
    LogRow("x_bad_address", "Memory critical error by agent", r"Memory critical error by agent node"),  # ROCm's runtime
    LogRow("x_bad_address", "HSA_STATUS_ERROR", r"HSA_STATUS_ERROR(?!_OUT_OF)\w{0,60}"),
    LogRow("x_bad_address", "NVRM: Xid", r"NVRM: Xid \(.{1,60}?\): (?P<what>\d{1,3})\b"),
    LogRow("x_bad_address", "VM_L2_PROTECTION_FAULT", r"VM_L2_PROTECTION_FAULT"),
    LogRow("x_bad_address", "PERMISSION_FAULTS", r"PERMISSION_FAULTS: 0x[1-9]"),
    LogRow("x_nccl", "Watchdog caught collective", r"Watchdog caught collective operation timeout", more=(r"OpType=(?P<operation>\w{1,30})", r"Timeout\(ms\)=(?P<timeout__int>\d{1,9})", r"SeqNum=(?P<sequence__int>\d{1,12})")),
    LogRow("x_nccl", "detected by watchdog", r"(?:failure|error or timeout\)) detected by watchdog at work(?: sequence id)?:? ?(?P<sequence__int>\d{0,12})"),
    LogRow("x_nccl", "watchdog thread terminated", r"watchdog thread terminated with exception: (?!CUDA error)"),
    LogRow("x_nccl", "NCCL error", r"NCCL error(?:[:：]| in:|,? (?=\S{1,200}\.(?:cpp|cc|cu|py):\d)) ?(?P<what>.{0,160})"),
    *(LogRow("x_nccl", word, word) for word in ("ncclSystemError", "ncclInternalError", "ncclRemoteError", "ncclUnhandledCudaError")),
    LogRow("x_nccl", "DistBackendError", r"DistBackendError"),
    *(LogRow("x_nccl", word, word) for word in ("DistStoreError", "DistNetworkError")),
    LogRow("x_nccl", "Timed out after", r"Timed out after \d{1,6} seconds waiting for clients"),
    # a title about several GPUs that wait for each other
    *(LogRow("x_nccl", word, rf"^# (?=.{{0,200}}\b(?:[Tt][Pp](?:_size)?|tensor[- ]parallel\w{{0,4}}|[Mm]ulti[- ]?(?:gpu|GPU|node)|nodes|\d ?GPUs|NCCL|nccl|all_?reduce)\b).{{0,200}}\b{word}")
      for word in ("hang", "hung", "stuck", "deadlock", "Hang", "Deadlock")),
    LogRow("x_nccl", "NCCL", r"\bNCCL\b(?i:.{0,30}watch ?dog.{0,20}time ?out)"),
    LogRow("x_nccl", "peer access is not supported", r"peer access is not supported between these two devices"),
    LogRow("x_nccl", "RPC server crashed", r"[Rr]emote RPC server crashed"),  # ggml-rpc.cpp
    LogRow("x_nccl", "connectFullMesh failed", r"Gloo connectFullMesh failed"),
    LogRow("x_ray", "placement group", r"[Cc]annot provide a placement group|placement group .{0,80}(?:[Tt]ime ?out|infeasible|cannot be)", ends="other"),
    LogRow("x_ray", "No available node types", r"No available node types can fulfill"),
    LogRow("x_ray_wait", "placement group", r"[Ww]aiting for .{0,40}placement group", ends="other"),
    LogRow("x_ray", "exceeds available GPUs", r"[Tt]ensor parallel size \(\d{1,5}\) exceeds available GPUs"),
    LogRow("x_ray", "number of required", r"number of required \w{0,6}GPUs exceeds the total number of available"),
    LogRow("x_ray", "larger than the number of available GPUs", r"[Ww]orld size \(\d{1,5}\) is larger than the number of available GPUs"),
    LogRow("x_ray", "has no GPU available", r"[Cc]urrent node has no GPU available"),
    LogRow("x_ray", "Ray does not allocate any GPUs", r"Ray does not allocate any GPUs on the driver node"),
    LogRow("x_ray", "not equal to tensor", r"world_size .{0,40}is not equal to tensor.parallel"),
    LogRow("x_slow_start", "Timed out waiting for engine", r"Timed out waiting for engine core processes|Timed out waiting for engine", ends="here"),
    LogRow("x_slow_start", "did not become ready", r"(?:server|engine|endpoint) did not become ready (?:in|within)"),
    LogRow("x_slow_start", "timed out waiting for llama", r"timed out waiting for (?:llama runner|llama-server) to start"),
    LogRow("x_slow_start", "Health check failed", r"Health check failed\. Server couldn't get a response"),  # SGLang
    LogRow("x_slow_start", "didn't finish loading", r"could finish the model loading, but there are other ranks that didn't finish loading"),  # SGLang
    LogRow("x_slow_start", " probe failed", r"(?:Startup|Liveness) probe failed"),
    LogRow("x_slow_start", "atchdog timeout", r"[Ww]atchdog timeout"),
    LogRow("x_slow_start", "RPC call", r"RPC call to (?P<method>\w{1,40}) timed out|TimeoutError: RPC call(?! to)"),
    LogRow("x_disk", "o space left on device", r"^(?!.{0,600}(?:/dev/shm|\bshm\b)).{0,600}[Nn]o space left on device", ends="here"),
    LogRow("x_disk", "[Errno 28]", r"\[Errno 28\](?!.{0,120}/dev/shm)"),
    LogRow("x_disk", "Not enough free disk space", r"Not enough free disk space"),
    LogRow("x_disk", "Disk quota exceeded", r"Disk quota exceeded"),
    LogRow("x_disk", "ephemeral", r"(?:low on resource|exceeds the total limit).{0,40}ephemeral-storage|ephemeral local storage usage exceeds"),
    LogRow("x_architecture", "are not supported", r"Model architectures \[(?P<what>.{1,120}?)\] are not supported", ends="other"),
    LogRow("x_architecture", "failed to be inspected", r"Model architectures \[(?P<what>.{1,120}?)\] failed to be inspected"),
    LogRow("x_architecture", "does not recognize this architecture", r"model type [`'\"]?(?P<what>[\w.-]{1,60}).{0,40}does not recognize this architecture"),
    LogRow("x_architecture", "does not recognize this architecture", r"Transformers does not recognize this architecture"),  # folded
    LogRow("x_architecture", "unknown model architecture", r"unknown model architecture: '(?P<what>[^']{1,60})'"),  # llama.cpp
    LogRow("x_architecture", "nsupported ", r"[Uu]nsupported (?:model )?architecture:? \"?(?P<what>[\w.-]{1,60})"),
    LogRow("x_architecture", "has no vLLM implementation", r"(?P<what>\w{1,60}) has no vLLM implementation"),
    LogRow("x_architecture", "unsupported decoder rope type", r"unsupported decoder rope type"),
    LogRow("x_architecture", "nknown projector type", r"[Uu]nknown projector type(?P<what>: ?\S{1,40})?"),
    LogRow("x_architecture", "unknown pre-tokenizer type", r"unknown pre-tokenizer type: '(?P<what>[^']{1,60})'"),
    LogRow("x_architecture", "not supported by your version", r"model (?:.{0,60} )?(?:is )?not supported by your version"),  # Ollama
    LogRow("x_architecture", "requires a newer version", r"(?:[Ee]rror|manifest|attempting to pull|checkpoint|architecture)\b.{0,160}requires a newer version of (?:Ollama|Transformers|transformers)"),
    LogRow("x_mismatch", "There is no module or parameter named", r"There is no module or parameter named '?(?P<what>[\w.]{1,120})", ends="weights_load"),
    LogRow("x_mismatch", "KeyError: ", r"KeyError: '(?P<what>(?:model\.)?layers?\.[\w.]{1,120}|(?:[a-z]\w{0,40}\.){2}[\w.]{1,120}|[\w.]{1,80}\.(?:weight|qweight|scales|bias)\w{0,20}|[\w.]{1,60}_scale\w{0,20})'"),
    LogRow("x_mismatch", "hape mismatch", r"[Ss]hape mismatch for (?:the )?(?:weights?|param|tensor|[\w.]{1,120})"),
    LogRow("x_mismatch", "size mismatch", r"size mismatch for [\w.]{1,120}"),
    LogRow("x_mismatch", "Attempted to load weight", r"Attempted to load weight \(.{1,60}\) into parameter"),
    LogRow("x_mismatch", "loaded_weight", r"^\s{0,12}assert .{0,120}\bloaded_weight"),  # the line of code under an AssertionError
    LogRow("x_mismatch", "weights were not initialized", r"[Ff]ollowing weights were not initialized from checkpoint"),
    LogRow("x_mismatch", "Can't load tokenizer", r"Can't load tokenizer for"),
    LogRow("x_mismatch", "Tokenizer", r"AttributeError: '?\w{0,40}Tokenizer\w{0,10}'?.{0,20} has no attribute"),
    LogRow("x_mismatch", "Tried to load weights of size", r"Tried to load weights of size .{1,60}to a parameter of size"),
    LogRow("x_mismatch", "Tokenizer class", r"Tokenizer class \w{1,80} does not exist or is not currently imported"),
    LogRow("x_mismatch", "rope_scaling", r"rope_scaling.{0,60}(?:must (?:be|have)|should have|is missing)"),
    LogRow("x_mismatch", "Quantization method specified", r"Quantization method specified in the model config .{1,60} does not match"),
    LogRow("x_mismatch", "Cannot find the config file for", r"Cannot find the config file for (?P<what>\w{1,30})"),
    LogRow("x_mismatch", "Unknown quantization method", r"Unknown quantization method:? ?(?P<what>[\w-]{0,40})"),
    # TensorRT: an engine of another release, of another card, or built without what its server needs
    LogRow("x_mismatch", "engine plan file is", r"engine plan file is (?:not compatible|generated on an incompatible device)"),
    LogRow("x_mismatch", "built with a different", r"engine (?:was|is) (?:built|generated|serialized) (?:with|on) a(?: different|n incompatible) \w{1,20}"),
    LogRow("x_mismatch", "Serialization assertion", r"Serialization assertion \S{1,60} failed"),
    LogRow("x_mismatch", " requires GPT attention plugin", r"requires GPT attention plugin with packed input"),
    # create_tensor and check_tensor_dims of llama-model-loader.cpp; the loaders of 2023 say "in model file"
    LogRow("x_mismatch", "tensor '", r"\btensor '(?P<what>[^']{0,120})' (?:not found|has wrong size|in model file)"),
    LogRow("x_mismatch", "wrong number of tensors", r"wrong number of tensors"),
    LogRow("x_mismatch", "check_tensor_dims", r"check_tensor_dims: tensor '(?P<what>[^']{1,120})'"),
    LogRow("x_mismatch", "missing tensor", r"missing tensor '(?P<what>[^']{1,120})'"),
    LogRow("x_mismatch", "chat template", r"(?:does not (?:have|define)|no) (?:a )?chat template|default chat template is no longer allowed"),
    LogRow("x_too_long", "derived max_model_len",
           r"User-specified max_model_len \((?P<asked__int>\d+)\) is greater than the derived max_model_len \((?:\w{1,60}=)?(?P<most__int>\d+)", ends="other"),
    LogRow("x_too_long", "context length (", r"context length \((?P<asked__int>\d+)\) is (?:greater|longer) than the (?:model's|derived) context length \((?P<most__int>\d+)\)"),
    LogRow("x_too_long", "is greater than the derived context_length", r"context_length \((?P<asked__int>\d+)\) is greater than the derived context_length \((?P<most__int>\d+)\)"),
    LogRow("x_setting", "validation error", r"validation errors? for (?P<what>[\w\[\]]{1,60})", ends="other"),
    LogRow("x_setting", "unrecognized arguments", r"error: unrecognized arguments: (?P<what>-\S{1,60})"),
    LogRow("x_setting", "invalid argument", r"error: invalid argument: (?P<what>-\S{1,60})"),  # llama.cpp
    LogRow("x_setting", "error while handling argument", r"error while handling argument \"(?P<what>-\S{1,60})\""),  # llama.cpp
    LogRow("x_setting", "No such option", r"Error: No such option:? (?P<what>-\S{1,60})"),  # click
    LogRow("x_setting", "invalid choice", r"error: argument .{1,120}invalid choice"),
    LogRow("x_setting", "the following arguments are required", r"error: the following arguments are required"),
    LogRow("x_setting", "V cache quantization requires", r"V cache quantization requires (?P<what>flash_attn)"),  # llama.cpp
    LogRow("x_setting", "requires flash_attn to be enabled", r"requires (?P<what>flash_attn) to be enabled"),
    LogRow("x_setting", "nsupported cache type", r"[Uu]nsupported cache type:? ?(?P<what>\S{1,40})"),
    LogRow("x_setting", "context type MTP requested", r"context type (?P<what>MTP) requested"),
    LogRow("x_setting", "crossKvCacheFraction", r"(?P<what>crossKvCacheFraction) (?:for|must|should|is not)"),  # TensorRT-LLM
    LogRow("x_setting", "max_num_batched_tokens (", r"max_num_batched_tokens \(\d+\) (?:is smaller than max_model_len|must be greater than or equal to)"),
    LogRow("x_setting", "than max_", r"is (?:greater|larger|more|less|smaller) than (?P<what>max_[a-z_]{3,40}) \(?\d"),
    LogRow("x_setting", "is not a valid", r"is not a valid \w{1,40} for .{1,80}"),
    LogRow("x_import", "ModuleNotFoundError", r"ModuleNotFoundError: No module named '?(?P<what>[\w.]{1,80})", ends="other"),
    LogRow("x_import", "undefined symbol", r"undefined symbol:? (?P<what>\w{1,120})"),
    LogRow("x_import", "Symbol not found", r"Symbol not found: \(?(?P<what>[\w$]{1,120})"),  # macOS
    LogRow("x_import", "cannot import name", r"ImportError: cannot import name '?(?P<what>\w{1,80})"),
    LogRow("x_import", "cannot open shared object file", r"(?:ImportError|OSError): (?P<what>lib[\w.+-]{1,80}): cannot open shared object file"),
    LogRow("x_import", "ImportError: ", r"^(?:\S{1,60} )?ImportError: (?P<what>.{1,80})"),
    LogRow("x_import", "cannot open shared object file", r"[Ff]ailed to import .{0,80}cannot open shared object file"),
    LogRow("x_import", "error while loading shared libraries", r"error while loading shared libraries: (?P<what>[\w.+-]{1,80})"),
    LogRow("x_import", "does not exist", r"RuntimeError: operator (?P<what>\w{1,40}::\w{1,40}) does not exist"),  # torchvision of another torch
    LogRow("x_import", "has no attribute", r"AttributeError: (?:partially initialized )?module '(?P<what>[\w.]{1,80})' has no attribute"),
    LogRow("x_import", "DLL load failed", r"ImportError: DLL load failed"),
    LogRow("x_import", "GLIBC", r"version `GLIBC\w{0,4}_[\d.]{1,10}' not found"),
    LogRow("x_compiler", "Failed to find C compiler", r"Failed to find C compiler", ends="here"),
    LogRow("x_compiler", "nvcc", r"(?:Could not find|cannot find|No such file or directory:?) .{0,80}\bnvcc\b|nvcc fatal|nvcc: (?:not found|No such file)"),
    LogRow("x_compiler", "CUDA_HOME environment variable is not set", r"CUDA_HOME environment variable is not set"),
    LogRow("x_compiler", "Python.h", r"Python\.h: No such file or directory"),
    *(LogRow("x_compiler", word, word) for word in ("Ninja build failed", "ninja: build stopped")),
    LogRow("x_compiler", "torch._dynamo.exc", r"torch\._dynamo\.exc\.(?P<what>\w{1,60})"),
    LogRow("x_compiler", "torch._inductor.exc", r"torch\._inductor\.exc\.(?P<what>\w{1,60})"),
    *(LogRow("x_compiler", word, word) for word in ("BackendCompilerFailed", "InductorError", "backend='inductor' raised")),
    LogRow("x_kernel_shared", "out of resource: shared memory", r"out of resource: shared memory, Required: (?P<need__int>\d+), Hardware limit: (?P<most__int>\d+)", ends="here", shortage=True),
    LogRow("x_kernel_shared", "required shared memory", r"required shared memory (?P<need__float>[\d.]+) > available shared memory (?P<most__float>[\d.]+)"),
    LogRow("x_kernel_shared", "out of resource", r"out of resources?: shared memory"),
    LogRow("x_capture", "operation not permitted when stream is capturing", r"operation not permitted when stream is capturing", ends="cudagraph_capture"),
    LogRow("x_capture", "during CUDA graph capture", r"[Cc]annot .{1,120}during CUDA graph capture"),
    LogRow("x_capture", "cudaErrorStreamCapture", r"cudaErrorStreamCapture\w{1,40}"),
    LogRow("x_capture", "operation failed due to a previous error during capture", r"operation failed due to a previous error during capture"),
    LogRow("x_crash", "egmentation fault", r"[Ss]egmentation fault", ends="here"),
    LogRow("x_crash", "Segfault encountered", r"^!{3,20} Segfault encountered !{3,20}"),  # PyTorch's handler
    LogRow("x_crash", "SIGSEGV", r"(?<!due to )\bSIGSEGV\b"),
    *(LogRow("x_crash", status, rf"(?:exit(?:ed)?(?: with)?(?: code| status)?|exitcode|died, exit code)\W{{0,3}}{status}\b") for status in ("139", "-11", "134", "-6")),
    LogRow("x_crash", "Signal: ", r"\bSignal: (?P<what>Aborted|Segmentation fault|Floating point exception|Illegal instruction) \(\d"),  # Open MPI's
    LogRow("x_crash", "Process received signal", r"\*\*\* Process received signal \*\*\*"),  # OpenMPI
    LogRow("x_crash", "core dumped", r"\(core dumped\)"),
    LogRow("x_crash", "Fatal Python error", r"Fatal Python error: (?P<what>.{1,80})"),
    LogRow("x_crash", "terminate called", r"terminate called (?:after throwing an instance of|without an active exception)"),
    LogRow("x_crash", "failed assertion", r"failed assertion [`'\"](?P<what>[^`'\"]{1,160})"),  # Metal
    LogRow("x_crash", "GGML_ASSERT", r"GGML_ASSERT\((?P<what>.{1,120}?)\) failed"),
    LogRow("x_crash", "GGML_ASSERT", r"GGML_ASSERT\W{1,3}[\w/\\.:-]{1,200}:\d{1,6}\W{1,3}(?P<what>.{1,80})"),  # 2023
    # ggml_abort's message, behind the place in llama.cpp's sources
    *(LogRow("x_crash", f"{ext}:", rf"^(?:[\w.:/\\~-]{{0,200}}[/\\])?(?:llama|ggml|clip|common|server|mtmd|sampling|unicode)[\w-]{{0,40}}{re.escape(ext)}:\d{{1,6}}: (?P<what>(?!(?:CUDA|ROCm|MUSA|SYCL) error|GGML_ASSERT)[A-Za-z].{{3,160}})$")
      for ext in (".cpp", ".cu", ".m", ".c", ".cuh")),
    LogRow("x_crash", "SYCL error", r"^SYCL error: |: SYCL error\s*$"),
    LogRow("x_crash", "UR_RESULT_ERROR_", r"UR_RESULT_ERROR_(?!OUT_OF)(?P<what>\w{1,40})"),
    LogRow("x_crash", "Native API failed", r"Native API failed"),
    LogRow("x_crash", "DeviceLost", r"\b(?P<what>(?:vk::)?\w{0,10}DeviceLost\w{0,10})"),
    LogRow("x_crash", "command buffer", r"command buffer \d{1,6} failed with status \d"),  # Metal
    LogRow("x_crash", "panic: ", r"^panic: (?!.{0,200}(?:insufficient memory|enough memory|out of memory|allocate))(?P<what>.{1,160})"),  # Go
    LogRow("x_crash", "0xc00000", r"exit (?:status|code) 0xc00000(?P<what>05|1d|fd|94)\b"),  # Windows: access, instruction, stack
    LogRow("x_import", "unable to find backend library", r"unable to find backend library for backend '(?P<what>[\w-]{1,40})'"),  # Triton
    LogRow("x_import", "0xc0000135", r"exit (?:status|code) (?P<what>0xc0000135)\b"),  # Windows: a DLL is not there
    LogRow("x_crash", "signal arrived during cgo execution", r"signal arrived during cgo execution"),
    LogRow("x_fork", "re-initialize CUDA in forked", r"Cannot re-initialize CUDA in forked subprocess", ends="other"),
    LogRow("x_fork", "finished its bootstrapping phase", r"before the\s{0,20}(?:current process has )?finished its bootstrapping phase|finished its bootstrapping phase"),
    LogRow("x_permission", "Permission denied", r"(?:PermissionError|Errno 13).{0,120}Permission denied|Permission denied: '(?P<what>[^']{1,200})'", ends="other"),
    LogRow("x_permission", "Read-only file system", r"Read-only file system"),
    LogRow("x_trust", "trust_remote_code", r"(?:requires you to execute|contains custom code which must be executed|[Pp]lease (?:pass|set)).{0,160}trust_remote_code ?= ?True", ends="other"),
    LogRow("x_files", "Too many open files", r"Too many open files", ends="here"),
)  # fmt: skip

# Signs that something went wrong or well, without a word of what.
SIGNS = (
    LogRow("sign_exit", "code", r"return ?code\W{0,3}?(?P<status__int>-?[1-9]\d{0,9})\b"),
    LogRow("sign_exit", "xit", r"(?:[Ee]xit(?:ed)?(?: with)?(?: code| status)?|exitcode)\W{0,3}?(?P<status__int>-?[1-9]\d{0,9})\b"),
    LogRow("sign_exit", "died", r"\bdied, exit code: (?P<status__int>-?\d{1,5})"),
    LogRow("sign_signal", "signal", r"(?:[Kk]illed by signal|terminated by signal|received signal|signal:) ?(?P<signal>[A-Z]{3,10}|\d{1,2}|[a-z ]{5,24})"),
    LogRow("sign_signal", "SIG", r"\b(?P<signal>SIG(?:ABRT|BUS|FPE|ILL|TRAP))\b"),
    LogRow("sign_signal", "Aborted", r"^Aborted(?: \(core dumped\))?\s{0,4}$"),
    LogRow("sign_error", "rror", r"^\W{0,4}(?:fatal |FATAL )?[Ee]rror: ?\S"),
    LogRow("sign_error", "ERROR", r"^\W{0,4}(?:fatal |FATAL )?ERROR\b ?\S"),
    LogRow("sign_error", "FATAL", r"\bFATAL\b"),
    LogRow("sign_error", "[E]", r"\[[\w-]{2,20}\] (?:\[[\w ]{1,20}\] )?\[E\] "),  # TensorRT-LLM's level, behind who says it
    LogRow("sign_error", "[TensorRT-LLM][ERROR]", r"\[TensorRT-LLM\]\[ERROR\]"),
    LogRow("sign_error", " error", r"\.(?:cu|cpp|cuh):\d{1,6}: (?:CUDA|ROCm|MUSA) error\s*$"),
    LogRow("sign_error", "ailed to ", r"\b[Ff]ailed to (?:load (?:the )?model|create context|initialize the|import)\b"),
    LogRow("sign_error", "failed", r"^[a-z]\w{3,60}: (?!.{0,80}(?:pinned|retrying|falling back|failed\W{1,3}0\b)).{0,80}\bfailed\b"),  # llama.cpp's functions
    LogRow("sign_error", "exiting due to", r"\bexiting due to .{0,40}error"),
    LogRow("sign_error", "Assertion failed", r"\bAssertion failed\b"),
    LogRow("sign_error", "panic: ", r"^panic: "),
    LogRow("sign_error", "level=ERROR", r"level=ERROR"),
    LogRow("sign_backoff", "CrashLoopBackOff", r"CrashLoopBackOff"),
    LogRow("sign_backoff", "Back-off restarting", r"Back-off restarting failed container"),
    LogRow("sign_asked", "HTTP/1", r"\"(?:POST|GET) \S{1,200} HTTP/1\.\d\" [345]\d\d", stage="runtime_request"),
    LogRow("sign_asked", " request ", r"\b(?:Received|Added|Finished|Aborted) request (?:chatcmpl|cmpl|embd|rerank|score|pool|[0-9a-f]{16})"),
    LogRow("sign_served", '" 200', r'HTTP/1\.\d" 200\b', stage="runtime_request", up=True),
    LogRow("sign_served", "| 200 |", r"\[GIN\] .{0,60}\| 200 \|"),  # Ollama
    LogRow("sign_served", "Uvicorn running on", r"Uvicorn running on http"),
)  # fmt: skip
