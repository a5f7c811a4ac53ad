# ruff: noqa: E501 - a row is a line
"""Ollama's log lines: slog key=value pairs around llama.cpp's own lines."""

from oomph.facts.loglines import LogRow

_S = r'"?\[?(?P<{0}__size>[\d.]+ [KMGT]?i?B)\]?"?'

_OFFLOAD = tuple(rf"{key}={_S.format(name)}" for key, name in (
    (r"memory\.available", "available"), (r"memory\.required\.full", "full"), (r"memory\.required\.partial", "partial"),
    (r"memory\.required\.kv", "kv"), (r"memory\.required\.allocations", "allocations"), (r"memory\.weights\.total", "weights"),
    (r"memory\.weights\.nonrepeating", "ends"), (r"memory\.graph\.full", "graph"), (r"projector\.weights", "projector"),
))  # fmt: skip

ROWS = (
    # its own folders, in the paths of sources and models; its own loader of vision towers
    LogRow("ol_path", "llama", r"[\\/]\.?ollama[\\/](?:llm|llama|models|runner|ml)\b|\bmllama_model_load:"),
    LogRow("ol_path", "sha256-", r"blobs[\\/]sha256-[0-9a-f]{16,64}"),
    LogRow("ol_progress", "model load progress", r'msg="model load progress (?P<share__float>[\d.]{1,8})"', stage="weights_load"),
    LogRow("ol_server", "starting llama-server", r'msg="starting llama-server" cmd="(?P<command>.*)"', stage="weights_load"),
    LogRow("ol_runner", 'msg="starting ', r'msg="starting (?:llama server|runner)" cmd="(?P<command>.*)"', stage="weights_load"),
    LogRow("ol_default_context", "vram-based default context", r"default_num_ctx=(?P<num_ctx__int>\d+)"),
    LogRow("ol_offload", "layers.model=", r"layers\.model=(?P<layers__int>\d+) +layers\.offload=(?P<on_gpu__int>\d+)",
           more=(*_OFFLOAD, r"library=(?P<library>\w+)", r'memory\.available="\[(?P<cards>[^\]"]{1,300})\]'), stage="weights_load"),
    # 0.1.3x: layers.real is what goes to the GPU, and the model's layers are not said
    LogRow("ol_offload", "layers.real=", r"layers\.real=(?P<on_gpu__int>\d+) ", more=_OFFLOAD),
    # retold: two of its figures in a sentence
    LogRow("ol_offload", "memory.required.full=", r'memory\.available="\[?(?P<available__size>[\d.]+ [KMGT]iB)\]?".{0,80}memory\.required\.full="(?P<full__size>[\d.]+ [KMGT]iB)"'),
    LogRow("ol_fits", "will fit in available VRAM", r'will fit in available VRAM.{0,200}required="(?P<required__size>[\d.]+ [KMGT]iB)"'),
    LogRow("ol_weights", 'msg="model weights"', r'msg="model weights" (?:buffer|device)=(?P<buffer>\w+) size="(?P<size__size>[\d.]+ [KMGT]iB)"', stage="weights_load"),
    LogRow("ol_kv", 'msg="kv cache"', r'msg="kv cache" device=(?P<buffer>\w+) size="(?P<size__size>[\d.]+ [KMGT]iB)"'),
    LogRow("ol_graph", 'msg="compute graph"', r'msg="compute graph" (?:backend|device)=(?P<buffer>\w+).{0,60}size="(?P<size__size>[\d.]+ [KMGT]?i?B)"'),
    LogRow("ol_total", 'msg="total memory"', r'msg="total memory" size="(?P<size__size>[\d.]+ [KMGT]iB)"'),
    LogRow("ol_system", 'msg="system memory"', r'total="(?P<total__size>[\d.]+ [KMGT]iB)" free="(?P<free__size>[\d.]+ [KMGT]iB)"',
           more=(r'free_swap="(?P<swap__size>[\d.]+ [KMGT]?i?B)"',)),
    LogRow("ol_gpu", 'msg="gpu memory"', r'available="(?P<available__size>[\d.]+ [KMGT]iB)" free="(?P<free__size>[\d.]+ [KMGT]iB)"'),
    LogRow("ol_request", "Operation:", r"Operation:(?P<operation>\w{1,12}) .{0,200}?KvSize:(?P<cells__int>\d+)",
           more=(r"Parallel:(?P<parallel__int>\d+)", r"BatchSize:(?P<batch__int>\d+)", r"GPULayers:(?P<on_gpu__int>\d+)\[")),
    LogRow("ol_host_refused", "requires more system memory",
           r"requires more system memory(?: \((?P<need__size>[\d.]+ [KMGT]iB)\))?(?: than is available \((?P<free__size>[\d.]+ [KMGT]iB)\))?", ends="host_ram", shortage=True),
    LogRow("ol_host_refused", "too large for system", r"[Mm]odel request too large for system",
           more=(r'requested="(?P<need__size>[\d.]+ [KMGT]iB)"', r' free="(?P<free__size>[\d.]+ [KMGT]iB)"')),
    LogRow("ol_layout", "memory layout cannot be allocated", r"memory layout cannot be allocated(?: with num_gpu = (?P<num_gpu__int>\d+))?", ends="weights_load", shortage=True),
    LogRow("ol_layout", "memory for model", r"failed to (?:commit|allocate) memory for model"),
    LogRow("ol_panic", "insufficient memory - required allocations", r"insufficient memory - required allocations: (?P<map>\{.{0,3500})", ends="here", shortage=True),
    LogRow("ol_backoff", "did not fit, applying backoff", r'backoff="?(?P<backoff__float>[\d.]+)'),
    LogRow("ol_runner_died", "process has terminated", r"(?:llama runner|llama-server) process has terminated: (?P<why>.{1,200})", ends="here", shortage=True),
    LogRow("ol_runner_died", "process no longer running", r"(?:llama runner|llama-server) process no longer running:? ?(?P<why>.{0,200})"),
    LogRow("ol_runner_died", "reported out-of-memory during startup", r"llama-server reported (?P<why>out-of-memory during startup(?:: .{0,200})?)"),
    LogRow("ol_runner_died", "llama-server startup failed after", r"llama-server startup failed after projector CPU offload retry:? ?(?P<why>.{0,200})"),
    LogRow("ol_runner_died", "error starting llama-server", r"error starting llama-server:? ?(?P<why>.{0,200})"),
    LogRow("ol_runner_died", "llama-server terminated", r'msg="llama-server terminated" error="?(?P<why>.{1,200})'),
    LogRow("ol_runner_died", "process has terminated", r"(?:llama runner|llama-server) process has terminated\W{0,4}$"),
    LogRow("ol_runner_died", "llama runner exited", r"llama runner exited, (?P<why>you may not have enough (?:available )?memory)"),  # 2023
    LogRow("ol_stopped", "while running the model", r"error was encountered while running the model", ends="runtime_request"),
    LogRow("ol_stopped", "post predict", r'msg="post predict" error='),
    LogRow("ol_stopped", "http://127.0.0.1:", r"http://127\.0\.0\.1:\d{2,5}/(?:completion|embedding|infill)\W{1,4}(?:EOF|read tcp|wsarecv|connect)"),
    LogRow("ol_running", "msg=", r'msg="(?:truncating input prompt|input truncated|aborting completion request|completion request|chat request|context limit hit)', stage="runtime_request"),
    LogRow("ol_waiting", "llm server loading model", r'status="llm server (?:loading model|not responding)"', stage="weights_load"),
    LogRow("ol_stopped", "model runner has unexpectedly stopped", r"model runner has unexpectedly stopped"),
    LogRow("ol_timeout", "timed out waiting for llama", r"timed out waiting for (?:llama runner|llama-server) to start"),
    LogRow("ol_started", "started in", r"(?:llama runner|llama-server) started in (?P<seconds__float>[\d.]+) s", stage="runtime_request", up=True),
    LogRow("ol_retry_context", "reducing automatic context", r"old_num_ctx=(?P<before__int>\d+).{0,40}new_num_ctx=(?P<after__int>\d+)"),
    LogRow("ol_evict", "evicting all other models", r"evicting all other models and retrying once"),
    LogRow("ol_parallel", "OLLAMA_NUM_PARALLEL", r"OLLAMA_NUM_PARALLEL[:=](?P<parallel__int>\d+)"),
    LogRow("ol_line", "ollama", r"github\.com/ollama/ollama|/usr/lib/ollama|/lib/ollama/|/\.ollama/models|/ollama/(?:ml|llm|llama|runner)/"),
    LogRow("ol_line", ".ollama", r"\.ollama\\{1,2}models|/\.ollama/models"),
    LogRow("ol_line", "try pulling it first", r"not found, try pulling it first"),
    LogRow("ol_line", ":11434", r"\b(?:localhost|[\d.]{7,15}|\[::1?\]):11434\b"),  # its port
    LogRow("ol_line", "Internal Server Error: ", r"500 Internal Server Error: (?:unable to load model|llama runner|model runner|model requires)"),
    LogRow("ol_line", "OLLAMA_", r"^\W{0,4}OLLAMA_[A-Z_]{3,40}=\S"),
    LogRow("ol_line", "[GIN] ", r"\[GIN\] \d{4}/\d\d/\d\d - .{0,120}\"/(?:api|v1)/"),
    LogRow("ol_line", "server config env", r"OLLAMA_\w+:"),
    LogRow("ol_line", "llama.go:", r"\bllama\.go:\d{1,5}: "),  # 2023
    LogRow("ol_line", "level=", r'\blevel=(?:INFO|WARN|ERROR|DEBUG) source=\w+\.go:\d+'),
)  # fmt: skip
