# ruff: noqa: E501 - a row is a line
"""SGLang's log lines. Its "GB" are GiB (utils/common.py divides by 1 << 30)."""

from oomph.facts.loglines import LogRow

ROWS = (
    LogRow("sg_args", "server_args=", r"server_args=(?:ServerArgs\(|\{)(?P<args>.*)", shortage=True),  # 0.5.23 prints a dict
    LogRow("sg_load_begin", "oad weight begin", r"[Ll]oad weight begin\.", more=(r"[Aa]vail mem=(?P<avail__GB>[\d.]+) GB",), stage="weights_load"),
    LogRow("sg_weights", "oad weight end", r"[Ll]oad weight end\.", more=(r"[Aa]vail mem=(?P<avail__GB>[\d.]+) GB", r"mem usage=(?P<weights__GB>[\d.]+) GB"), stage="kv_alloc"),
    LogRow("sg_kv", "KV Cache is allocated", r"KV Cache is allocated\.",
           more=(r"#tokens: (?P<tokens__int>\d+)", r"K size: (?P<k__GB>[\d.]+) GB", r"V size: (?P<v__GB>[\d.]+) GB", r"KV size: (?P<kv__GB>[\d.]+) GB"), stage="kv_alloc"),
    LogRow("sg_kv", "KV sizing: KV cache allocated", r"Post-capture KV sizing: KV cache allocated\."),  # the pool behind the graphs, 0.5.23
    LogRow("sg_swa", "sliding window memory pool", r"full_layer_tokens=(?P<full__int>\d+), swa_layer_tokens=(?P<swa__int>\d+)"),
    LogRow("sg_mamba", "Mamba Cache is allocated", r"max_mamba_cache_size: (?P<size__int>\d+)"),
    LogRow("sg_pool", "Memory pool end", r"Memory pool end\. avail mem=(?P<avail__GB>[\d.]+) GB", stage="cudagraph_capture"),
    LogRow("sg_capture_begin", "raph begin", r"Capture (?:target |draft |verify )?(?:decode |prefill )?(?:CUDA|cuda) graph begin\.",
           more=(r"avail mem=(?P<avail__GB>[\d.]+) GB",), stage="cudagraph_capture"),
    LogRow("sg_capture_end", "raph end", r"Capture (?:target |draft |verify )?(?:decode |prefill )?(?:CUDA|cuda) graph end\.",
           more=(r"mem usage=(?P<graphs__GB>[\d.]+) GB", r"avail mem=(?P<avail__GB>[\d.]+) GB"), stage="runtime_request"),
    LogRow("sg_ready", "max_total_num_tokens=", r"max_total_num_tokens=(?P<tokens__int>\d+)",
           more=(r"chunked_prefill_size=(?P<chunk__int>\d+)", r"max_running_requests=(?P<requests__int>\d+)",
                 r"context_len=(?P<context__int>\d+)", r"available_gpu_mem=(?P<avail__GB>[\d.]+) GB"), stage="runtime_request", up=True),
    LogRow("sg_serving", "The server is fired up", r"The server is fired up and ready to roll", stage="runtime_request", up=True),
    LogRow("sg_no_pool", "--mem-fraction-static", r"Not enough memory\. Please try (?:to increase|increasing) --mem-fraction-static", ends="kv_check", shortage=True),
    LogRow("sg_no_pool", "leave no GPU memory", r"Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=(?P<fraction__float>[\d.]*\d)",
           more=(r"Raise --mem-fraction-static above (?P<above__float>[\d.]*\d)",)),
    LogRow("sg_capture_failed", "graph failed", r"Capture (?:cuda|CUDA) graph failed(?:: (?P<why>.{1,300}))?", ends="cudagraph_capture", shortage=True),
    # the advice under it, of which a cut paste holds the last lines
    LogRow("sg_capture_failed", "set --mem-fraction-static to a smaller value", r"set --mem-fraction-static to a smaller value"),
    LogRow("sg_capture_failed", "set --cuda-graph-max-bs", r"^\W{0,4}\d\W{1,3}set --cuda-graph-max-bs to a smaller value"),
    LogRow("sg_capture_failed", "set --cuda-graph-max-bs-", r"set --cuda-graph-max-bs-(?:decode|prefill) to a smaller value"),  # runner_backend_utils/__init__.py (0.5.23)
    LogRow("sg_capture_failed", "raph by --cuda-graph-backend-", r"disable (?:the )?(?:decode|prefill) CUDA graph by --cuda-graph-backend-(?:decode|prefill)=disabled"),
    LogRow("sg_capture_failed", "Fail when using backend:", r"Fail when using backend: \S{1,60} for prefill runner"),
    LogRow("sg_capture_failed", "disable torch compile by not using", r"disable torch compile by not using --enable-torch-compile"),
    LogRow("sg_capture_failed", "raph by --disable-cuda-graph", r"disable (?:cuda|CUDA) graph by --disable-cuda-graph"),
    LogRow("sg_retract", "Retract requests", r"KV cache pool is full\. Retract requests", more=(r"#retracted_reqs: (?P<requests__int>\d+)",), stage="runtime_request", shortage=True),
    LogRow("sg_pool_full", "Try to lower your batch size", r"(?P<phase>Prefill|Decode|)\s?[Oo]ut of memory\. Try to lower your batch size", ends="runtime_request", shortage=True),
    LogRow("sg_pool_full", "Try to allocate", r"Try to allocate \d+ tokens"),
    LogRow("sg_pool_full", "Failed to retract any request", r"Failed to retract any request\. No space left for only one request"),
    LogRow("sg_pool_full", "out of memory", r"\b(?P<phase>Prefill|Decode) out of memory"),
    LogRow("sg_pool_full", "even after retracting", r"[Oo]ut of memory even after retracting all other requests"),
    LogRow("sg_pool_full", "Not enough space for mamba", r"Not enough space for mamba (?:cache|ping pong)"),
    LogRow("sg_no_slots", "alloc_req_slots", r"alloc_req_slots runs out of memory", ends="runtime_request", shortage=True),
    LogRow("sg_no_slots", "req_pool_indices is full", r"req_pool_indices is full! There is a bug in memory estimation"),  # disaggregation/decode.py
    LogRow("sg_no_slots", "is out of reserved slots", r"compressed cache is out of reserved slots"),
    LogRow("sg_pool_full", "KV cache is full!", r"KV cache is full! (?:There is a b|B)ug in memory estimation"),
    LogRow("sg_no_slots", "set a smaller number for `--max-running-requests`", r"[Oo]ut of memory\. Please set a smaller number for `--max-running-requests`"),
    LogRow("sg_no_state", "hybrid (mamba", r"Not enough GPU memory for hybrid \(mamba",
           more=(r"total_rest_memory=(?P<rest__GB>-?[\d.]+) GB", r"mamba_cache_per_req=(?P<state__MB>[\d.]+) MB"), ends="kv_check", shortage=True),
    LogRow("sg_no_state", "state cache is too small to serve", r"state cache is too small to serve any requests"),
    # model_executor/pool_configurator.py: a sliding window's own pool; unified_memory_pool.py: both in one
    LogRow("sg_no_room", "leaves no room for the full", r"SWA pool cap \(\d+ tokens, (?P<part__GB>[\d.]+) Gi?B\) leaves no room for the full KV pool",
           more=(r"within the available (?P<available__GB>-?[\d.]+) Gi?B",), ends="kv_check", shortage=True),
    LogRow("sg_no_room", "ONE worst-case request", r"byte budget (?P<available__B>\d{1,15}) cannot fit ONE worst-case request \(bs=1 floor (?P<need__B>\d{1,15})"),
    # beside the static share: mamba_checkpoint_pool.py, gluon_prefill.py
    LogRow("sg_beside", "HBM is free", r"needs ~(?P<need__GB>[\d.]+) ?GB but only (?P<free__GB>[\d.]+) ?GB HBM is free", ends="here", shortage=True),
    LogRow("sg_beside", "prefill scratch of", r"prefill scratch of \d+ pages \((?P<need__MB>[\d.]+) MiB\) does not fit"),
    # mem_cache/pool_host/, hicache_auto_size.py: GB of 1000^3 bytes
    LogRow("sg_host_pool", "Not enough host memory", r"Not enough host memory (?:available\.|for [\w ./-]{2,80}\.)(?: Requesting (?P<need__float>[\d.]+) GB but only have (?P<free__float>[\d.]+) GB free)?", ends="host_ram", shortage=True),
    LogRow("sg_host_pool", "host memory is left for HiCache", r"No host memory is left for HiCache after the (?P<reserve__int>\d+) GiB reserve"),
    LogRow("sg_host_pool", "for a HiCache host pool failed", r"of (?P<need__float>[\d.]+) GB for a HiCache host pool failed"),
    LogRow("sg_stats", "token usage:", r"(?P<phase>Prefill|Decode) batch\b.{0,120}?token usage: (?P<usage__float>[\d.]*\d)",
           more=(r"#running-req: (?P<running__int>\d+)", r"#queue-req: (?P<waiting__int>\d+)"), stage="runtime_request", up=True),
    LogRow("sg_stats", "new fill batch", r"new fill batch\. #seq: \d+"),  # 0.1
    LogRow("sg_available", "available memory for KV cache", r"The available memory for KV cache is (?P<available__GB>-?[\d.]+) GB", stage="kv_alloc"),
    LogRow("sg_profiled", "larger than the profiled value",
           r"max_total_tokens=(?P<asked__int>\d+) is larger than the profiled value (?P<tokens__int>-?\d+)"),
    LogRow("sg_capture_begin", "Capturing ", r"Capturing (?:batches|num tokens) \((?:bs|num_tokens|avail_mem)"),  # its bar
    LogRow("sg_watchdog", "watchdog", r"self\.watchdog_(?:last_forward_ct|timeout)|Scheduler watchdog timeout", stage="runtime_request"),
    LogRow("sg_init", "Init torch ", r"Init torch (?:distributed )?(?:begin|ends?)\.", more=(r"[Aa]vail mem=(?P<avail__GB>[\d.]+) GB",), stage="startup_free_memory"),
    LogRow("sg_exception", "child process", r"Received sigquit from a child process"),
    LogRow("sg_exception", "cheduler", r"Rank \d+ scheduler (?:is dead|died)"),
    LogRow("sg_exception", "Initialization failed. ", r"Initialization failed\. (?:warmup error|Please see the error messages above)"),
    LogRow("sg_exception", "Server process terminated unexpectedly", r"Server process terminated unexpectedly"),
    LogRow("sg_exception", "hit an exception", r"\b[A-Z]\w{3,40} hit an exception"),  # every manager's process wraps its loop so
    # a request in flight: its id, the room in which prefill and decode instances meet (disaggregation/)
    LogRow("sg_request", "rid=", r"\b(?:req\.)?rid='?[\w-]{2,80}", stage="runtime_request"),
    LogRow("sg_request", "bootstrap_room", r"bootstrap_room\W{1,3}\d"),
    LogRow("x_nccl", "KVTransferError", r"KVTransferError\(.{0,80}?\)?: (?P<what>.{0,160})", ends="here"),
    LogRow("x_nccl", "ransfer failed for request", r"(?:Prefill|Decode) (?:transfer|handshake|bootstrap) failed for request"),
    LogRow("sg_resume_oom", "torch_memory_saver", r"torch_memory_saver\.cpp\].{0,120}out of memory", ends="runtime_request", shortage=True),  # func=resume, cu_mem_create
    LogRow("sg_no_pool", "fraction", r"(?i:not enough memory\b.{0,60}(?:increas|rais|higher|larger)\w{0,4} .{0,20}mem[_-])fraction(?i:[_-]static)"),  # retold
    LogRow("sg_no_pool", "Memory pool size is too small", r"Memory pool size is too small"),  # managers/tp_worker.py
    LogRow("sg_no_pool", "max_running_request is zero", r"max_running_request is zero"),
    LogRow("sg_no_pool", "Not enough memory to allocate KV cache", r"Not enough memory to allocate KV cache"),
    LogRow("sg_unbalanced", "memory capacity is unbalanced", r"memory capacity is unbalanced",
           more=(r"pre_model_load_memory=(?P<least__GB>[\d.]+)", r"local_gpu_memory=(?P<local__GB>[\d.]+)"), ends="startup_free_memory"),
)  # fmt: skip
